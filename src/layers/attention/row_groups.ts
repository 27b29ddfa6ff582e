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
 * @param padding Rows that fill the batch up, each a group of its own where others share.
 * @returns How many there are; 0 where each row had better read for itself.
 */
export function fillRowGroups(
  groups: Uint32Array,
  sequences: readonly BatchSequence[],
  padding: { readonly first: number; readonly rows: number } = { first: 0, rows: 0 },
): number {
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
  if (count === 0 || rows < WORTH_SHARING * count) return 0;
  for (let i = 0; i < padding.rows; i++) {
    groups.set([padding.first + i, 1], (count + i) * GROUP_WORDS);
  }
  return count + padding.rows;
}
