import { defineCheck } from "../../check.ts";
import { countedGrids, GRIDS, sortedTiles } from "../experts/check_tiles.ts";
import {
  GREEDY,
  PLAIN,
  type RouteShape,
  randomLogits,
  routedRows,
  routeOptions,
  V2,
  V3,
} from "./check_route.ts";
import { routeSort } from "./route_sort.ts";
import { tileLimit } from "./sort.ts";

interface Shape extends RouteShape {
  readonly tileSize: number;
}

/** The last of the shared experts ends here. */
const physical = ({ experts, shared }: Shape) => experts + 9 + shared;
const pairsOf = ({ rows, topK, shared }: Shape) => rows * (topK + shared);
const limitOf = (shape: Shape) => tileLimit(pairsOf(shape), physical(shape), shape.tileSize);

/** Rules of routing are those of moe/route, whose check has more of them. */
export default defineCheck<Shape>({
  name: "moe/route_sort",
  storageBuffers: 9,
  cases: [
    // Of the last round one row; experts with pairs of rows in both words.
    {
      ...V3,
      rows: 41,
      experts: 66,
      topK: 4,
      groups: 6,
      keptGroups: 3,
      padding: 2,
      biased: true,
      shared: 2,
      step: 0,
      tileSize: 4,
    },
    { ...V2, ...PLAIN, rows: 32, experts: 16, topK: 3, groups: 4, keptGroups: 2, tileSize: 16 },
    { ...GREEDY, ...PLAIN, rows: 1, experts: 9, topK: 3, step: 0.5, tileSize: 4 },
    // Several experts an invocation.
    { ...GREEDY, ...PLAIN, rows: 9, experts: 256, topK: 16, shared: 1, tileSize: 1 },
    {
      ...V3,
      rows: 64,
      experts: 256,
      topK: 8,
      groups: 8,
      keptGroups: 4,
      padding: 0,
      biased: true,
      shared: 1,
      step: 0,
      tileSize: 4,
    }, // 671B model
  ],
  tunings: [{}, { sequential: 1 }],
  tunedCases: [0, 3],
  exactAcrossTunings: true,
  tolerance: 1e-5,
  bytes: (shape) => {
    const { rows, experts } = shape;
    return (rows * experts + 4 * pairsOf(shape) + 3 * experts) * 4;
  },
  flops: ({ rows, experts }) => rows * experts * experts,
  mutants: [
    {
      name: "teams share scores",
      replace: "let own = team * MAX_EXPERTS;",
      with: "let own = 0u;",
    },
    {
      name: "teams share groups",
      replace: "let own_group = team * MAX_GROUPS;",
      with: "let own_group = 0u;",
    },
    {
      name: "teams share picks",
      replace: "let first_pick = team * MAX_TOP_K;",
      with: "let first_pick = 0u;",
    },
    {
      name: "teams share values",
      replace: "var i = team * TEAM; i < (team + 1u) * TEAM;",
      with: "var i = 0u; i < TEAM;",
      case: 1,
    },
    {
      name: "a row too many is routed",
      replace: "invocation, row < params.rows)",
      with: "invocation, true)",
    },
    { name: "one round", replace: "first < params.rows;", with: "first < TEAMS;" },
    {
      name: "one word of rows an expert",
      replace: "expert * params.row_words + row / 32u",
      with: "expert * params.row_words",
    },
    {
      name: "pairs of the first word alone count",
      replace: "word <= end / 32u",
      with: "word < 1u",
    },
    {
      name: "pairs of the last word do not count",
      replace: "if word == params.row_words { break; }",
      with: "if word + 1u == params.row_words { break; }",
    },
    {
      name: "later pairs come before",
      replace: "if word == end / 32u {",
      with: "if false {",
    },
    {
      name: "shared experts have no pairs",
      replace: "picked(row, expert);",
      with: "",
    },
    {
      name: "pairs start anywhere",
      replace: "starts[expert] + pairs_before",
      with: "pairs_before",
    },
    {
      name: "an invocation has one expert",
      replace: "invocation * params.experts_each",
      with: "invocation",
      case: 3,
    },
    {
      name: "tiles are too long",
      replace: "min(params.tile_size, count - done)",
      with: "count - done",
    },
    { name: "tiles do not move on", replace: "next.x + done", with: "next.x" },
    { name: "no first tile", replace: "vec4u(next.y, 0u, 0u, 0u)", with: "vec4u(0u)" },
    { name: "the first launch alone is told", replace: "i < params.grids", with: "i < 1u" },
  ],

  inputs: (shape, random) => ({ ...randomLogits(shape, random), grids: GRIDS }),

  reference(shape, inputs) {
    const routed = routedRows(shape, inputs);
    const { tileSize } = shape;
    const lists = sortedTiles(routed.chosen, { limit: limitOf(shape), tileSize });
    return { ...routed, ...lists, grids: countedGrids(lists.tiles) };
  },

  bind(recorder, shape, tensors, { sequential = 0 }) {
    const launch = routeSort(recorder, {
      sequential: sequential === 1,
      ...routeOptions(shape, tensors),
      expertCount: physical(shape),
      sortedPairs: tensors.sorted_pairs!,
      tiles: tensors.tiles!,
      grids: tensors.grids!,
    })!;
    return () => launch.record(shape.rows, shape.tileSize);
  },
});
