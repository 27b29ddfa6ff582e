/**
 * Which decode rows of a batch share the reads of attention: neighbours of one sequence, as many as
 * a workgroup takes. None do in a batch with draft trees, whose rows see different keys.
 *
 * @module
 */
import { SHARED_ROWS } from "../../../kernels/attention/split_launch.ts";
import type { BatchSequence } from "../batch.ts";

/** Words of a group: first row, row count. */
export const GROUP_WORDS = 2;

/** Rows of a group, on average, from which on sharing reads pays: a group takes longer than a row. */
const WORTH_SHARING = 2;

/**
 * Writes the groups of all decode rows to `groups`.
 *
 * @returns How many there are; 0 where each row had better read for itself.
 */
export function fillRowGroups(groups: Uint32Array, sequences: readonly BatchSequence[]): number {
  let count = 0;
  let rows = 0;
  for (const { phase, queryStart, queryLength, tree } of sequences) {
    if (tree !== undefined) return 0;
    if (phase === "prefill") continue;
    rows += queryLength;
    for (let row = 0; row < queryLength; row += SHARED_ROWS) {
      groups[count * GROUP_WORDS] = queryStart + row;
      groups[count * GROUP_WORDS + 1] = Math.min(SHARED_ROWS, queryLength - row);
      count += 1;
    }
  }
  return rows >= WORTH_SHARING * count ? count : 0;
}
