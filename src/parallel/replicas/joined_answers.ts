/**
 * What several replicas answer, as one engine answers it.
 *
 * @module
 */
import type { ExpertRecord } from "../../expert_record.ts";
import type { CacheTree, CacheTreeNode } from "../../prefix_cache.ts";
import type { PlacedSpans, Profile, RankSpans } from "../../profile.ts";

/** A replica's profile, and when it began, in milliseconds. */
export interface BegunProfile {
  readonly replica: number;
  readonly begun: number;
  readonly profile: Profile;
}

/** All kernels, and all spans on the clock of the profile that began first. */
export function joinedProfile(profiles: readonly BegunProfile[]): Profile {
  const first = profiles.reduce((least, { begun }) => Math.min(least, begun), Infinity);
  const joined = profiles.map(({ replica, begun, profile }) => {
    const later = 1000 * (begun - first);
    const { otherRanks = [], steps, microseconds, omittedSpans } = profile;
    const ranks = [{ ...ownOf(profile), rank: 0, clockError: 0 }, ...otherRanks];
    const placed = ranks.map((spans) => ({ ...movedSpans(spans, later), replica }));
    return { ranks: placed, steps, omittedSpans, end: later + microseconds };
  });
  const [own, ...otherRanks] = joined.flatMap(({ ranks }) => ranks);
  return {
    rates: profiles[0]!.profile.rates,
    steps: joined.reduce((sum, { steps }) => sum + steps, 0),
    microseconds: joined.reduce((most, { end }) => Math.max(most, end), 0),
    ...ownOf(own!),
    replica: own!.replica,
    omittedSpans: joined.reduce((sum, one) => sum + one.omittedSpans, 0),
    otherRanks,
  };
}

/** What the first rank of a profile did. */
function ownOf({ kernels, launches, host, exchanges }: Omit<PlacedSpans, "rank">) {
  return { kernels, launches, host, exchanges };
}

/** The same so many microseconds later. */
function movedSpans(spans: RankSpans, later: number): RankSpans {
  const moved = <Span extends { readonly start: number }>(span: Span): Span => {
    return { ...span, start: span.start + later };
  };
  const { launches, host, exchanges } = spans;
  return {
    ...spans,
    launches: launches.map(moved),
    host: host.map(moved),
    exchanges: exchanges.map(moved),
  };
}

/** One behind the other, as nothing is shared between them. @param maxNodes That are kept. */
export function joinedTree(trees: readonly CacheTree[], maxNodes: number): CacheTree {
  const nodes: CacheTreeNode[] = [];
  let partitions = 0;
  for (const tree of trees) {
    const [before, others] = [nodes.length, partitions];
    for (const node of tree.nodes) {
      const parent = node.parent === -1 ? -1 : node.parent + before;
      partitions = Math.max(partitions, others + node.partition + 1);
      nodes.push({ ...node, parent, partition: node.partition + others });
    }
  }
  return {
    pageSize: trees[0]!.pageSize,
    nodes: nodes.slice(0, maxNodes),
    isComplete: nodes.length <= maxNodes && trees.every(({ isComplete }) => isComplete),
  };
}

/** The choices of all replicas together. */
export function joinedRecord(records: readonly ExpertRecord[]): ExpertRecord {
  const passes = records.reduce((sum, one) => sum + one.passes, 0);
  const evenness = records.reduce((sum, one) => sum + (one.balancedness ?? 0) * one.passes, 0);
  const isMeasured = records.some(({ balancedness }) => balancedness !== null);
  return {
    mode: records[0]!.mode,
    records: records.flatMap((one) => one.records),
    placement: records[0]!.placement,
    isRecording: records.some(({ isRecording }) => isRecording),
    passes,
    logicalCount: records[0]!.logicalCount.map((layer, l) =>
      layer.map((_, e) => records.reduce((sum, one) => sum + one.logicalCount[l]![e]!, 0)),
    ),
    balancedness: isMeasured ? evenness / Math.max(passes, 1) : null,
  };
}
