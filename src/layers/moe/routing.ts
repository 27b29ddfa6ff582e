/**
 * How rows find their experts: they are routed, and where an expert serves several of them their pairs
 * are sorted by expert, of few rows in the same launch.
 *
 * @module
 */
import { type RouteOptions, route } from "../../../kernels/moe/route/route.ts";
import {
  type RouteSort,
  type RouteSortOptions,
  routeSort,
} from "../../../kernels/moe/route/route_sort.ts";
import { type SortPairsOptions, sortPairs } from "../../../kernels/moe/route/sort.ts";
import type { Recorder } from "../../gpu/recorder.ts";

export interface Routing {
  /** Finds the experts of so many rows. */
  readonly choose: (rows: number) => void;
  /** Sorts so many pairs in tiles of a size; absent where pairs are never sorted. */
  readonly sort?: (pairs: number, tileSize: number) => void;
  /** Both, of few rows; absent where there is no room for it too. */
  readonly chooseAndSort?: RouteSort | undefined;
}

/** @param sorted Where sorted pairs go; without it pairs are never sorted. */
export function bindRouting(
  recorder: Recorder,
  options: RouteOptions,
  sorted: (Omit<SortPairsOptions, "experts"> & Pick<RouteSortOptions, "sequential">) | undefined,
): Routing {
  const choose = route(recorder, options);
  if (sorted === undefined) return { choose };
  return {
    choose,
    sort: sortPairs(recorder, { ...sorted, experts: options.chosen }),
    chooseAndSort: routeSort(recorder, { ...options, ...sorted }),
  };
}
