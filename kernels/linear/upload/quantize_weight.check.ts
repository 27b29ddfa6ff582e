import { decodeBf16, decodeF16, encodeBf16 } from "../../../src/dtype.ts";
import { defineCheck } from "../../check.ts";
import { orderOf, paddedRows, runRows, type WeightOrder } from "../weights/weight_order.ts";
import { quantizeRows } from "./quantize_reference.ts";
import {
  partialsOf,
  type QuantizableDtype,
  type QuantizedShape,
  quantizeWeight,
  scaleGroups,
  stagedRowBytes,
} from "./quantize_weight.ts";

interface Case extends WeightOrder {
  readonly source: QuantizableDtype;
  readonly dtype: QuantizedShape["dtype"];
  readonly groupColumns?: 32 | 64 | 128;
  readonly rows: number;
  readonly columns: number;
  /** Lanes before those that are quantized, and runs after them. */
  readonly before: number;
  readonly after: number;
  /** Granules, and scales, in front of the weight. */
  readonly offset: number;
  /** Magnitude of the numbers. */
  readonly scale: number;
}

function shapeOf({ dtype, groupColumns, rows, columns, before, after, ...order }: Case) {
  const rowsPadded = paddedRows(before * order.lanes + rows, order) + after * runRows(order);
  return { ...orderOf(order), dtype, groupColumns, columns, rowsPadded };
}

/** 16 bits of an F16 near a number of a magnitude from 2^-13 to 1. */
function encodeNormalF16(value: number): number {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer);
  return (bits! >>> 16) & 0x8000 ? 0x8000 | toF16(bits!) : toF16(bits!);
}
const toF16 = (bits: number) => Math.max(((bits & 0x7fffffff) >>> 13) - (112 << 10), 1 << 10);

/** The numbers a row of words holds. */
function rowNumbers(source: QuantizableDtype, words: Uint32Array, columns: number): number[] {
  const view = new DataView(words.buffer, words.byteOffset, words.byteLength);
  return Array.from({ length: columns }, (_, c) => {
    if (source === "F32") return view.getFloat32(c * 4, true);
    const half = view.getUint16(c * 2, true);
    return source === "BF16" ? decodeBf16(half) : decodeF16(half);
  });
}

const small = { lanes: 8, before: 1, after: 1, offset: 3, scale: 1 };
const whole = { before: 0, after: 0, offset: 0, scale: 1 };

