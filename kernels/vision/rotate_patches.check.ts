import { defineCheck } from "../check.ts";
import { rotatePatches } from "./rotate_patches.ts";

interface Shape {
  readonly rows: number;
  readonly vectors: number;
  readonly headDim: number;
  /** Columns behind the vectors, which stay as they are. */
  readonly rest: number;
}

const strideOf = ({ vectors, headDim, rest }: Shape) => vectors * headDim + rest;

export default defineCheck<Shape>({
  name: "vision/rotate_patches",
  cases: [
    { rows: 5, vectors: 4, headDim: 40, rest: 80 },
    { rows: 3, vectors: 2, headDim: 8, rest: 4 },
    { rows: 1024, vectors: 32, headDim: 80, rest: 1280 },
  ],
  tunings: [{}],
  tolerance: 1e-5,
  bytes: ({ rows, vectors, headDim }) => rows * headDim * (vectors * 8 + 4),
  flops: ({ rows, vectors, headDim }) => rows * headDim * vectors * 3,
  mutants: [
    { name: "neighbours turn", replace: "near + half_dim;", with: "near + 1u;" },
    {
      name: "all rows turn as the first",
      replace: "turns[group.x * half_dim + d]",
      with: "turns[d]",
    },
    { name: "all pairs turn as the first", replace: "half_dim + d]", with: "half_dim]" },
    {
      name: "values turn too",
      replace: "i < params.vectors",
      with: "i < (params.vectors + 1u)",
      case: 0,
    },
    { name: "rows have no stride", replace: "group.x * params.stride", with: "group.x" },
    { name: "pairs end at the workgroup's", replace: "i += WORKGROUP_SIZE", with: "i += 4096u" },
  ],

  inputs: (shape, random) => ({
    qkv: Float32Array.from({ length: shape.rows * strideOf(shape) }, () => random() - 0.5),
    turns: Float32Array.from({ length: shape.rows * shape.headDim }, () => random() - 0.5),
  }),

  reference(shape, { qkv, turns }) {
    const { rows, vectors, headDim } = shape;
    const half = headDim / 2;
    const out = Float64Array.from(qkv!);
    for (let r = 0; r < rows; r++) {
      for (let v = 0; v < vectors; v++) {
        for (let d = 0; d < half; d++) {
          const at = r * strideOf(shape) + v * headDim + d;
          const [cos, sin] = [turns![(r * half + d) * 2]!, turns![(r * half + d) * 2 + 1]!];
          const [x, y] = [qkv![at]!, qkv![at + half]!];
          out[at] = x * cos - y * sin;
          out[at + half] = y * cos + x * sin;
        }
      }
    }
    return { qkv: out };
  },

  bind(recorder, shape, { qkv, turns }) {
    const { rows, vectors, headDim } = shape;
    const launch = rotatePatches(recorder, {
      qkv: qkv!,
      turns: turns!,
      stride: strideOf(shape),
      vectors,
      headDim,
    });
    return () => launch(rows);
  },
});
