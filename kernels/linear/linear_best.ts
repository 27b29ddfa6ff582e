/**
 * A linear of whose outputs only the largest of each row is wanted, as of an output head in a step
 * of greedy rows: the outputs themselves never reach memory.
 *
 * @module
 */
import type { Recorder } from "../../src/gpu/recorder.ts";
import { formOf } from "../../src/gpu/row_forms.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { RowForm } from "../../src/gpu/tuning.ts";
import outputsPlain from "../common/outputs/outputs_plain.wgsl?raw";
import writeBest from "../common/outputs/write_best.wgsl?raw";
import orderedBits from "../common/sampling/ordered_bits.wgsl?raw";
import { bindLinear, linearText, linearWidth } from "./linear.ts";
import type { LinearWeight } from "./linear_layout.ts";
import { formInUse, launchForms, rowsOf } from "./weights/launch_form.ts";
import { requireMultiplesOf4, SCALED_ROWS, weightKernels } from "./weights/weight_kernel.ts";

const kernelFor = weightKernels(linearText(outputsPlain, orderedBits, writeBest, SCALED_ROWS));

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
    const to = { out: tiles, outStride: 2 * tileStride, outColumn };
    const kernel = bindLinear(recorder, kernelFor, { x, xStride, weight, ...to, form });
    const width = linearWidth(weight.rows, weight.rows, form);
    return { ...formInUse(weight, form, width), kernel, width };
  });
  return (rows, firstTile) => {
    const { kernel, tokens, width } = formOf(forms, rows);
    kernel.set("rows", rows);
    kernel.set("first_tile", firstTile);
    kernel.record(width, Math.ceil(rows / tokens));
    return width;
  };
}
