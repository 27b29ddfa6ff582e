import { defineCheck } from "../check.ts";
import { rmsNorm } from "./rms_norm.ts";

export default defineCheck({
  name: "norm/rms_norm",
  cases: [
    { rows: 2, cols: 65, padding: 3, scale: 1, eps: 1e-6 }, // not a multiple of the workgroup
    { rows: 1, cols: 1, padding: 0, scale: 1, eps: 1e-6 },
    { rows: 2, cols: 64, padding: 0, scale: 1e-3, eps: 1e-5 }, // eps decides the answer
    { rows: 64, cols: 7168, padding: 0, scale: 1, eps: 1e-6 }, // hidden size of the 671B model
  ],
  tunings: [{}],
  tolerance: 2e-6,
  bytes: ({ rows, cols }) => (2 * rows * cols + cols) * 4,
  flops: ({ rows, cols }) => 4 * rows * cols,
  mutants: [
    { name: "eps is dropped", replace: "+ params.eps", with: "", case: 2 },
    { name: "weight is dropped", replace: "* weight[c]", with: "" },
    {
      name: "the sum misses its tail",
      replace: "c < params.cols; c += WORKGROUP_SIZE) {\n    let",
      with: "c < 64u; c += WORKGROUP_SIZE) {\n    let",
    },
    {
      name: "rows are read cols apart",
      replace: "group.x * params.x_stride",
      with: "group.x * params.cols",
    },
    {
      name: "rows are written cols apart",
      replace: "group.x * params.out_stride",
      with: "group.x * params.cols",
    },
    { name: "the tree stops early", replace: "half > 0u", with: "half > 1u" },
  ],

  inputs: ({ rows, cols, padding, scale }, random) => ({
    x: Float32Array.from({ length: rows * (cols + padding) }, () => (random() * 2 - 1) * scale),
    weight: Float32Array.from({ length: cols }, random),
  }),

  reference({ rows, cols, padding, eps }, { x, weight }) {
    const stride = cols + padding;
    // The padding of `out` keeps its poison: NaN says that nothing may be written there.
    const out = new Float64Array(rows * stride).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      let sum = 0;
      for (let c = 0; c < cols; c++) sum += x![r * stride + c]! ** 2;
      const scale = 1 / Math.sqrt(sum / cols + eps);
      for (let c = 0; c < cols; c++)
        out[r * stride + c] = x![r * stride + c]! * scale * weight![c]!;
    }
    return { out };
  },

  bind(recorder, { rows, cols, padding, eps }, { x, weight, out }) {
    const stride = cols + padding;
    const launch = rmsNorm(recorder, {
      x: x!,
      weight: weight!,
      out: out!,
      cols,
      xStride: stride,
      outStride: stride,
      eps,
    });
    return () => launch(rows);
  },
});
