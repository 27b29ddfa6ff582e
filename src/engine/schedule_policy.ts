/**
 * In which order waiting sequences are admitted.
 *
 * @module
 */
import type { Sequence } from "./sequence.ts";
import type { SequencePages } from "./sequence_pages.ts";

/**
 * `fcfs`: as they came. `lpm`: the longest prefix in the cache first. `lof`: those that may
 * generate most first. `random`: any.
 */
export const SCHEDULE_POLICIES = ["fcfs", "lpm", "lof", "random"] as const;
export type SchedulePolicy = (typeof SCHEDULE_POLICIES)[number];

/** Waiting sequences beyond which looking all of them up costs more than it gains. */
const MOST_LOOKUPS = 128;

/** Retracted sequences stay in front: they have waited, and somebody is reading their answer. */
export function inOrder(
  policy: SchedulePolicy,
  waiting: readonly Sequence[],
  pages: SequencePages,
): readonly Sequence[] {
  if (policy === "fcfs" || waiting.length < 2) return waiting;
  if (policy === "lpm" && waiting.length > MOST_LOOKUPS) return waiting;
  const rank = {
    lpm: (sequence: Sequence) => -pages.cachedPrefix(sequence),
    lof: (sequence: Sequence) => -sequence.maxNewTokens,
    random: () => Math.random(),
  }[policy];
  const ranked = waiting.map((sequence) => ({
    sequence,
    retracted: sequence.retractions > 0 ? 0 : 1,
    rank: rank(sequence),
  }));
  return ranked
    .sort((a, b) => a.retracted - b.retracted || a.rank - b.rank)
    .map(({ sequence }) => sequence);
}
