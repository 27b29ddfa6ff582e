import { UnsupportedError } from "../../src/errors.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import rowSum from "../common/dot/row_sum.wgsl?raw";
import addendSource from "../common/inputs/addend.wgsl?raw";
import quantizeSource from "../common/numbers/quantize_e4m3.wgsl?raw";
import source from "./add_norm.wgsl?raw";
import { type Addend, bindAddend } from "./addend.ts";
import { type NormedRows, normedParams } from "./normed_rows.ts";

const kernel = new Kernel({
  name: "norm/add_norm",
  source: addendSource + quantizeSource + rowSum + source,
  buffers: ["x", "addend", "slot_weights", "weight", "normed"],
  params: [
    "cols",
    "stride",
    "slots",
    "eps",
    "addend_form",
    "unscaled",
    "normed_stride",
    "normed_rounded",
    "normed_squares",
  ],
});

/** Columns of a row whose group maxima fit the workgroup's memory. */
const MAX_QUANTIZED_COLS = 128 * 128;

export interface AddNormOptions {
  /** `[rows, stride]` f32, the residual stream; `addend` is added to it in place */
  readonly x: Tensor;
  /** Absent: nothing is added and `x` stays as it is. */
  readonly addend?: Addend | undefined;
  /** `[cols]` f32 */
  readonly weight: Tensor;
  readonly normed: NormedRows;
  readonly cols: number;
  /** Elements from one row of `x` or the addend to the next. Default `cols`. */
  readonly stride?: number;
  /** Added to the mean square before the root. */
  readonly eps: number;
}

/**
 * `x += addend`, and of each row what `normed` is to have.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows, of which the
 * first `unscaled`, by default all, leave their scale to who multiplies them.
 *
 * @throws {UnsupportedError} when more than 16384 columns are to be quantized.
 */
export function addNorm(
  recorder: Recorder,
  options: AddNormOptions,
): (rows: number, unscaled?: number) => void {
  const { x, weight, normed, cols, stride = cols, eps } = options;
  const rounds = normed.rounded !== undefined;
  if (rounds && cols > MAX_QUANTIZED_COLS) {
    throw new UnsupportedError(`activation quantization of ${cols} columns`);
  }
  const addend = bindAddend(options.addend, weight);
  const bound = kernel.bind(
    recorder,
    { x, ...addend.tensors, weight, normed: normed.tensor },
    {
      constants: { QUANTIZE: rounds },
      params: {
        cols,
        stride,
        slots: addend.slots,
        eps,
        addend_form: addend.form,
        ...normedParams(normed),
      },
      cost: ({ grid: [rows] }) => {
        // What is added is also written back.
        const moved = 2 + (addend.form === 0 ? 0 : 1 + addend.reads) + (rounds ? 1 : 0);
        return {
          bytes: (rows * moved + 1) * cols * 4,
          flops: rows * cols * (4 + 2 * addend.reads),
        };
      },
    },
  );
  return (rows, unscaled = rows) => {
    bound.set("unscaled", unscaled);
    bound.record(rows);
  };
}