export default defineCheck<Case>({
  name: "linear/quantize_weight",
  cases: [
    // Rows and columns are cut, the last groups are padding.
    { ...small, source: "BF16", dtype: "int4", groupColumns: 32, rows: 11, columns: 189 },
    {
      ...small,
      source: "F32",
      dtype: "int8",
      rows: 21,
      columns: 131,
      rowsPerLane: 2,
      scaleOrder: "byRun",
    },
    { ...small, source: "F16", dtype: "fp8", rows: 9, columns: 258, rowsPerLane: 4 },
    { ...small, source: "F32", dtype: "int4", groupColumns: 64, rows: 3, columns: 67, lanes: 4 },
    {
      ...whole,
      source: "BF16",
      dtype: "int4",
      groupColumns: 128,
      rows: 16,
      columns: 257,
      lanes: 8,
    },
    {
      ...small,
      source: "F16",
      dtype: "int4",
      groupColumns: 64,
      rows: 8,
      columns: 128,
      lanes: 16,
      scaleOrder: "byRun",
    },
    { ...small, source: "BF16", dtype: "int8", rows: 2, columns: 128, scale: 1e-33 }, // all zeros
    { ...small, source: "BF16", dtype: "int4", groupColumns: 32, rows: 1, columns: 1 },
    { ...small, source: "F32", dtype: "fp8", rows: 4, columns: 12, scale: 1e-6, lanes: 4 },
    {
      ...whole,
      source: "BF16",
      dtype: "int4",
      groupColumns: 64,
      rows: 256,
      columns: 1024,
      lanes: 8,
    },
  ],
  tunings: [{}],
  tolerance: 2e-6,
  bytes: ({ source, dtype, rows, columns }) =>
    rows * columns * ((source === "F32" ? 4 : 2) + (dtype === "int4" ? 0.5 : 1)),
  flops: ({ dtype, rows, columns }) => rows * columns * (dtype === "int4" ? 40 : 10),
  mutants: [
    {
      name: "codes before the scale is rounded",
      replace: "let scale = round_scale(shrunk);",
      with: "let scale = shrunk;",
    },
    { name: "nothing is shrunk", replace: "i < 4u; i++) { best", with: "i < 1u; i++) { best" },
    { name: "always the most shrunk", replace: "errors[i] < errors[best]", with: "true" },
    {
      name: "the zero point is cut",
      replace: "round(-least * SHRINK * inverse)",
      with: "floor(-least * SHRINK * inverse)",
    },
    {
      name: "0 is not a code",
      replace: "var low = vec4f(0.0);",
      with: "var low = quad(start, first);",
    },
    {
      name: "codes are cut",
      replace: "clamp(round(steps), -zero",
      with: "clamp(floor(steps), -zero",
    },
    {
      name: "columns past the end count",
      replace: "< vec4u(params.columns))",
      with: "< vec4u(params.columns + 1u))",
    },
    {
      name: "padding is read",
      replace: "if column >= params.columns { return vec4f(0.0); }",
      with: "if column >= params.columns { return vec4f(1.0); }",
    },
    {
      name: "rows are columns apart",
      replace: "row * params.row_words",
      with: "row * (params.columns / 2u)",
    },
    {
      name: "padding rows are left as they are",
      replace: "words[granule + g * params.run_rows] = vec4u(0u);",
      with: "",
    },
    {
      name: "padding scales are left as they are",
      replace: "[scale] = 0u;",
      with: "[scale] = 1u;",
    },
    {
      name: "the weight's place is ignored",
      replace: "params.first_granule + number",
      with: "number",
    },
    {
      name: "the scales' place is ignored",
      replace: "params.first_scale + run",
      with: "run",
    },
    {
      name: "scales of the launch's rows only",
      replace: "group * params.scales_of_group",
      with: "group * params.rows",
    },
    {
      name: "scales of runs side by side",
      replace: "run * params.scales_of_run",
      with: "run * params.run_rows",
      case: 1,
    },
    {
      name: "rows start a run",
      replace: "(params.first_row + row) % params.run_rows",
      with: "row % params.run_rows",
      case: 1,
    },
    {
      name: "granules of a row side by side",
      replace: "granule + g * params.run_rows] = codes",
      with: "granule + g] = codes",
      case: 1,
    },
    {
      name: "rows past the last group",
      replace: "if row_group < params.row_groups",
      with: "if row_group <= params.row_groups",
      case: 3,
    },
    { name: "one workgroup's sums are its first row's", replace: "sum += sums[i];", with: "" },
    {
      name: "errors are not counted",
      replace: "errors = fma(error, error, errors);\n      squares",
      with: "squares",
    },
    { name: "the barrier is missing", replace: "workgroupBarrier();", with: "" },
    {
      name: "int8 goes to 128",
      replace: "INT8_LARGEST = 127.0",
      with: "INT8_LARGEST = 128.0",
      case: 1,
    },
    {
      name: "int8's least number is forgotten",
      replace: "max(most, -least)",
      with: "most",
      case: 1,
    },
    { name: "fp8 subnormals are normal", replace: "bits < 0x3c800000u", with: "false", case: 2 },
    { name: "fp8 loses its sign", replace: "& 0x80u)", with: "& 0x00u)", case: 2 },
    {
      name: "halves swap places",
      replace: "unpack2x16float(pairs.x)",
      with: "unpack2x16float(pairs.x).yx",
      case: 2,
    },
    {
      name: "small numbers are not zeros",
      replace: "largest > SMALLEST_SPAN",
      with: "true",
      case: 6,
    },
  ],

  inputs(shape, random) {
    const { source, rows, columns, offset, scale } = shape;
    const rowWords = stagedRowBytes(source, columns) / 4;
    const staging = new Uint32Array(rows * rowWords).fill(0x7fc17fc1); // NaN, whatever it holds
    const view = new DataView(staging.buffer);
    for (let r = 0; r < rows; r++) {
      // Some rows have numbers of one sign only.
      const offCentre = r % 4 === 1 ? 2 : random() * 0.6;
      for (let c = 0; c < columns; c++) {
        const bell = random() + random() + random() - 1.5 + offCentre;
        const number = Math.fround(bell * 0.3 * scale * (random() < 0.02 ? 2 : 1));
        if (source === "F32") view.setFloat32(r * rowWords * 4 + c * 4, number, true);
        else {
          const half = source === "BF16" ? encodeBf16(number) : encodeNormalF16(number);
          view.setUint16(r * rowWords * 4 + c * 2, half, true);
        }
      }
    }
    const weight = shapeOf(shape);
    const groups = scaleGroups(weight);
    const blocks = Math.ceil(columns / 128);
    const granules = weight.rowsPadded * blocks * (weight.dtype === "int4" ? 4 : 8);
    return {
      staging,
      words: new Uint32Array((offset + granules) * 4).fill(0x5a5a5a5a),
      scales: new Uint32Array(offset + groups * weight.rowsPadded).fill(0xa5a5a5a5),
    };
  },

  reference(shape, { staging, words, scales }) {
    const { source, lanes, rows, columns, before, offset } = shape;
    const weight = shapeOf(shape);
    const rowWords = stagedRowBytes(source, columns) / 4;
    const numbers = new Float32Array(rows * columns);
    for (let r = 0; r < rows; r++) {
      const row = (staging as Uint32Array).slice(r * rowWords, (r + 1) * rowWords);
      numbers.set(rowNumbers(source, row, columns), r * columns);
    }
    const want = { words: Uint32Array.from(words!), scales: Uint32Array.from(scales!) };
    const sums = quantizeRows({
      shape: weight,
      numbers,
      firstRow: before * lanes,
      ...want,
      firstWord: offset * 4,
      firstScale: offset,
    });
    // Workgroups take 64 items each: lanes first, then groups, then groups of rows.
    const groups = scaleGroups(weight);
    const partials = new Float64Array(
      2 * partialsOf(weight, { firstRow: before * lanes, rowCount: rows }),
    );
    for (let i = 0; i < sums.length / 2; i++) {
      const row = Math.floor(i / groups);
      const item = (Math.floor(row / lanes) * groups + (i % groups)) * lanes + (row % lanes);
      const at = 2 * Math.floor(item / 64);
      partials[at]! += sums[2 * i]!;
      partials[at + 1]! += sums[2 * i + 1]!;
    }
    // Where everything became zero, so did the squares of a float32.
    return { ...want, partials: partials.map((sum) => (sum < 2 ** -126 ? 0 : sum)) };
  },

  bind(recorder, shape, { staging, words, scales, partials }) {
    const { source, rows, before, offset } = shape;
    const launch = quantizeWeight(recorder, {
      shape: shapeOf(shape),
      sourceDtype: source,
      staging: staging!,
      words: words!,
      scales: scales!,
      partials: partials!,
    });
    const place = { wordsOffset: offset * 16, scalesOffset: offset * 4 };
    return () => launch({ firstRow: before * shape.lanes, rowCount: rows, ...place });
  },
});
