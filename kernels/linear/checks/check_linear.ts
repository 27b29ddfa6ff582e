/**
 * The check of `linear`, for weights of any dtype: a check file names its cases and its faults.
 *
 * @module
 */
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { defineCheck, type HostArrays, type KernelCheck, type Mutant } from "../../check.ts";
import { linear } from "../linear.ts";
import {
  type GroupColumns,
  scaleWords,
  segments,
  subgroupsOf,
  type WeightDtype,
} from "../weights/layout.ts";
import { storedBytes } from "../weights/weight_cost.ts";
import { paddedRows } from "../weights/weight_order.ts";
import { formsOf } from "./check_forms.ts";
import {
  type CheckOrder,
  outputsByColumns,
  randomBias,
  randomRows,
  randomWeight,
  unpackWeight,
} from "./check_weights.ts";

export interface LinearShape extends CheckOrder {
  readonly dtype: WeightDtype;
  readonly groupColumns?: GroupColumns;
  readonly rows: number;
  readonly columns: number;
  readonly outputs: number;
  readonly outColumn: number;
  readonly segmented: boolean;
  /** Outputs that share a slice of `x`. */
  readonly groupRows: number;
  readonly bias?: boolean;
}

export const weightShape = (shape: LinearShape) => ({
  ...outputsByColumns(shape),
  ...(shape.groupColumns && { groupColumns: shape.groupColumns }),
});
/** Distance of the slices of neighbouring groups: more than a slice, as it may be. */
export const sliceStride = ({ columns }: LinearShape) => Math.ceil(columns / 4) * 4 + 4;
export const slices = ({ outputs, groupRows }: LinearShape) => Math.ceil(outputs / groupRows);
export const outStrideOf = ({ outputs, outColumn }: LinearShape) => outColumn + outputs + 3;

function inputsOf(shape: LinearShape, random: () => number): HostArrays {
  const { rows, columns } = shape;
  const stride = sliceStride(shape);
  const x = randomRows({ rows: rows * slices(shape), columns, stride }, random);
  const { words, scales } = randomWeight(weightShape(shape), random);
  return {
    x,
    words,
    ...(scaleWords(shape) > 0 && { scales }),
    ...(shape.bias && { bias: randomBias(weightShape(shape), random) }),
  };
}

function productsOf(
  shape: LinearShape,
  { x, words, scales = new Uint32Array(), bias }: HostArrays,
) {
  const { rows, columns, outputs, groupRows, outColumn } = shape;
  const weight = unpackWeight(weightShape(shape), {
    words: words as Uint32Array,
    scales: scales as Uint32Array,
  });
  const outStride = outStrideOf(shape);
  // One row more than is asked for: it must keep its poison.
  const out = new Float64Array((rows + 1) * outStride).fill(Number.NaN);
  for (let r = 0; r < rows; r++) {
    for (let n = 0; n < outputs; n++) {
      const slice = (r * slices(shape) + Math.floor(n / groupRows)) * sliceStride(shape);
      let sum = bias?.[n] ?? 0;
      for (let k = 0; k < columns; k++) sum += x![slice + k]! * weight[n * columns + k]!;
      out[r * outStride + outColumn + n] = sum;
    }
  }
  return { out };
}

function bindShape(
  recorder: Recorder,
  shape: LinearShape,
  { x, words, scales, bias, out }: Readonly<Record<string, Tensor>>,
  tuning: Readonly<Record<string, number>>,
): () => void {
  const { rows, columns, outputs, outColumn, segmented, groupRows } = shape;
  const { bits = 0 } = tuning;
  const launch = linear(recorder, {
    x: x!,
    xStride: slices(shape) * sliceStride(shape),
    weight: {
      ...(tuning.subgroups === 1 && subgroupsOf(recorder.device)),
      ...weightShape(shape),
      rowsPadded: paddedRows(outputs, weightShape(shape)),
      words: words!,
      ...(scales && { scales }),
      ...(bias && { bias }),
      fp8Decode: bits === 1 ? "bits" : "half",
    },
    out: out!,
    outStride: outStrideOf(shape),
    outColumn,
    segments: segmented ? segments(columns) : 1,
    ...(groupRows < outputs && { groups: { rows: groupRows, xStride: sliceStride(shape) } }),
    forms: formsOf(tuning),
  });
  return () => launch(rows);
}

export function linearCheck(options: {
  readonly name: string;
  readonly cases: readonly LinearShape[];
  readonly mutants: readonly Mutant[];
  /** Default: those that differ the most. */
  readonly forms?: readonly Readonly<Record<string, number>>[];
}): KernelCheck<LinearShape> {
  return defineCheck<LinearShape>({
    ...options,
    tunings: options.forms ?? [
      { tokens: 4 },
      { tokens: 1 },
      { tokens: 2, split: 4, workgroup: 32 },
      { tokens: 4, bits: 1, workgroup: 32 },
      { tokens: 4, subgroups: 1 },
      { tokens: 1, split: 4, workgroup: 64, subgroups: 1 },
    ],
    exactAcrossTunings: true,
    tolerance: 5e-6,
    bytes: (shape) => storedBytes(weightShape(shape)),
    flops: ({ rows, columns, outputs }) => 2 * rows * columns * outputs,
    inputs: inputsOf,
    reference: productsOf,
    bind: bindShape,
  });
}
