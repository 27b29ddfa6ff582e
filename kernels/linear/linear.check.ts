import { defineCheck } from "../check.ts";
import { randomRows, randomWeight, unpackWeight } from "./check_weights.ts";
import { layoutFor, paddedRows, segments, type WeightDtype, weightBytes } from "./layout.ts";
import { linear } from "./linear.ts";

interface Shape {
  readonly dtype: WeightDtype;
  readonly rows: number;
  readonly columns: number;
  readonly outputs: number;
  readonly outColumn: number;
  readonly segmented: boolean;
  /** Outputs that share a slice of `x`. */
  readonly groupRows: number;
  readonly lanes: number;
}

const typical = { outColumn: 0, segmented: false, lanes: 8 };

const weightShape = ({ dtype, outputs, columns, lanes }: Shape) => ({
  dtype,
  rows: outputs,
  columns,
  lanes,
});
/** Distance of the slices of neighbouring groups: more than a slice, as it may be. */
const sliceStride = ({ columns }: Shape) => Math.ceil(columns / 4) * 4 + 4;
const slices = ({ outputs, groupRows }: Shape) => Math.ceil(outputs / groupRows);
const outStrideOf = ({ outputs, outColumn }: Shape) => outColumn + outputs + 3;

export default defineCheck<Shape>({
  name: "linear/linear",
  cases: [
    // Three blocks and a tail that ends inside a vec4f; slices; not a multiple of any tile.
    {
      ...{ dtype: "fp8", rows: 5, columns: 269, outputs: 44, outColumn: 5, segmented: true },
      ...{ groupRows: 32, lanes: 8 },
    },
    { ...typical, dtype: "bf16", rows: 5, columns: 269, outputs: 37, groupRows: 37 },
    { ...typical, dtype: "f32", rows: 5, columns: 130, outputs: 33, groupRows: 33 },
    { ...typical, dtype: "f16", rows: 9, columns: 135, outputs: 33, groupRows: 33 },
    // Groups of fewer outputs than a workgroup computes.
    { ...typical, dtype: "fp8", rows: 3, columns: 64, outputs: 40, groupRows: 12 },
    { ...typical, dtype: "bf16", rows: 1, columns: 1, outputs: 1, groupRows: 1 },
    { ...typical, dtype: "f32", rows: 2, columns: 4, outputs: 70, groupRows: 70, lanes: 32 },
    // More blocks than segments, and segments of unequal length.
    {
      ...{ dtype: "bf16", rows: 2, columns: 128 * 45, outputs: 8, outColumn: 0, segmented: true },
      ...{ groupRows: 8, lanes: 8 },
    },
    { ...typical, dtype: "fp8", rows: 1, columns: 2048, outputs: 2048, groupRows: 2048 },
  ],
  tunings: [
    { tokens: 4 },
    { tokens: 1 },
    { tokens: 8 },
    { tokens: 4, bits: 1, workgroupSize: 32 },
    { tokens: 4, subgroups: 1 },
  ],
  exactAcrossTunings: true,
  tolerance: 5e-6,
  bytes: (shape) => weightBytes(weightShape(shape)).words,
  flops: ({ rows, columns, outputs }) => 2 * rows * columns * outputs,
  mutants: [
    {
      name: "x is not masked beyond its columns",
      replace: "select(vec4f(), value, column < vec4u(params.columns))",
      with: "value",
    },
    { name: "one vec4f too few is read", replace: "+ GRANULE_COLUMNS - 1u", with: "" },
    { name: "the last block is left out", replace: "+ SCALE_COLUMNS - 1u) /", with: ") /" },
    {
      name: "scale of the wrong row",
      replace: "dot_rows(row_granules(row), row,",
      with: "dot_rows(row_granules(row), row.yxzw,",
    },
    {
      name: "scale of the wrong block",
      replace: "vec4u(group * params",
      with: "vec4u(0u * params",
    },
    { name: "the 256 is dropped", replace: "return 256.0 *", with: "return" },
    { name: "signs of odd codes are lost", replace: "| (word & 0x80008000u)", with: "" },
    { name: "even and odd codes are swapped", replace: "even.x, odd.x", with: "odd.x, even.x" },
    { name: "rows are read too close", replace: "* params.x_stride", with: "* params.columns" },
    {
      name: "rows are written too close",
      replace: "* params.out_stride",
      with: "* params.outputs",
    },
    { name: "out_column is ignored", replace: "+ params.out_column", with: "" },
    { name: "every group reads the first slice", replace: "* params.group_stride", with: "* 0u" },
    {
      name: "every workgroup is of the first group",
      replace: "group.x / tiles;",
      with: "0u * tiles;",
    },
    {
      name: "outputs beyond the last are written",
      replace: "output[i] < end",
      with: "true",
    },
    {
      name: "rows beyond the last are written",
      replace: "first_row + t < params.rows",
      with: "true",
    },
    { name: "a segment is lost", replace: "= stack[level][t] + total[t]", with: "= total[t]" },
    { name: "rows are not padded", replace: "row / LANES * (", with: "row / LANES * (16u + " },
    {
      name: "granules of a row follow one another",
      replace: "vec4u(g * LANES)",
      with: "vec4u(g)",
    },
    {
      name: "invocations hand round the x of the first row only",
      replace: "reader = t % ROWS_AT_ONCE * PART_VECTORS",
      with: "reader = 0u",
      // BF16 needs two invocations a row: so subgroups of 4 serve two rows as well.
      case: 1,
      tuning: 4,
    },
    {
      name: "bf16 halves are swapped",
      replace: "even.x, odd.x",
      with: "odd.x, even.x",
      case: 1,
    },
  ],

  inputs(shape, random) {
    const { rows, columns, dtype } = shape;
    const stride = sliceStride(shape);
    const x = randomRows({ rows: rows * slices(shape), columns, stride }, random);
    const { words, scales } = randomWeight(weightShape(shape), random);
    return { x, words, ...(dtype === "fp8" && { scales }) };
  },

  reference(shape, { x, words, scales = new Float32Array() }) {
    const { rows, columns, outputs, groupRows, outColumn } = shape;
    const weight = unpackWeight(weightShape(shape), {
      words: words as Uint32Array,
      scales: scales as Float32Array,
    });
    const outStride = outStrideOf(shape);
    // One row more than is asked for: it must keep its poison.
    const out = new Float64Array((rows + 1) * outStride).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      for (let n = 0; n < outputs; n++) {
        const slice = (r * slices(shape) + Math.floor(n / groupRows)) * sliceStride(shape);
        let sum = 0;
        for (let k = 0; k < columns; k++) sum += x![slice + k]! * weight[n * columns + k]!;
        out[r * outStride + outColumn + n] = sum;
      }
    }
    return { out };
  },

  bind(recorder, shape, { x, words, scales, out }, tuning) {
    const { dtype, rows, columns, outputs, outColumn, segmented, groupRows, lanes } = shape;
    const { tokens = 4, bits = 0, workgroupSize = lanes } = tuning;
    const launch = linear(recorder, {
      x: x!,
      xStride: slices(shape) * sliceStride(shape),
      weight: {
        ...(tuning.subgroups === 1 && layoutFor(recorder.device)),
        dtype,
        rows: outputs,
        columns,
        rowsPadded: paddedRows(outputs, lanes),
        words: words!,
        ...(scales && { scales }),
        lanes,
        fp8Decode: bits === 1 ? "bits" : "half",
      },
      out: out!,
      outStride: outStrideOf(shape),
      outColumn,
      segments: segmented ? segments(columns) : 1,
      ...(groupRows < outputs && { groups: { rows: groupRows, xStride: sliceStride(shape) } }),
      tokens,
      workgroupSize,
    });
    return () => launch(rows);
  },
});
