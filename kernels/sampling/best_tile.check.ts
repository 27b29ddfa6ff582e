import { defineCheck } from "../check.ts";
import { bestTile } from "./best_tile.ts";

interface Shape {
  readonly rows: number;
  readonly count: number;
  readonly padding: number;
}

export default defineCheck<Shape>({
  name: "sampling/best_tile",
  cases: [
    { rows: 5, count: 133, padding: 3 },
    { rows: 2, count: 1, padding: 0 },
    { rows: 2, count: 2020, padding: 0 }, // 64 outputs each: the 671B model
  ],
  tunings: [{ workgroupSize: 64 }, { workgroupSize: 256 }],
  tolerance: 0,
  bytes: ({ rows, count }) => rows * count * 8,
  flops: () => 0,
  mutants: [
    {
      name: "ties go to the highest column",
      replace: "index < other_index",
      with: "index > other_index",
    },
    { name: "rows are their tiles apart", replace: "params.stride", with: "params.tile_count" },
    {
      name: "tiles beyond the last count",
      replace: "i < params.tile_count",
      with: "i < params.stride",
    },
    { name: "the first 64 only", replace: "i < params.tile_count", with: "i < 64u" },
  ],

  inputs: ({ rows, count, padding }, random) => ({
    tiles: Uint32Array.from({ length: rows * (count + padding) * 2 }, (_, word) => {
      const entry = Math.floor(word / 2) % (count + padding);
      if (entry >= count) return 0xffffffff; // no tile
      // Many keys or so few that the largest one ties; columns that grow with the tile.
      const keys = Math.floor(word / 2 / (count + padding)) % 2 === 0 ? 4 : 1e6;
      return word % 2 === 0 ? 0x7fffffff + Math.floor(random() * keys) : entry * 4 + 1;
    }),
  }),

  reference({ rows, count, padding }, { tiles }) {
    const ids = new Uint32Array(rows);
    for (let r = 0; r < rows; r++) {
      const entry = (i: number) => 2 * (r * (count + padding) + i);
      let best = 0;
      for (let i = 1; i < count; i++) if (tiles![entry(i)]! > tiles![entry(best)]!) best = i;
      ids[r] = tiles![entry(best) + 1]!;
    }
    return { ids };
  },

  bind(recorder, { rows, count, padding }, { tiles, ids }, tuning) {
    const launch = bestTile(recorder, {
      tiles: tiles!,
      stride: count + padding,
      ids: ids!,
      ...tuning,
    });
    return () => launch(rows, count);
  },
});
