import { defineCheck } from "../../check.ts";
import {
  type LinearShape,
  linearCheck,
  outStrideOf,
  sliceStride,
  slices,
  weightShape,
} from "../checks/check_linear.ts";
import {
  emulatedTiles,
  MATRIX_CONFIGS,
  MATRIX_TUNINGS,
  type MatrixConfigName,
  ofOperands,
} from "../checks/check_matrix.ts";
import { IN_RUNS } from "../checks/check_weights.ts";
import { segments } from "../weights/layout.ts";
import { paddedRows } from "../weights/weight_order.ts";
import { matrixLinear } from "./matrix_linear.ts";

interface Shape extends LinearShape {
  readonly config: MatrixConfigName;
  /** Rows before it are left alone. */
  readonly firstRow: number;
  /** What the first number of each row is. Default: a random one. */
  readonly first?: number;
}

const base = { outColumn: 3, segmented: false, lanes: 8 } as const;
const whole = 1e9;
const { inputs, reference, bytes } = linearCheck({ name: "", cases: [], mutants: [] });

export default defineCheck<Shape>({
  name: "linear/matrix_linear",
  cases: [
    // Two groups of columns, the second a short one that ends in a vector; a tile that is not full.
    {
      ...base,
      config: "f16 16x16x16",
      dtype: "fp8",
      rows: 5,
      columns: 141,
      outputs: 21,
      firstRow: 2,
      groupRows: whole,
      bias: true,
    },
    // Two tiles of rows, two of outputs in each of two slices.
    {
      ...base,
      config: "f32 8x8x8",
      dtype: "bf16",
      rows: 70,
      columns: 70,
      outputs: 269,
      firstRow: 1,
      groupRows: 135,
      lanes: 16,
    },
    {
      ...base,
      config: "f16 8x16x16",
      dtype: "int4",
      rows: 18,
      columns: 333,
      outputs: 67,
      firstRow: 0,
      groupRows: whole,
      groupColumns: 32,
      segmented: true,
      ...IN_RUNS,
    },
    {
      ...base,
      config: "f16 8x8x8",
      dtype: "mxfp4",
      rows: 3,
      columns: 170,
      outputs: 8,
      firstRow: 0,
      groupRows: whole,
      lanes: 32,
    },
    {
      ...base,
      config: "f16 16x16x16",
      dtype: "bf16",
      rows: 9,
      columns: 40,
      outputs: 40,
      firstRow: 0,
      groupRows: whole,
      first: 1e6,
    },
    {
      ...base,
      config: "f32 8x8x8",
      dtype: "f32",
      rows: 2,
      columns: 131,
      outputs: 9,
      firstRow: 0,
      groupRows: whole,
    },
    {
      ...base,
      config: "f16 16x16x16",
      dtype: "f16",
      rows: 4,
      columns: 260,
      outputs: 12,
      firstRow: 3,
      groupRows: whole,
      segmented: true,
    },
    {
      ...base,
      config: "f32 8x8x8",
      dtype: "mxfp4",
      rows: 4,
      columns: 100,
      outputs: 12,
      firstRow: 0,
      groupRows: whole,
    },
    {
      ...base,
      config: "f16 16x16x16",
      dtype: "int8",
      rows: 32,
      columns: 512,
      outputs: 128,
      firstRow: 0,
      groupRows: whole,
    },
    // Two runs of columns.
    {
      ...base,
      config: "f16 8x8x8",
      dtype: "fp8",
      rows: 3,
      columns: 1100,
      outputs: 5,
      firstRow: 0,
      groupRows: whole,
    },
  ],
  tunings: MATRIX_TUNINGS,
  exactAcrossTunings: true,
  tolerance: 5e-6,
  bytes,
  flops: ({ rows, firstRow, columns, outputs }) => 2 * (rows - firstRow) * columns * outputs,
  mutants: [
    { name: "rows start at the first", replace: "params.first_row +", with: "" },
    { name: "rows are read too close", replace: "row * params.x_stride", with: "row * 0u" },
    { name: "slices are read too close", replace: "* params.group_stride", with: "", case: 1 },
    { name: "every slice is the first", replace: "group.x / tiles", with: "0u", case: 1 },
    { name: "rows are written too close", replace: "* params.out_stride", with: "* 21u" },
    { name: "the first column is 0", replace: "+ params.out_column", with: "" },
    { name: "rows beyond the last", replace: "out_row < params.rows", with: "true" },
    { name: "outputs beyond the last", replace: "output[i] < end", with: "true" },
    { name: "one tile of outputs", replace: "group.x % tiles", with: "0u", case: 1 },
    { name: "one tile of rows", replace: "group.y * TILE_ROWS", with: "0u", case: 1 },
    { name: "the bias is dropped", replace: "sums[t] + bias_of(row)", with: "sums[t]" },
    {
      name: "columns that are none",
      replace: "if masks {",
      with: "if false {",
      case: 2,
    },
    {
      name: "scales of the first group",
      replace: "scale_words(group, vec4u(own.scale))",
      with: "scale_words(0u, vec4u(own.scale))",
    },
    {
      name: "zero points of the first row",
      replace: "own.scale = tile_scale(tile, own.output)",
      with: "own.scale = tile_scale(tile, 0u)",
      case: 2,
    },
    { name: "weights keep their factor", replace: "vec4f(WEIGHT_DOWN)", with: "vec4f(1.0)" },
    {
      name: "a segment's first run only",
      replace: "group += RUN_GROUPS",
      with: "group += 9999u",
      case: 9,
    },
    {
      name: "a run's first columns only",
      replace: "min(end * GROUP_CHUNKS, used)",
      with: "min(first * GROUP_CHUNKS + 1u, used)",
    },
    {
      name: "runs start at the sum before",
      replace: "var sums = PanelProducts();",
      with: "var sums = PanelProducts(); sums[0].p00[0] = products[0];",
      case: 9,
    },
    { name: "one panel", replace: "if panel < PANELS {", with: "if panel < 1u {" },
    {
      name: "panels beyond the first of a subgroup",
      replace: "i * subgroup_count(lanes)",
      with: "i * 7u",
      tuning: 1,
    },
    {
      name: "one matrix along the columns",
      replace: "OPERAND_STRIDE + k)",
      with: "OPERAND_STRIDE)",
    },
    {
      name: "one matrix along the rows",
      replace: "load_left((first_row + 1u * MATRIX_M)",
      with: "load_left((first_row + 0u * MATRIX_M)",
      case: 1,
    },
    {
      name: "one matrix along the outputs",
      replace: "load_right((first_output + 1u * MATRIX_N)",
      with: "load_right((first_output + 0u * MATRIX_N)",
      case: 1,
    },
    {
      name: "one turn of rows",
      replace: "row / TURN_ROWS == turn",
      with: "row / TURN_ROWS == 0u",
      case: 1,
    },
    { name: "operands beyond f16", replace: "clamp(value,", with: "clamp(2.0 * value,", case: 4 },
    {
      name: "operands keep all bits",
      replace: "pack2x16float(finite.xy), pack2x16float(finite.zw)",
      with: "pack2x16float(finite.xy * 1.001), pack2x16float(finite.zw)",
    },
  ],

  inputs(shape, random) {
    const made = inputs(shape, random);
    const { first } = shape;
    if (first === undefined) return made;
    const x = made.x!.map((value, i) => (i % sliceStride(shape) === 0 ? first : value));
    return { ...made, x };
  },

  reference(shape, { x, ...weight }) {
    const { out } = ofOperands(MATRIX_CONFIGS[shape.config], x as Float32Array, (rounded) =>
      reference(shape, { x: rounded, ...weight }),
    );
    return { out: out!.fill(Number.NaN, 0, shape.firstRow * outStrideOf(shape)) };
  },

  bind(recorder, shape, { x, words, scales, bias, out }, tuning) {
    const { rows, firstRow, columns, outputs, outColumn, segmented, groupRows } = shape;
    const launch = matrixLinear(recorder, {
      x: x!,
      xStride: slices(shape) * sliceStride(shape),
      weight: {
        ...weightShape(shape),
        rowsPadded: paddedRows(outputs, weightShape(shape)),
        words: words!,
        ...(scales && { scales }),
        ...(bias && { bias }),
      },
      tiles: emulatedTiles(MATRIX_CONFIGS[shape.config], tuning),
      out: out!,
      outStride: outStrideOf(shape),
      outColumn,
      segments: segmented ? segments(columns) : 1,
      ...(groupRows < outputs && { groups: { rows: groupRows, xStride: sliceStride(shape) } }),
    });
    return () => launch(firstRow, rows);
  },
});
