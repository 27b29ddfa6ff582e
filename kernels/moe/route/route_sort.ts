import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import { GRID_WORDS } from "../../../src/gpu/tensor.ts";
import sumBefore from "../../common/dot/sum_before.wgsl?raw";
import {
  ROUTE_BUFFERS,
  ROUTE_PARAMS,
  ROUTE_TEXT,
  type RouteOptions,
  routeConstants,
  routeCost,
  routeParams,
  routeTensors,
} from "./route.ts";
import source from "./route_sort.wgsl?raw";
import type { SortPairsOptions } from "./sort.ts";

const kernel = new Kernel({
  name: "moe/route_sort",
  source: ROUTE_TEXT + sumBefore + source,
  buffers: [...ROUTE_BUFFERS, "sorted_pairs", "tiles", "grids"],
  params: [...ROUTE_PARAMS, "rows", "row_words", "physical", "experts_each", "tile_size", "grids"],
});

/** Rows that are routed side by side, `TEAM` invocations each, and the scan over all of those. */
const FORMS = {
  together: { TEAMS: 4, SCAN_BLOCK: 16 },
  oneByOne: { TEAMS: 1, SCAN_BLOCK: 8 },
} as const;
const TEAM = 64;
/** Of a team, and `physical` experts of the workgroup, so that there is room for all of them. */
const MOST = { experts: 256, groups: 16, topK: 16, physical: 384 } as const;
const MASK_WORDS = 640;
/** Rows of a launch at most: one workgroup routes them all. */
const MOST_ROWS = 64;

export type RouteSortOptions = RouteOptions &
  Pick<SortPairsOptions, "expertCount" | "sortedPairs" | "tiles" | "grids"> & {
    /** Whether invocations run one after another: then rows are routed so too. Default false. */
    readonly sequential?: boolean;
  };

export interface RouteSort {
  /** Records one launch over so many rows, at most `mostRows`. */
  readonly record: (rows: number, tileSize: number) => void;
  readonly mostRows: number;
}

/**
 * What `route` and then `sortPairs` make of few rows, in one launch: picks experts for every row,
 * and orders the pairs of rows and experts by expert.
 *
 * Binds the tensors now; undefined where a workgroup has no room for so many experts, or the device
 * binds too few buffers to a kernel.
 */
export function routeSort(recorder: Recorder, options: RouteSortOptions): RouteSort | undefined {
  const { experts, topK, groups = 1, expertCount, sortedPairs, tiles, grids } = options;
  const form = options.sequential === true ? FORMS.oneByOne : FORMS.together;
  const { maxStorageBuffersPerShaderStage: buffers } = recorder.device.limits;
  const fits =
    experts <= MOST.experts &&
    topK <= MOST.topK &&
    groups <= MOST.groups &&
    expertCount <= MOST.physical &&
    buffers >= kernel.interface.buffers.length;
  if (!fits) return undefined;
  const rowWords = Math.min(Math.floor(MASK_WORDS / expertCount), Math.ceil(MOST_ROWS / 32));
  const bound = kernel.bind(
    recorder,
    { ...routeTensors(options), sorted_pairs: sortedPairs, tiles, grids },
    {
      constants: {
        ...routeConstants(options),
        ...form,
        MAX_EXPERTS: MOST.experts,
        MAX_GROUPS: MOST.groups,
        MAX_TOP_K: MOST.topK,
      },
      params: {
        ...routeParams(options),
        row_words: rowWords,
        physical: expertCount,
        experts_each: Math.ceil(expertCount / (TEAM * form.TEAMS)),
        grids: grids.size / (4 * GRID_WORDS),
      },
      cost: ({ param }) => {
        const { bytes, flops } = routeCost(options, param("rows"));
        const pairs = param("rows") * (param("top_k") + param("shared_count"));
        return { bytes: bytes + 8 * pairs, flops };
      },
    },
  );
  return {
    mostRows: Math.min(32 * rowWords, MOST_ROWS),
    record: (rows, tileSize) => {
      bound.set("rows", rows);
      bound.set("tile_size", tileSize);
      bound.record(1);
    },
  };
}
