/**
 * In which order the granules and the scales of a weight matrix lie: the one place on the host that
 * knows. weight_order.wgsl is the one of the kernels.
 *
 * A row is cut into granules of 16 bytes. Rows are put together in runs of `lanes * rowsPerLane`
 * neighbours, and the granules of a run lie side by side: granule g of row r is number
 * `(floor(r / run) * granulesPerRow + g) * run + r % run`. With one row per lane, the four rows that
 * an invocation multiplies lie in four runs; with four they lie in one.
 *
 * Scale g of row r is word `g * rowsPadded + r` in the order "byGroup". In the order "byRun" it is
 * word `(floor(r / run) * groups + g) * run + r % run`: the scales of a run lie together, as its
 * granules do.
 *
 * @module
 */
import type { Tuning } from "../../../src/gpu/tuning.ts";

/** What of a tuning says where a weight's words lie. */
export type WeightOrder = Pick<Tuning, "lanes" | "rowsPerLane" | "scaleOrder">;

/** Index of the scale word, or of the granule, with this number in a row. */
export type PlaceOf = (row: number, number: number) => number;

export function orderOf({ lanes, rowsPerLane, scaleOrder }: WeightOrder): WeightOrder {
  return {
    lanes,
    ...(rowsPerLane !== undefined && { rowsPerLane }),
    ...(scaleOrder !== undefined && { scaleOrder }),
  };
}

/** Rows whose granules lie side by side. */
export function runRows({ lanes, rowsPerLane = 1 }: WeightOrder): number {
  return lanes * rowsPerLane;
}

/**
 * Rows of an invocation that certainly lie in one run, where runs have so many, of a matrix of which each
 * `groupRows` rows begin an invocation's anew.
 */
export function rowsTogether(
  { rows, ...order }: WeightOrder & { readonly rows: number },
  groupRows: number,
): 1 | 4 {
  return groupRows >= rows || groupRows % runRows(order) === 0 ? 4 : 1;
}

/** Rows with those of zeros that fill the last run. */
export function paddedRows(rows: number, order: WeightOrder): number {
  const run = runRows(order);
  return Math.ceil(rows / run) * run;
}

/** First row of the `up` half of a fused gate-and-up weight, and the rows of both halves. */
export function gateUpRows(
  intermediate: number,
  order: WeightOrder,
): { readonly upRow: number; readonly rows: number } {
  const upRow = paddedRows(intermediate, order);
  return { upRow, rows: 2 * upRow };
}

export function granulePlace(order: WeightOrder, granulesPerRow: number): PlaceOf {
  const run = runRows(order);
  return (row, granule) => (Math.floor(row / run) * granulesPerRow + granule) * run + (row % run);
}

/** Words from a run's first scale to that of the next run, and to that of the next group. */
export function scaleSteps(
  order: WeightOrder,
  { rowsPadded, groups }: { readonly rowsPadded: number; readonly groups: number },
): { readonly run: number; readonly group: number } {
  const run = runRows(order);
  return order.scaleOrder === "byRun"
    ? { run: groups * run, group: run }
    : { run, group: rowsPadded };
}

/** @param size `groups` of a row that have a scale word of their own. */
export function scalePlace(
  order: WeightOrder,
  size: { readonly rowsPadded: number; readonly groups: number },
): PlaceOf {
  const run = runRows(order);
  const steps = scaleSteps(order, size);
  return (row, group) => Math.floor(row / run) * steps.run + group * steps.group + (row % run);
}
