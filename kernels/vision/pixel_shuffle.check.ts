import { defineCheck } from "../check.ts";
import { pixelShuffle } from "./pixel_shuffle.ts";

interface Shape {
  readonly cols: number;
  readonly side: number;
  readonly scale: number;
}

export default defineCheck<Shape>({
  name: "vision/pixel_shuffle",
  cases: [
    { cols: 66, side: 6, scale: 2 },
    { cols: 48, side: 8, scale: 4 },
    { cols: 12, side: 3, scale: 1 },
    { cols: 768, side: 32, scale: 4 },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ cols, side }) => side * side * cols * 8,
  flops: () => 0,
  mutants: [
    {
      name: "x and y of a square are swapped",
      replace: "inner.y * params.scale + inner.x",
      with: "inner.x * params.scale + inner.y",
    },
    {
      name: "x and y of tokens are swapped",
      replace: "token.y * (params.side / params.scale) + token.x",
      with: "token.x * (params.side / params.scale) + token.y",
    },
    {
      name: "columns end at the workgroup's",
      replace: "c += WORKGROUP_SIZE",
      with: "c += params.cols",
    },
    { name: "squares are a patch large", replace: "at % params.scale", with: "at % 1u" },
  ],

  inputs: ({ cols, side }, random) => ({
    x: Float32Array.from({ length: side * side * cols }, random),
  }),

  reference({ cols, side, scale }, { x }) {
    const out = new Float64Array(side * side * cols);
    let at = 0;
    for (let top = 0; top < side; top += scale) {
      for (let left = 0; left < side; left += scale) {
        for (let dy = 0; dy < scale; dy++) {
          for (let dx = 0; dx < scale; dx++) {
            const from = ((top + dy) * side + left + dx) * cols;
            for (let c = 0; c < cols; c++) out[at++] = x![from + c]!;
          }
        }
      }
    }
    return { out };
  },

  bind(recorder, shape, tensors) {
    return pixelShuffle(recorder, { ...shape, x: tensors.x!, out: tensors.out! });
  },
});
