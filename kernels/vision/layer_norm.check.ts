import { defineCheck } from "../check.ts";
import { layerNorm } from "./layer_norm.ts";

interface Shape {
  readonly rows: number;
  readonly cols: number;
  readonly eps: number;
  /** Of the values and of their mean. */
  readonly scale: number;
  /** Whether there is no addend. Default false. */
  readonly alone?: boolean;
  /** Whether it is an RMSNorm. Default false. */
  readonly rms?: boolean;
}

export default defineCheck<Shape>({
  name: "vision/layer_norm",
  cases: [
    { rows: 3, cols: 48, eps: 1e-6, scale: 1 },
    { rows: 2, cols: 65, eps: 1e-5, scale: 1e-3 }, // eps decides
    { rows: 17, cols: 1152, eps: 1e-6, scale: 1 },
    { rows: 5, cols: 64, eps: 1e-5, scale: 1, alone: true },
    { rows: 5, cols: 80, eps: 1e-6, scale: 1, rms: true },
    { rows: 1024, cols: 768, eps: 1e-6, scale: 1 },
  ],
  tunings: [{}],
  tolerance: 1e-5,
  bytes: ({ rows, cols, alone = false }) => (rows * (alone ? 2 : 4) + 2) * cols * 4,
  flops: ({ rows, cols }) => rows * cols * 8,
  mutants: [
    { name: "eps is dropped", replace: "+ params.eps", with: "", case: 1 },
    { name: "the weight is dropped", replace: "* scale, weight[c]", with: "* scale, 1.0" },
    { name: "the bias is dropped", replace: "0.0, bias[c]", with: "0.0, 0.0" },
    { name: "the mean stays in", replace: "fma((x[start + c] - mean)", with: "fma((x[start + c])" },
    {
      name: "squares are around zero",
      replace: "let difference = x[start + c] - mean",
      with: "let difference = x[start + c]",
    },
    { name: "the addend is left out", replace: "value += addend[start + c];", with: "" },
    { name: "x is not updated", replace: "x[start + c] = value;", with: "" },
    { name: "what is absent is added", replace: "ADDS = false", with: "ADDS = true", case: 3 },
    { name: "the mean is always out", replace: "if CENTERED {", with: "if true {", case: 4 },
    { name: "a bias is always in", replace: "bias[c], CENTERED", with: "bias[c], true", case: 4 },
    { name: "rows start at the first", replace: "group.x * params.cols", with: "0u" },
  ],

  inputs: ({ rows, cols, scale }, random) => ({
    x: Float32Array.from({ length: rows * cols }, () => scale * random()),
    addend: Float32Array.from({ length: rows * cols }, () => scale * (random() - 0.25)),
    weight: Float32Array.from({ length: cols }, () => 0.5 + random()),
    bias: Float32Array.from({ length: cols }, () => random() - 0.5),
  }),

  reference({ rows, cols, eps, alone = false, rms = false }, { x, addend, weight, bias }) {
    const sums = new Float32Array(rows * cols);
    const out = new Float64Array(rows * cols);
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++) {
        sums[r * cols + c] = x![r * cols + c]! + (alone ? 0 : addend![r * cols + c]!);
      }
      const row = Array.from(sums.subarray(r * cols, (r + 1) * cols));
      const mean = rms ? 0 : row.reduce((sum, value) => sum + value, 0) / cols;
      const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / cols;
      row.forEach((value, c) => {
        out[r * cols + c] =
          ((value - mean) / Math.sqrt(variance + eps)) * weight![c]! + (rms ? 0 : bias![c]!);
      });
    }
    return { x: sums, out };
  },

  bind(recorder, { rows, cols, eps, alone = false, rms = false }, tensors) {
    const launch = layerNorm(recorder, {
      x: tensors.x!,
      addend: alone ? undefined : tensors.addend!,
      weight: tensors.weight!,
      bias: rms ? undefined : tensors.bias!,
      out: tensors.out!,
      cols,
      eps,
    });
    return () => launch(rows);
  },
});
