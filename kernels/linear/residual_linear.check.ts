import { allocateTensor } from "../../src/gpu/tensor.ts";
import { defineCheck } from "../check.ts";
import { addNorm } from "../norm/add_norm.ts";
import { normedShape } from "../norm/normed_rows.ts";
import { normedRow } from "../norm/reference.ts";
import { formsOf, TABLE_FORMS } from "./checks/check_forms.ts";
import {
  type CheckOrder,
  dot,
  IN_RUNS,
  outputsByColumns,
  randomBias,
  randomRows,
  randomWeight,
  unpackWeight,
} from "./checks/check_weights.ts";
import { linear } from "./linear.ts";
import { residualLinear } from "./residual_linear.ts";
import { scaleWords, segments, subgroupsOf, type WeightDtype } from "./weights/layout.ts";
import { storedBytes } from "./weights/weight_cost.ts";
import { paddedRows } from "./weights/weight_order.ts";

interface Shape extends CheckOrder {
  readonly dtype: WeightDtype;
  readonly rows: number;
  readonly columns: number;
  readonly outputs: number;
  readonly rounded: boolean;
  readonly bias: boolean;
  /** Whether outputs take the place of the stream. */
  readonly replaces?: boolean;
  /** Magnitude of the residual stream and of what is added. */
  readonly scale: number;
}

const strideOf = ({ outputs }: Shape) => outputs + 5;
const xStrideOf = ({ columns }: Shape) => Math.ceil(columns / 4) * 4 + 4;
const typical = { bias: false, scale: 1 } as const;
/** First one of several rows, as faults in how rows are told apart need, that compiles soon. */
const FORMS = [{ tokens: 2, split: 1, workgroup: 8, staged: 0 }, ...TABLE_FORMS];
const STAGED = FORMS.findIndex(({ staged }) => staged === 1);
const SPLIT = FORMS.findIndex(({ split }) => split > 1);
const SPLIT_ROWS = FORMS.findIndex(({ split, tokens }) => split > 1 && tokens > 1);

