import { defineCheck } from "../check.ts";
import { pixelShuffle } from "./pixel_shuffle.ts";

interface Shape {
  readonly cols: number;
  readonly side: number;
  readonly scale: number;
  /** Default patches. */
  readonly outermost?: "patches" | "columns";
}

export default defineCheck<Shape>({
  name: "vision/pixel_shuffle",
  cases: [
    { cols: 66, side: 6, scale: 2 },
    { cols: 48, side: 8, scale: 4 },
    { cols: 12, side: 3, scale: 1 },
    { cols: 72, side: 3, scale: 2, outermost: "columns" },
    { cols: 12, side: 5, scale: 3 },
    { cols: 768, side: 32, scale: 4 },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ cols, side, scale }) => (side ** 2 + (Math.ceil(side / scale) * scale) ** 2) * cols * 4,
  flops: () => 0,
  mutants: [
    {
      name: "x and y of a square are swapped",
      replace: "inner.y * params.scale + inner.x",
      with: "inner.x * params.scale + inner.y",
    },
    {
      name: "x and y of tokens are swapped",
      replace: "token.y * params.wide + token.x",
      with: "token.x * params.wide + token.y",
    },
    {
      name: "columns end at the workgroup's",
      replace: "c += WORKGROUP_SIZE",
      with: "c += params.cols",
    },
    { name: "squares are a patch large", replace: "at % params.scale", with: "at % 1u" },
    { name: "patches are outermost", replace: "UNFOLDS = true", with: "UNFOLDS = false", case: 3 },
    { name: "squares are not filled up", replace: ", is_there)", with: ", true)", case: 4 },
    {
      name: "patches are in columns",
      replace: "at.y * params.side + at.x",
      with: "at.x * params.side + at.y",
    },
  ],

  inputs: ({ cols, side }, random) => ({
    x: Float32Array.from({ length: side * side * cols }, random),
  }),

  reference({ cols, side, scale, outermost }, { x }) {
    const wide = Math.ceil(side / scale);
    const out = new Float64Array((wide * scale) ** 2 * cols);
    const elementOf = (row: number, column: number, c: number) =>
      row < side && column < side ? x![(row * side + column) * cols + c]! : 0;
    let at = 0;
    for (let token = 0; token < wide * wide; token++) {
      const [top, left] = [Math.floor(token / wide) * scale, (token % wide) * scale];
      for (let i = 0; i < scale * scale * cols; i++) {
        const [c, inner] =
          outermost === "columns"
            ? [Math.floor(i / scale ** 2), i % scale ** 2]
            : [i % cols, Math.floor(i / cols)];
        const [dy, dx] = [Math.floor(inner / scale), inner % scale];
        out[at++] = elementOf(top + dy, left + dx, c);
      }
    }
    return { out };
  },

  bind(recorder, shape, tensors) {
    return pixelShuffle(recorder, { ...shape, x: tensors.x!, out: tensors.out! });
  },
});
