import { defineCheck } from "../check.ts";
import { addNorm } from "./add_norm.ts";
import { normedShape } from "./normed_rows.ts";
import { addendInputs, addendOf, addendOption, normedRow } from "./reference.ts";

interface Shape {
  readonly rows: number;
  /** The first rows, which leave their scale to who multiplies them. */
  readonly unscaled: number;
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
const typical = { padding: 0, form: 0, quantize: true, scale: 1, eps: 1e-6 } as const;

export default defineCheck<Shape>({
  name: "norm/add_norm",
  cases: [
    // Five runs of columns, the last a short one that ends inside a vector; two groups.
    { ...typical, rows: 4, unscaled: 2, cols: 141, padding: 3, form: 4 },
    { ...typical, rows: 2, unscaled: 2, cols: 66, padding: 2, form: 1, quantize: false },
    { ...typical, rows: 3, unscaled: 1, cols: 128 },
    // Eps decides.
    {
      ...typical,
      rows: 2,
      unscaled: 0,
      cols: 64,
      form: 1,
      quantize: false,
      scale: 1e-3,
      eps: 1e-5,
    },
    // The least scales: of rows that are scaled already, and of rows that are not.
    { ...typical, rows: 1, unscaled: 0, cols: 256, scale: 1e-8 },
    { ...typical, rows: 2, unscaled: 2, cols: 256, scale: 1e-8 },
    { ...typical, rows: 1, unscaled: 1, cols: 130, padding: 1, scale: 1e-32 },
    { ...typical, rows: 2, unscaled: 1, cols: 33, padding: 3, form: 1, scale: 0 },
    { ...typical, rows: 1, unscaled: 1, cols: 1, padding: 2, form: 1 },
    // Of the 671B model: several runs of an invocation.
    { ...typical, rows: 16, unscaled: 8, cols: 7168, form: 10, quantize: false },
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
    { name: "x is not written back", replace: "x[at] = values[i];", with: "" },
    {
      name: "rows are read cols apart",
      replace: "row * params.stride + c + i",
      with: "row * params.cols + c + i",
    },
    {
      name: "rows are normed cols apart",
      replace: "group.x * params.stride",
      with: "group.x * params.cols",
    },
    {
      name: "rows are written stride apart",
      replace: "group.x * params.normed_stride",
      with: "group.x * params.stride",
    },
    {
      name: "the addend's rows are cols apart",
      replace: "addend[row * params.stride",
      with: "addend[row * params.cols",
      case: 1,
    },
    {
      name: "the sum misses the last invocations",
      replace: "i < WORKGROUP_SIZE; i += 4u",
      with: "i < WORKGROUP_SIZE - 4u; i += 4u",
      case: 9,
    },
    {
      name: "an invocation's last run counts for all of its runs",
      replace: "sum += run_sum;",
      with: "sum = run_sum;",
      case: 9,
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
    {
      name: "unscaled rows have the least scale of others",
      replace: "select(unscaled_group_scale(largest), group_scale(largest), is_scaled)",
      with: "group_scale(largest)",
      case: 5,
    },
    {
      name: "no least scale of unscaled rows",
      replace: "max(largest, 1e-30)",
      with: "largest",
      case: 6,
    },
    {
      name: "the scale of zeros is zero",
      replace: "max(largest, 1e-30)",
      with: "largest",
      case: 7,
    },
    {
      name: "one row too many is unscaled",
      replace: "group.x >= params.unscaled",
      with: "group.x > params.unscaled",
    },
    {
      name: "unscaled rows are scaled",
      replace: "select(1.0, inverseSqrt(all + params.eps), is_scaled)",
      with: "inverseSqrt(all + params.eps)",
    },
    {
      name: "scaled rows do not say so",
      replace: "select(run_sum, -1.0, is_scaled)",
      with: "run_sum",
    },
    {
      name: "rounded columns replace those that are not",
      replace: "params.normed_rounded + c",
      with: "c",
    },
    {
      name: "sums of squares have no columns of their own",
      replace: "params.normed_squares + run",
      with: "run",
    },
    {
      name: "a vector goes on beyond the last column",
      replace: "i < 4u && c + i < params.cols",
      with: "i < 4u",
    },
    {
      name: "a run's last vector is all of it",
      replace: "squares = fma(values, values, squares);",
      with: "squares = values * values;",
    },
    {
      name: "a column of four is not squared",
      replace: "(squares.z + squares.w)",
      with: "squares.z",
    },
  ],

  inputs: addendInputs,

  reference({ rows, unscaled, cols, padding, form, quantize, eps }, inputs) {
    const stride = cols + padding;
    const x = Float64Array.from(inputs.x!);
    const { stride: normedStride } = normedShape(cols, quantize);
    // One row more than is asked for: it must keep its poison, as padding must.
    const normed = new Float64Array((rows + 1) * normedStride).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++) {
        x[r * stride + c]! += addendOf(form, inputs, r, c, stride);
      }
      const row = x.subarray(r * stride, r * stride + cols);
      const options = { rounds: quantize, eps: r < unscaled ? undefined : eps };
      normed.set(normedRow(row, inputs.weight!, options), r * normedStride);
    }
    return { x, normed };
  },

  bind(recorder, { rows, unscaled, cols, padding, form, quantize, eps }, tensors) {
    const { x, addend, slot_weights, weight, normed } = tensors;
    const launch = addNorm(recorder, {
      x: x!,
      addend: addendOption(form, addend!, slot_weights!),
      weight: weight!,
      normed: { tensor: normed!, ...normedShape(cols, quantize) },
      cols,
      stride: cols + padding,
      eps,
    });
    // Without a number all rows are unscaled.
    return () => (unscaled === rows ? launch(rows) : launch(rows, unscaled));
  },
});