/** A linear that adds to the residual stream and norms it, beside `linear` and `addNorm`. */
export default defineCheck<Shape>({
  name: "linear/linear residual",
  cases: [
    // Three groups of the rounding, the last a short one that ends inside a run of squares and
    // inside a vector; rows beyond any tile; more than half of the segments that a tree has.
    { ...typical, dtype: "bf16", rows: 9, columns: 2317, outputs: 269, rounded: true },
    { ...typical, dtype: "bf16", rows: 9, columns: 269, outputs: 45, rounded: false, bias: true },
    // Magnitudes below the smallest that a scale of scaled rows stands for.
    { ...typical, dtype: "f32", rows: 3, columns: 130, outputs: 133, rounded: true, scale: 1e-7 },
    {
      ...typical,
      dtype: "int4",
      rows: 2,
      columns: 141,
      outputs: 70,
      rounded: true,
      bias: true,
      ...IN_RUNS,
    },
    { ...typical, dtype: "fp8", rows: 1, columns: 1, outputs: 1, rounded: true },
    {
      ...typical,
      dtype: "bf16",
      rows: 3,
      columns: 141,
      outputs: 45,
      rounded: true,
      replaces: true,
    },
    // More blocks than segments, and segments of unequal length.
    { ...typical, dtype: "bf16", rows: 2, columns: 128 * 45, outputs: 33, rounded: false },
    { ...typical, dtype: "fp8", rows: 1, columns: 2048, outputs: 2048, rounded: true },
  ],
  tunings: [
    ...FORMS.map((form) => ({ folded: 1, ...form })),
    { folded: 0 },
    { folded: 1, subgroups: 1 },
    { folded: 1, tokens: 2, split: 4, workgroup: 32, subgroups: 1 },
    // The most outputs of a workgroup.
    { folded: 1, tokens: 8, workgroup: 256 },
    // Of more rows than there is room for: one of half as many.
    { folded: 1, tokens: 64, workgroup: 256, staged: 1 },
  ],
  tunedCases: [0],
  exactAcrossTunings: true,
  tolerance: 1e-5,
  bytes: (shape) => storedBytes(outputsByColumns(shape)),
  flops: ({ rows, columns, outputs }) => 2 * rows * columns * outputs,
  mutants: [
    {
      name: "all rows of a staged form are the first",
      replace: "stream_values[(own + t) * WORKGROUP_OUTPUTS",
      with: "stream_values[t * WORKGROUP_OUTPUTS",
      tuning: STAGED,
    },
    {
      name: "rows beyond the last of a staged form are added to",
      replace: "t < min(own + TOKENS, rows);",
      with: "t < own + TOKENS;",
      tuning: STAGED,
    },
    {
      name: "rows of a staged form share scales",
      replace: "atomicMax(&largest[t]",
      with: "atomicMax(&largest[t % TOKENS]",
      tuning: STAGED,
    },
    {
      name: "nothing is added",
      replace: "out[at + output[i]] + sum[i]",
      with: "sum[i]",
    },
    {
      name: "outputs that take its place are added",
      replace: "if ADDS {",
      with: "if true {",
      case: 5,
    },
    {
      name: "the residual stream keeps what it had",
      replace: "out[at + output[i]] = value;",
      with: "",
    },
    {
      name: "rows of the residual stream are too close",
      replace: "* params.out_stride",
      with: "* params.outputs",
    },
    { name: "normed rows are not weighted", replace: "* norm_weight[column]", with: "" },
    {
      name: "weights of the norm are those of the first outputs",
      replace: "norm_weight[column]",
      with: "norm_weight[column - first]",
    },
    {
      name: "what is not weighted counts for the scale",
      replace: "value * norm_weight[output[i]]",
      with: "value",
    },
    {
      name: "normed rows are too close",
      replace: "let beside = (tile_row + t) * params.normed_stride + column;",
      with: "let beside = (tile_row + t) * params.out_stride + column;",
    },
    {
      name: "outputs beyond the last are written",
      replace: "output[i] < end",
      with: "true",
    },
    {
      name: "rows beyond the last are written",
      replace: "min(WORKGROUP_ROWS, params.rows - tile_row)",
      with: "WORKGROUP_ROWS",
    },
    {
      name: "what is beyond the last output counts",
      replace: "var value = 0.0;",
      with: "var value = 1.0;",
    },
    {
      name: "rows share the values that are squared",
      replace: "stream_values[t * WORKGROUP_OUTPUTS +",
      with: "stream_values[t / TOKENS * WORKGROUP_OUTPUTS +",
    },
    {
      name: "the last vector is not squared",
      replace: "i < (n + 1u) * SQUARES_COLUMNS",
      with: "i + 4u < (n + 1u) * SQUARES_COLUMNS",
    },
    {
      name: "only the last vector is squared",
      replace: "squares = fma(values, values, squares)",
      with: "squares = values * values",
    },
    {
      name: "a column of four is not squared",
      replace: "stream_values[i + 2u], stream_values[i + 3u]",
      with: "stream_values[i + 2u], 0.0",
    },
    {
      name: "runs without outputs have sums",
      replace: "if column < end",
      with: "if true",
    },
    {
      name: "squares are those of the first row",
      replace: "tile_row + n / WORKGROUP_TILES",
      with: "tile_row",
    },
    {
      name: "sums of squares have no columns of their own",
      replace: "params.normed_squares + column",
      with: "column",
    },
    {
      name: "sums of squares are those of the first workgroup",
      replace: "params.normed_squares + column / SQUARES_COLUMNS",
      with: "params.normed_squares + n % WORKGROUP_TILES",
    },
    {
      name: "values are read before they are there",
      replace: "workgroupBarrier();\n  // One",
      with: "// One",
    },
    {
      name: "invocations without rows write",
      replace: "return invocation < ROW_LANES * TOKEN_LANES;",
      with: "return true;",
      tuning: SPLIT,
    },
    {
      name: "nothing is rounded",
      replace: "round_e4m3(value / scale) * scale",
      with: "value",
    },
    {
      name: "every invocation has a scale of its own",
      replace: "atomicMax(&largest[t], bitcast<u32>(most))",
      with: "atomicStore(&largest[t], bitcast<u32>(most))",
    },
    { name: "every row has the scale of all", replace: "&largest[t]", with: "&largest[0]" },
    {
      name: "only the last of four columns counts for the scale",
      replace: "most = max(most, abs(",
      with: "most = max(0.0, abs(",
    },
    {
      name: "what is negative does not count for the scale",
      replace: "max(most, abs(value * norm_weight[output[i]]))",
      with: "max(most, value * norm_weight[output[i]])",
    },
    {
      name: "the least scale is that of scaled rows",
      replace: "unscaled_group_scale(bitcast",
      with: "group_scale(bitcast",
      case: 2,
    },
    {
      name: "rounded columns replace those that are not",
      replace: "+ params.normed_rounded",
      with: "",
    },
    {
      name: "rows are rounded where the first one is",
      replace: "normed[beside + params.normed_rounded]",
      with: "normed[column + params.normed_rounded]",
    },
    { name: "a segment is lost", replace: "= (*waiting)[level][t] + total[t]", with: "= total[t]" },
    {
      name: "the first half of the segments is lost",
      replace: "= stream_values[at] + sums[t][i]",
      with: "= sums[t][i]",
      tuning: STAGED,
    },
    {
      name: "halves of all rows wait in one place",
      replace: "(invocation / ROW_LANES * TOKENS + t) * WORKGROUP_OUTPUTS + column",
      with: "t * WORKGROUP_OUTPUTS + column",
      tuning: STAGED,
    },
    {
      name: "sums of all rows wait in one place",
      replace: "waiting_sums[folder][level][t]",
      with: "waiting_sums[0][level][t]",
      tuning: SPLIT,
    },
    {
      name: "a waiting sum is lost",
      replace: "= waiting_sums[folder][level][t] + total[t]",
      with: "= total[t]",
      tuning: SPLIT,
    },
    {
      name: "a segment that ends with its round is lost",
      replace: "group <= end",
      with: "group < end",
      tuning: SPLIT,
    },
    {
      name: "all activation rows have the sums of the first",
      replace: "group_partials[part][first_folded + t]",
      with: "group_partials[part][0]",
      tuning: SPLIT_ROWS,
    },
    {
      name: "sums are handed over as those of other activation rows",
      replace: "[first_folded + t] = waiting[0][t]",
      with: "[TOKENS - 1u - first_folded - t] = waiting[0][t]",
      tuning: SPLIT_ROWS,
    },
    {
      name: "the sum of all segments stays behind",
      replace: "waiting[0] = waiting_sums[invocation][0];",
      with: "waiting[0] = segment;",
      tuning: SPLIT,
    },
    {
      name: "the bias is dropped",
      replace: "sums[t] + bias_of(row)",
      with: "sums[t]",
      case: 1,
    },
  ],

  inputs(shape, random) {
    const { rows, columns, outputs, bias, scale } = shape;
    const weight = outputsByColumns(shape);
    const scaled = (row: Float32Array) => row.map((value) => value * scale);
    const stride = strideOf(shape);
    const { words, scales } = randomWeight(weight, random);
    return {
      x: scaled(randomRows({ rows, columns, stride: xStrideOf(shape) }, random)),
      words,
      ...(scaleWords(shape) > 0 && { scales }),
      ...(bias && { bias: randomBias(weight, random) }),
      norm_weight: Float32Array.from({ length: outputs }, () => 0.5 + random()),
      // One row more than is asked for: it must stay as it is.
      hidden: scaled(randomRows({ rows: rows + 1, columns: outputs, stride }, random)),
    };
  },

  reference(shape, inputs) {
    const { rows, columns, outputs, rounded: rounds, replaces } = shape;
    const { x, words, scales = new Uint32Array(), bias, norm_weight } = inputs;
    const weight = unpackWeight(outputsByColumns(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    const hidden = Float64Array.from(inputs.hidden!);
    const { stride } = normedShape(outputs, rounds);
    const normed = new Float64Array((rows + 1) * stride).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      const first = r * strideOf(shape);
      for (let n = 0; n < outputs; n++) {
        const sum = dot({ weight, columns, row: n }, x!, r * xStrideOf(shape));
        const before = replaces ? 0 : hidden[first + n]!;
        hidden[first + n] = before + sum + (bias?.[n] ?? 0);
      }
      const row = hidden.subarray(first, first + outputs);
      normed.set(normedRow(row, norm_weight!, { rounds }), r * stride);
    }
    return { hidden, normed };
  },

  bind(recorder, shape, tensors, { folded = 0, subgroups = 0, ...tuning }) {
    const { rows, columns, outputs, rounded, replaces } = shape;
    const { x, words, scales, bias, norm_weight, hidden } = tensors;
    const { device } = recorder;
    const stride = strideOf(shape);
    const normed = { tensor: tensors.normed!, ...normedShape(outputs, rounded) };
    const hasRoom = device.limits.maxComputeWorkgroupStorageSize >= 2 ** 15;
    const options = {
      x: x!,
      xStride: xStrideOf(shape),
      weight: {
        ...(subgroups === 1 && subgroupsOf(device)),
        ...outputsByColumns(shape),
        rowsPadded: paddedRows(outputs, outputsByColumns(shape)),
        words: words!,
        ...(scales && { scales }),
        ...(bias && { bias }),
      },
      segments: segments(columns),
      // As in an engine, there is a form beside one that there is no room for.
      forms: [...(hasRoom ? [] : formsOf({ tokens: 1 })), ...formsOf(tuning)],
    };
    if (folded === 1) {
      const residual = { hidden: hidden!, stride, weight: norm_weight!, normed };
      const launch = residualLinear(recorder, {
        ...options,
        residual,
        ...(replaces && { replaces }),
      });
      if (hasRoom && !launch.adds(rows))
        throw new Error("Cannot check residual_linear: a staged form would be sooner");
      return () => launch.record(rows);
    }
    const added = allocateTensor(device, rows * stride * 4, "added");
    const out = replaces ? hidden! : added;
    const launch = linear(recorder, { ...options, out, outStride: stride });
    const norm = addNorm(recorder, {
      x: hidden!,
      addend: replaces ? undefined : { kind: "row", tensor: added },
      weight: norm_weight!,
      normed,
      cols: outputs,
      stride,
      eps: 1e-6,
    });
    return () => {
      launch(rows);
      norm(rows);
    };
  },
});
