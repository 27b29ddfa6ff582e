/**
 * How rows find their experts: they are routed, and where an expert serves several of them their pairs
 * are sorted by expert, of few rows in the same launch.
 *
 * @module
 */
import { type RouteOptions, route } from "../../kernels/moe/route.ts";
import { routeSort } from "../../kernels/moe/route_sort.ts";
import { type SortPairsOptions, sortPairs } from "../../kernels/moe/sort.ts";
import type { Recorder } from "../gpu/recorder.ts";

/**
 * Records the routing of `rows` rows, and sorts the pairs of the first `sorted` rows in tiles where
 * it is told their size.
 */
export type RecordRouting = (rows: number, sorted?: number, tileSize?: number) => void;

export function bindRouting(
  recorder: Recorder,
  /** Without `sorted` pairs are never sorted. */
  {
    sorted,
    slots,
    ...options
  }: RouteOptions & {
    readonly sorted?: Omit<SortPairsOptions, "experts"> | undefined;
    /** Pairs of a row. */
    readonly slots: number;
  },
): RecordRouting {
  const choose = route(recorder, options);
  if (sorted === undefined) return (rows) => choose(rows);
  const arrange = sortPairs(recorder, { ...sorted, experts: options.chosen });
  const both = routeSort(recorder, { ...options, ...sorted });
  return (rows, sortedRows = rows, tileSize) => {
    if (tileSize === undefined) return choose(rows);
    if (rows === sortedRows && both !== undefined && rows <= both.mostRows) {
      return both.record(rows, tileSize);
    }
    choose(rows);
    arrange(sortedRows * slots, tileSize);
  };
}
