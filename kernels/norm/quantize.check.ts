import { defineCheck } from "../check.ts";
import { type ActivationRounding, quantize } from "./quantize.ts";
import { quantizeGroups } from "./reference.ts";

interface Shape extends ActivationRounding {
  readonly rows: number;
  readonly cols: number;
  readonly padding: number;
  readonly scale: number;
  /** More columns of padding in an output of its own; none: in place. */
  readonly outPadding?: number;
  /** Rows before it are left alone. Default 0. */
  readonly firstRow?: number;
  /** Whether the last column is NaN. */
  readonly nan?: boolean;
}

const e4m3 = { format: "e4m3", group: "block" } as const;
const int8 = { format: "int8", group: "row" } as const;
const outStrideOf = ({ cols, padding, outPadding = 0 }: Shape) => cols + padding + outPadding;

export default defineCheck<Shape>({
  name: "norm/quantize",
  cases: [
    { ...e4m3, rows: 2, cols: 141, padding: 3, scale: 1 }, // a short last group
    { ...e4m3, rows: 1, cols: 1, padding: 3, scale: 1 },
    { ...e4m3, rows: 1, cols: 256, padding: 0, scale: 1e-6 }, // below the least scale
    { ...int8, rows: 3, cols: 333, padding: 3, scale: 1, outPadding: 4 },
    { ...int8, group: "block", rows: 2, cols: 141, padding: 3, scale: 1, outPadding: 0 },
    { ...e4m3, group: "row", rows: 2, cols: 141, padding: 3, scale: 1 },
    { ...int8, rows: 2, cols: 65, padding: 3, scale: 0 }, // zeros have no scale
    { ...int8, rows: 2, cols: 65_000, padding: 0, scale: 1e20 }, // the widest rows
    { ...e4m3, rows: 2, cols: 128, padding: 0, scale: 1e20 },
    { ...e4m3, powersOfTwo: true, rows: 5, cols: 301, padding: 3, scale: 1 },
    { ...e4m3, rows: 3, cols: 21, padding: 3, scale: 1, outPadding: 4, firstRow: 1 },
    { ...e4m3, rows: 2, cols: 129, padding: 3, scale: 1, nan: true }, // alone in its group
    { ...e4m3, rows: 64, cols: 7168, padding: 0, scale: 1 }, // 671B model
  ],
  tunings: [{}],
  tolerance: 1e-6,
  bytes: ({ rows, firstRow = 0, cols }) => 2 * (rows - firstRow) * cols * 4,
  flops: ({ rows, firstRow = 0, cols }) => 4 * (rows - firstRow) * cols,
  mutants: [
    { name: "ties and halves are cut", replace: "+ 0x0007ffffu + ((bits >> 20u) & 1u)", with: "" },
    {
      name: "one scale for the whole row",
      replace: "= group_scale(magnitude)",
      with: "= group_scale(1.0)",
    },
    {
      name: "the last columns are left out",
      replace: "min(first + params.group_columns, params.cols)",
      with: "first + 96u",
    },
    {
      name: "the last of the largest",
      replace: "atomicMax(&largest, most)",
      with: "atomicStore(&largest, most)",
    },
    {
      name: "no least scale",
      replace: "max(largest, SMALLEST_MAGNITUDE)",
      with: "max(largest, 1e-30)",
      case: 2,
    },
    {
      name: "rows are cols apart",
      replace: "group.y) * params.stride",
      with: "group.y) * params.cols",
    },
    {
      name: "rows are written where they are read",
      replace: "row * params.out_stride",
      with: "row * params.stride",
      case: 3,
    },
    {
      name: "the end of the row is ignored",
      replace: "min(first + params.group_columns, params.cols)",
      with: "first + params.group_columns",
    },
    { name: "int8 reaches 128", replace: "/ INT8_MAX", with: "/ 128.0", case: 3 },
    { name: "int8 is cut off", replace: "round(value)", with: "trunc(value)", case: 3 },
    {
      name: "int8 is e4m3",
      replace: "if INT8 { return round",
      with: "if false { return round",
      case: 3,
    },
    {
      name: "a row is cut in groups",
      replace: "min(first + params.group_columns,",
      with: "min(first + 128u,",
      case: 3,
    },
    { name: "scales of any size", replace: "if !POWERS_OF_TWO", with: "if true", case: 9 },
    { name: "scales are rounded down", replace: "+ 0x007fffffu", with: "", case: 9 },
    {
      name: "rows are read from the first",
      replace: "(params.first_row + group.y) *",
      with: "group.y *",
      case: 10,
    },
    {
      name: "rows are written from the first",
      replace: "write_rounded(params.first_row + group.y,",
      with: "write_rounded(group.y,",
      case: 10,
    },
    {
      name: "NaN is the largest value",
      replace: "if (bitcast<u32>(value) ^ sign) > 0x7f800000u { return value; }",
      with: "",
      case: 11,
    },
    { name: "0 is divided by 0", replace: "if scale == 0.0", with: "if false", case: 6 },
  ],

  inputs: ({ rows, cols, padding, scale, nan = false }, random) => ({
    x: Float32Array.from({ length: rows * (cols + padding) }, (_, i) => {
      if (nan && i % (cols + padding) === cols - 1) return Number.NaN;
      // Magnitudes over ten powers of two, so that E4M3's subnormal steps are met.
      return (random() * 2 - 1) * scale * 2 ** (-20 * random() ** 2);
    }),
  }),

  reference(shape, inputs) {
    const { rows, firstRow = 0, cols, padding, outPadding } = shape;
    const stride = cols + padding;
    const x = Float64Array.from(inputs.x!);
    const outStride = outStrideOf(shape);
    const apart = outPadding !== undefined;
    const out = apart ? new Float64Array(rows * outStride).fill(Number.NaN) : x;
    for (let r = firstRow; r < rows; r++) {
      const row = x.slice(r * stride, r * stride + cols);
      out.set(quantizeGroups(row, shape), r * outStride);
    }
    return apart ? { out } : { x };
  },

  bind(recorder, shape, { x, out }) {
    const { rows, firstRow = 0, cols, padding, format, group, powersOfTwo = false } = shape;
    const launch = quantize(recorder, {
      x: x!,
      cols,
      stride: cols + padding,
      out,
      outStride: outStrideOf(shape),
      rounding: { format, group, powersOfTwo },
    });
    return () => launch(rows - firstRow, firstRow);
  },
});
