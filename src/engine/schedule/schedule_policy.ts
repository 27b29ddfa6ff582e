/**
 * In which order waiting sequences are admitted.
 *
 * Retracted sequences stay in front: they have waited, and a client is reading their answer. Behind
 * them stand those that were overtaken too often, so that no request waits for ever, then the rest
 * by their priority, and by the policy where it is the same. What is equal keeps the order in which
 * it came.
 *
 * @module
 */
import type { PrefixLook, RadixNode } from "../../cache/radix_cache.ts";
import { InvalidRequestError } from "../../errors.ts";
import type { Sequence } from "./sequence.ts";
import type { SequencePages } from "./sequence_pages.ts";

/**
 * `fcfs`: as they came. `lpm`: the longest prefix in the cache first. `dfs-weight`: through the tree
 * of the prefix cache, depth first, where most sequences wait first. `lof`: those that may generate
 * most first. `random`: any. The two that look at the cache are `fcfs` where there is none.
 */
export const SCHEDULE_POLICIES = ["fcfs", "lpm", "dfs-weight", "lof", "random"] as const;
export type SchedulePolicy = (typeof SCHEDULE_POLICIES)[number];

/** Waiting sequences beyond which looking all of them up costs more than it gains. */
const MOST_LOOKUPS = 128;
/** Later sequences that may be admitted before one that waits. */
export const MOST_OVERTAKEN = 256;

/** @throws {InvalidRequestError} unless it is a whole number; 0 when it is absent. */
export function requirePriority(priority = 0): number {
  if (Number.isSafeInteger(priority)) return priority;
  throw new InvalidRequestError(`priority must be a whole number, got ${priority}`, "priority");
}

/** @param waiting In the order in which they came, retracted ones in front. */
export function inOrder(
  policy: SchedulePolicy,
  waiting: readonly Sequence[],
  pages: SequencePages,
): readonly Sequence[] {
  if (waiting.length < 2) return waiting;
  const ranks = policyRanks(policy, waiting, pages);
  const [first] = waiting;
  if (ranks === undefined && waiting.every((one) => one.priority === first!.priority)) {
    return waiting;
  }
  const ranked = waiting.map((sequence, i) => ({
    sequence,
    group: waitGroup(sequence),
    rank: ranks?.[i] ?? 0,
  }));
  return ranked
    .sort((a, b) => {
      if (a.group !== b.group) return a.group - b.group;
      if (a.group < IN_TURN) return 0;
      return b.sequence.priority - a.sequence.priority || a.rank - b.rank;
    })
    .map(({ sequence }) => sequence);
}

/** The group of sequences that wait for their turn; those before it have waited enough. */
const IN_TURN = 2;

function waitGroup({ retractions, overtaken }: Sequence): number {
  if (retractions > 0) return 0;
  return overtaken >= MOST_OVERTAKEN ? 1 : IN_TURN;
}

/** The lowest first; undefined when the policy leaves the order as it is. */
function policyRanks(
  policy: SchedulePolicy,
  waiting: readonly Sequence[],
  pages: SequencePages,
): readonly number[] | undefined {
  if (policy === "fcfs") return undefined;
  if (policy === "lof") return waiting.map(({ maxNewTokens }) => -maxNewTokens);
  if (policy === "random") return waiting.map(() => Math.random());
  if (!pages.shares || waiting.length > MOST_LOOKUPS) return undefined;
  const looks = waiting.map((sequence) => pages.look(sequence));
  return policy === "lpm" ? looks.map(({ tokens }) => -tokens) : depthFirstRanks(looks);
}

/**
 * Positions in a walk through the tree: below each node the child with most sequences first, then
 * those that end at the node itself.
 */
function depthFirstRanks(looks: readonly PrefixLook[]): readonly number[] {
  const weights = new Map<RadixNode, number>();
  /** The first sequence below each node; no two children of a node have the same. */
  const firsts = new Map<RadixNode, number>();
  looks.forEach(({ path }, i) => {
    for (const node of path) {
      weights.set(node, (weights.get(node) ?? 0) + 1);
      if (!firsts.has(node)) firsts.set(node, i);
    }
  });
  const compare = (a: number, b: number): number => {
    const [one, other] = [looks[a]!.path, looks[b]!.path];
    const shorter = Math.min(one.length, other.length);
    let depth = 0;
    while (depth < shorter && one[depth] === other[depth]) depth += 1;
    if (depth === shorter) {
      return other.length - one.length || looks[b]!.tokens - looks[a]!.tokens || a - b;
    }
    const [left, right] = [one[depth]!, other[depth]!];
    return weights.get(right)! - weights.get(left)! || firsts.get(left)! - firsts.get(right)!;
  };
  const ranks = new Array<number>(looks.length).fill(0);
  const walk = Array.from(looks.keys()).sort(compare);
  walk.forEach((sequence, position) => {
    ranks[sequence] = position;
  });
  return ranks;
}
