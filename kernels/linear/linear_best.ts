/**
 * A linear of whose outputs only the largest of each row is wanted, as of an output head in a step
 * of greedy rows: the outputs themselves never reach memory.
 *
 * @module
 */
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { formOf, type RowForm } from "../../src/gpu/tuning.ts";
import orderedBits from "../common/ordered_bits.wgsl?raw";
import outputsPlain from "../common/outputs_plain.wgsl?raw";
import writeBest from "../common/write_best.wgsl?raw";
import { launchForms, rowLanes, rowsOf } from "./launch_form.ts";
import type { LinearWeight } from "./layout.ts";
import { linearText, ROWS_PER_LANE } from "./linear.ts";
import { weightCost } from "./weight_cost.ts";
import {
  requireMultiplesOf4,
  weightConstants,
  weightKernels,
  weightTensors,
} from "./weight_kernel.ts";

const kernelFor = weightKernels(linearText(outputsPlain, orderedBits, writeBest));

export interface LinearBestOptions {
  /** `[rows, xStride]` f32; what lies beyond `weight.columns` is not used */
  readonly x: Tensor;
  /** A multiple of 4. */
  readonly xStride: number;
  readonly weight: LinearWeight;
  /** Column of output 0 among those of all weights whose best is looked for. */
  readonly outColumn: number;
  /** `[rows, tileStride]` (key, column): each the best of a tile of outputs */
  readonly tiles: Tensor;
  /** Entries of two words. */
  readonly tileStride: number;
  /** How launches are shared out; never changes a bit. Default: as the weight's tuning says. */
  readonly forms?: readonly RowForm[];
}

/**
 * The best outputs of `linear` without `segments` and `groups`: tile by tile, ordered as `argmax`
 * orders them, for `bestTile` to choose from.
 *
 * @returns Records one launch over `rows` rows, whose tiles go to `firstTile` and on of each row;
 * says how many they are.
 */
export function linearBest(
  recorder: Recorder,
  options: LinearBestOptions,
): (rows: number, firstTile: number) => number {
  const { x, xStride, weight, outColumn, tiles, tileStride } = options;
  requireMultiplesOf4("linear/linear", { xStride });
  // The best of a tile takes the workgroup memory that staged weights would need.
  const demand = { stages: false, mostRows: rowsOf(x, xStride) };
  const forms = launchForms(weight, demand, options.forms).map((form) => {
    const { weights, scales, bias } = weightTensors("linear/linear", weight);
    const kernel = kernelFor(weight, form).bind(
      recorder,
      { x, weights, scales, bias, norm_weight: x, out: tiles },
      {
        constants: weightConstants(weight, form, { segments: 1, bias: weight.bias !== undefined }),
        params: {
          outputs: weight.rows,
          columns: weight.columns,
          rows_padded: weight.rowsPadded,
          segments: 1,
          x_stride: xStride,
          out_stride: 2 * tileStride,
          out_column: outColumn,
          group_rows: weight.rows,
          group_stride: 0,
          residual: 0,
          eps: 0,
        },
        cost: ({ param }) => weightCost(weight, param("rows"), weight.rows),
      },
    );
    return { ...form, kernel, width: Math.ceil(weight.rows / (ROWS_PER_LANE * rowLanes(form))) };
  });
  return (rows, firstTile) => {
    const { kernel, tokens, width } = formOf(forms, rows);
    kernel.set("rows", rows);
    kernel.set("first_tile", firstTile);
    kernel.record(width, Math.ceil(rows / tokens));
    return width;
  };
}
