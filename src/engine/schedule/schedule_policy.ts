/**
 * What decides which of the waiting sequences that have the same priority starts first.
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

/** Waiting sequences, and their tokens, beyond which looking all of them up costs more than it gains. */
const MOST_LOOKUPS = 128;
const MOST_LOOKUP_TOKENS = 2 ** 20;

/** @throws {InvalidRequestError} unless it is a whole number; 0 when it is absent. */
export function requirePriority(priority = 0): number {
  if (Number.isSafeInteger(priority)) return priority;
  throw new InvalidRequestError(`priority must be a whole number, got ${priority}`, "priority");
}

/** The lowest first, for policies that need to know of no other sequence; what is equal stays as it came. */
export function rankAlone(policy: SchedulePolicy, { maxNewTokens }: Sequence): number {
  if (policy === "lof") return -maxNewTokens;
  return policy === "random" ? Math.random() : 0;
}

/**
 * The order by what the cache has of the sequences, the higher priority first all the same.
 *
 * @param waiting In the order in which they came.
 * @returns `undefined` where the policy does not look at the cache, or too much waits to be looked up.
 */
export function orderByCache(
  policy: SchedulePolicy,
  waiting: ReadonlySet<Sequence>,
  pages: SequencePages,
): readonly Sequence[] | undefined {
  const looksUp = policy === "lpm" || policy === "dfs-weight";
  if (!looksUp || !pages.shares || waiting.size > MOST_LOOKUPS) return undefined;
  const listed = [...waiting];
  const tokens = listed.reduce((sum, one) => sum + one.tokens.length, 0);
  if (listed.length > 1 && tokens > MOST_LOOKUP_TOKENS) return undefined;
  const looks = listed.map((sequence) => pages.look(sequence));
  const ranks = policy === "lpm" ? looks.map((look) => -look.tokens) : depthFirstRanks(looks);
  return listed
    .map((sequence, i) => ({ sequence, rank: ranks[i]! }))
    .sort((a, b) => b.sequence.priority - a.sequence.priority || a.rank - b.rank)
    .map(({ sequence }) => sequence);
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
