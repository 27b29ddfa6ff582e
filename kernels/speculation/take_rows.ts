import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import addendSource from "../common/inputs/addend.wgsl?raw";
import { type Addend, bindAddend } from "../norm/addend.ts";
import source from "./take_rows.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/take_rows",
  source: addendSource + source,
  buffers: ["row_indices", "x", "addend", "slot_weights", "out"],
  params: ["cols", "stride", "out_stride", "out_column", "slots", "addend_form"],
});

export interface TakeRowsOptions {
  /** `[count]` u32: the rows of `x` that are taken. Default: its first, in their order. */
  readonly rowIndices?: Tensor | undefined;
  /** `[rows, stride]` f32 */
  readonly x: Tensor;
  /** What a block adds to `x`. */
  readonly addend?: Addend | undefined;
  /** `[count, outStride]` f32 */
  readonly out: Tensor;
  readonly cols: number;
  /** Elements from one row to the next, of `x` and the addend. */
  readonly stride: number;
  readonly outStride: number;
  /** First column of `out` that is written. Default 0. */
  readonly outColumn?: number;
}

/**
 * `out[i] = x[r] + addend(r)`, `r = rowIndices[i]`: rows of a residual stream as they are.
 *
 * Binds the tensors now; the returned function records one launch over `count` rows.
 */
export function takeRows(recorder: Recorder, options: TakeRowsOptions): (count: number) => void {
  const { rowIndices, x, out, cols, stride, outStride, outColumn = 0 } = options;
  const addend = bindAddend(options.addend, x);
  const bound = kernel.bind(
    recorder,
    // A binding cannot stay empty.
    { row_indices: rowIndices ?? x, x, ...addend.tensors, out },
    {
      constants: { INDEXED: rowIndices !== undefined },
      params: {
        cols,
        stride,
        out_stride: outStride,
        out_column: outColumn,
        slots: addend.slots,
        addend_form: addend.form,
      },
      cost: ({ grid: [count] }) => ({
        bytes: count * (2 + addend.reads) * cols * 4,
        flops: 2 * count * cols * addend.reads,
      }),
    },
  );
  return (count) => bound.record(count);
}
