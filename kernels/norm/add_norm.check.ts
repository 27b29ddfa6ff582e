import { defineCheck } from "../check.ts";
import { addNorm } from "./add_norm.ts";
import { addendInputs, addendOf, addendOption, quantizeGroups } from "./reference.ts";

interface Shape {
  readonly rows: number;
  readonly cols: number;
  readonly padding: number;
  /** 0: none, 1: row, 2 and more: combine with that many slots less one. */
  readonly form: number;
  readonly quantize: boolean;
  readonly scale: number;
  readonly eps: number;
}

/** Rows that are added to each row. */
const readsOf = (form: number) => (form < 2 ? form : form - 1);

export default defineCheck<Shape>({
  name: "norm/add_norm",
  cases: [
    { rows: 2, cols: 141, padding: 3, form: 4, quantize: true, scale: 1, eps: 1e-6 },
    { rows: 2, cols: 66, padding: 2, form: 1, quantize: false, scale: 1, eps: 1e-6 },
    { rows: 3, cols: 128, padding: 0, form: 0, quantize: true, scale: 1, eps: 1e-6 },
    { rows: 2, cols: 64, padding: 0, form: 1, quantize: false, scale: 1e-3, eps: 1e-5 }, // eps decides
    { rows: 1, cols: 256, padding: 0, form: 0, quantize: true, scale: 1e-8, eps: 1e-6 }, // the least scale
    { rows: 16, cols: 7168, padding: 0, form: 10, quantize: false, scale: 1, eps: 1e-6 }, // 671B model
  ],
  tunings: [{}],
  tolerance: 4e-6,
  bytes: ({ rows, cols, form, quantize }) => {
    const moved = (form === 0 ? 2 : 3 + readsOf(form)) + Number(quantize);
    return (rows * cols * moved + cols) * 4;
  },
  flops: ({ rows, cols, form }) => rows * cols * (4 + 2 * readsOf(form)),
  mutants: [
    { name: "eps is dropped", replace: "+ params.eps", with: "", case: 3 },
    { name: "weight is dropped", replace: "* weight[c]", with: "" },
    {
      name: "the last slot is left out",
      replace: "slot < params.slots",
      with: "slot + 1u < params.slots",
    },
    {
      name: "slot weights are those of row 0",
      replace: "slot_weights[first + slot]",
      with: "slot_weights[slot]",
    },
    { name: "x is not written back", replace: "x[start + c] = value;", with: "" },
    {
      name: "rows are cols apart",
      replace: "group.x * params.stride",
      with: "group.x * params.cols",
    },
    {
      name: "the addend's rows are cols apart",
      replace: "addend[row * params.stride",
      with: "addend[row * params.cols",
      case: 1,
    },
    {
      name: "the sum misses the last invocation",
      replace: "i < WORKGROUP_SIZE; i += 4u",
      with: "i < WORKGROUP_SIZE - 4u; i += 4u",
    },
    {
      name: "one scale for the whole row",
      replace: "group_amax[c / QUANTIZE_GROUP]",
      with: "group_amax[0]",
    },
    { name: "ties are not rounded", replace: "+ 0x0007ffffu + ((bits >> 20u) & 1u)", with: "" },
    {
      name: "no least scale",
      replace: "max(largest, SMALLEST_MAGNITUDE)",
      with: "max(largest, 1e-30)",
      case: 4,
    },
  ],

  inputs: addendInputs,

  reference({ rows, cols, padding, form, quantize, eps }, inputs) {
    const stride = cols + padding;
    const x = Float64Array.from(inputs.x!);
    // The padding keeps its poison: NaN says that nothing may be written there.
    const normed = new Float64Array(rows * stride).fill(Number.NaN);
    const quantized = new Float64Array(rows * stride).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      let sum = 0;
      for (let c = 0; c < cols; c++) {
        x[r * stride + c]! += addendOf(form, inputs, r, c, stride);
        sum += x[r * stride + c]! ** 2;
      }
      const scale = 1 / Math.sqrt(sum / cols + eps);
      for (let c = 0; c < cols; c++) {
        normed[r * stride + c] = x[r * stride + c]! * scale * inputs.weight![c]!;
      }
      const row = normed.subarray(r * stride, r * stride + cols);
      quantized.set(quantizeGroups(row), r * stride);
    }
    return quantize ? { x, normed, quantized } : { x, normed };
  },

  bind(recorder, { rows, cols, padding, form, eps }, tensors) {
    const { x, addend, slot_weights, weight, normed, quantized } = tensors;
    const launch = addNorm(recorder, {
      x: x!,
      addend: addendOption(form, addend!, slot_weights!),
      weight: weight!,
      normed: normed!,
      quantized,
      cols,
      stride: cols + padding,
      eps,
    });
    return () => launch(rows);
  },
});
