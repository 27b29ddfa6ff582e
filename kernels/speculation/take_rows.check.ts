import { defineCheck } from "../check.ts";
import { type AddendShape, addendInputs, addendOf, addendOption } from "../norm/reference.ts";
import { takeRows } from "./take_rows.ts";

interface Shape extends AddendShape {
  /** Rows that are taken: undefined for the first two, as they are. */
  readonly wanted: readonly number[] | undefined;
  readonly column: number;
}

/** Rows that are added to each row. */
const readsOf = (form: number) => (form < 2 ? form : form - 1);
const rowsOf = ({ wanted = [0, 1] }: Shape) => wanted;
const outStrideOf = ({ cols, column }: Shape) => cols + column + 3;

export default defineCheck<Shape>({
  name: "speculation/take_rows",
  cases: [
    { rows: 4, wanted: [3, 1], cols: 66, padding: 2, form: 3, scale: 1, column: 0 },
    { rows: 3, wanted: [2, 0, 1], cols: 65, padding: 3, form: 1, scale: 1, column: 7 },
    { rows: 2, wanted: undefined, cols: 130, padding: 2, form: 0, scale: 1, column: 64 },
  ],
  tunings: [{}],
  tolerance: 1e-6,
  bytes: (shape) => rowsOf(shape).length * shape.cols * (2 + readsOf(shape.form)) * 4,
  flops: (shape) => 2 * rowsOf(shape).length * shape.cols * readsOf(shape.form),
  mutants: [
    { name: "rows are taken in order", replace: "row_indices[group.x]", with: "group.x" },
    { name: "indices are read all the same", replace: "if INDEXED {", with: "{", case: 2 },
    {
      name: "the addend is that of the output row",
      replace: "addend_at(row, c)",
      with: "addend_at(group.x, c)",
    },
    { name: "x is read cols apart", replace: "x[row * params.stride", with: "x[row * params.cols" },
    {
      name: "out is written cols apart",
      replace: "group.x * params.out_stride",
      with: "group.x * params.cols",
    },
    { name: "columns start at 0", replace: "+ params.out_column", with: "", case: 1 },
    {
      name: "the addend is left out",
      replace: "value += addend_at(row, c)",
      with: "value += 0.0",
    },
  ],

  inputs(shape, random) {
    const { weight: _, ...inputs } = addendInputs(shape, random);
    return { ...inputs, row_indices: Uint32Array.from(rowsOf(shape)) };
  },

  reference(shape, inputs) {
    const { cols, padding, form, column } = shape;
    const stride = cols + padding;
    const outStride = outStrideOf(shape);
    // What is not written keeps its poison.
    const out = new Float64Array(rowsOf(shape).length * outStride).fill(Number.NaN);
    rowsOf(shape).forEach((r, i) => {
      for (let c = 0; c < cols; c++) {
        out[i * outStride + column + c] =
          inputs.x![r * stride + c]! + addendOf(form, inputs, r, c, stride);
      }
    });
    return { out };
  },

  bind(recorder, shape, tensors) {
    const { cols, padding, form, column: outColumn } = shape;
    const launch = takeRows(recorder, {
      rowIndices: shape.wanted && tensors.row_indices!,
      x: tensors.x!,
      addend: addendOption(form, tensors.addend!, tensors.slot_weights!),
      out: tensors.out!,
      cols,
      stride: cols + padding,
      outStride: outStrideOf(shape),
      outColumn,
    });
    return () => launch(rowsOf(shape).length);
  },
});
