import { defineCheck } from "../../check.ts";
import { countedGrids, GRIDS, sortedTiles } from "../experts/check_tiles.ts";
import { sortPairs, tileLimit } from "./sort.ts";

interface Shape {
  readonly pairs: number;
  readonly expertCount: number;
  readonly tileSize: number;
  /** Above 1: low experts are met more often. */
  readonly skew: number;
  /** Pairs before it are left out. Default 0. */
  readonly first?: number;
}

export default defineCheck<Shape>({
  name: "moe/sort",
  cases: [
    { pairs: 700, expertCount: 70, tileSize: 8, skew: 1 }, // two passes, runs of 11 pairs
    { pairs: 1, expertCount: 1, tileSize: 4, skew: 1 },
    { pairs: 9, expertCount: 8, tileSize: 4, skew: 1 }, // one pass
    { pairs: 255, expertCount: 9, tileSize: 1, skew: 3 },
    { pairs: 257, expertCount: 257, tileSize: 64, skew: 1 },
    { pairs: 3000, expertCount: 1280, tileSize: 16, skew: 2 }, // four passes of the form for many
    { pairs: 90, expertCount: 20, tileSize: 4, skew: 1, first: 13 },
    { pairs: 8192 * 9, expertCount: 257, tileSize: 32, skew: 1 },
  ],
  tunings: [{ fewPairs: 1024 }, { fewPairs: 0 }],
  tolerance: 0,
  bytes: ({ pairs }) => pairs * 8,
  flops: () => 0,
  mutants: [
    {
      name: "experts are counted from the first pair",
      replace: "experts[params.first_pair + i]",
      with: "experts[i]",
      case: 6,
    },
    {
      name: "pairs are those from the first on",
      replace: "return params.first_pair + i;",
      with: "return i;",
      case: 6,
    },
    {
      name: "tiles are too long",
      replace: "min(params.tile_size, count - done)",
      with: "count - done",
    },
    {
      name: "a pass is left out",
      replace: "pass_index < params.passes",
      with: "pass_index + 2u < params.passes",
    },
    {
      name: "the first pairs only",
      replace: "let end = min(first + run, params.pairs)",
      with: "let end = min(first + 2u, params.pairs)",
    },
    { name: "tiles do not move on", replace: "next.x + done", with: "next.x" },
    { name: "earlier blocks are not added", replace: "before += scan_blocks[i];", with: "" },
    {
      name: "earlier invocations of the block are not added",
      replace: "before += scan_values[i];",
      with: "",
    },
    {
      name: "an invocation has one expert",
      replace: "invocation * params.experts_each",
      with: "invocation",
    },
    { name: "no first tile", replace: "vec4u(next.y, 0u, 0u, 0u)", with: "vec4u(0u)" },
    { name: "the first launch alone is told", replace: "i < params.grids", with: "i < 1u" },
    {
      name: "every pass reads the same buffer",
      replace: "return sorted_pairs[i];",
      with: "return scratch[i];",
      case: 5,
    },
  ],

  inputs: ({ pairs, expertCount, skew, first = 0 }, random) => ({
    experts: Uint32Array.from({ length: first + pairs }, () =>
      Math.floor(random() ** skew * expertCount),
    ),
    scratch: new Uint32Array(pairs).fill(0xdeadbeef),
    grids: GRIDS,
  }),

  reference({ pairs, expertCount, tileSize, first }, { experts }) {
    // Entries after the last tile keep their poison.
    const limit = tileLimit(pairs, expertCount, tileSize);
    const { sorted_pairs, tiles } = sortedTiles(experts!, { limit, tileSize, first });
    return { sorted_pairs, tiles, grids: countedGrids(tiles) };
  },

  bind(recorder, { pairs, expertCount, tileSize, first }, tensors, tuning) {
    const launch = sortPairs(recorder, {
      experts: tensors.experts!,
      expertCount,
      sortedPairs: tensors.sorted_pairs!,
      scratch: tensors.scratch!,
      tiles: tensors.tiles!,
      grids: tensors.grids!,
      ...tuning,
    });
    return () => launch(pairs, tileSize, first);
  },
});
