/**
 * How many keys the rows of a launch see: what attention costs.
 *
 * @module
 */
import type { StepArrays } from "../../src/gpu/launch_cost.ts";

export interface SeenKeys {
  /** Entries of the cache that some row sees, once for each sequence. */
  readonly keys: number;
  /** The same, once for each row. */
  readonly pairs: number;
}

/** A run of rows: those of a launch over rows, or of one work item. */
export type RowRun = readonly [first: number, count: number];

const ROW_WORDS = 4;
const POSITION = 1;
const FIRST_PAGE = 3;
const ITEM_WORDS = 8;

/** @param window Keys that a row sees, its own the last. Default all. */
export function seenKeys(
  { rows }: StepArrays,
  runs: readonly RowRun[],
  window = Number.POSITIVE_INFINITY,
): SeenKeys {
  let keys = 0;
  let pairs = 0;
  let sequence = -1;
  let end = 0;
  for (const [first, count] of runs) {
    for (let at = first * ROW_WORDS; at < (first + count) * ROW_WORDS; at += ROW_WORDS) {
      const seen = rows[at + POSITION]! + 1;
      const start = Math.max(0, seen - window);
      pairs += seen - start;
      // Rows of one sequence follow each other, and so do their positions.
      keys += rows[at + FIRST_PAGE] === sequence ? seen - end : seen - start;
      sequence = rows[at + FIRST_PAGE]!;
      end = seen;
    }
  }
  return { keys, pairs };
}

/** The rows of the work items `[first, first + count)`. */
export function itemRows({ items }: StepArrays, first: number, count: number): readonly RowRun[] {
  return Array.from({ length: count }, (_, i) => {
    const at = (first + i) * ITEM_WORDS;
    return [items[at]!, items[at + 1]!];
  });
}

/** The same of items that each see the keys `[first, first + count)` of a workspace, by position. */
export function seenInWorkspace(
  { rows, items }: StepArrays,
  first: number,
  count: number,
): SeenKeys {
  let keys = 0;
  let pairs = 0;
  let workspaceRow = -1;
  for (let at = first * ITEM_WORDS; at < (first + count) * ITEM_WORDS; at += ITEM_WORDS) {
    const [row, rowCount, workspace, firstKey, keyCount] = items.subarray(at, at + 5);
    // Items of one sequence follow each other, and share their keys.
    if (workspace !== workspaceRow) keys += keyCount!;
    workspaceRow = workspace!;
    for (let r = row!; r < row! + rowCount!; r++) {
      const seen = rows[r * ROW_WORDS + POSITION]! + 1 - firstKey!;
      pairs += Math.min(Math.max(seen, 0), keyCount!);
    }
  }
  return { keys, pairs };
}
