import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import rowSum from "../common/dot/row_sum.wgsl?raw";
import addendSource from "../common/inputs/addend.wgsl?raw";
import { type Addend, bindAddend } from "./addend.ts";
import source from "./final_norm.wgsl?raw";

const kernel = new Kernel({
  name: "norm/final_norm",
  source: addendSource + rowSum + source,
  buffers: ["row_indices", "x", "addend", "slot_weights", "weight", "out"],
  params: ["cols", "stride", "slots", "eps", "addend_form"],
});

export interface FinalNormOptions {
  /** `[count]` u32: the rows of `x` that are wanted */
  readonly rowIndices: Tensor;
  /** `[rows, stride]` f32, the residual stream; not modified */
  readonly x: Tensor;
  /** What the last block adds to `x`. */
  readonly addend?: Addend | undefined;
  /** `[cols]` f32 */
  readonly weight: Tensor;
  /** `[count, stride]` f32 */
  readonly out: Tensor;
  readonly cols: number;
  /** Elements from one row to the next, in every tensor. Default `cols`. */
  readonly stride?: number;
  /** Added to the mean square before the root. */
  readonly eps: number;
}

/**
 * `out[i] = v / rms(v) * weight` with `v = x[r] + addend(r)`, `r = rowIndices[i]`.
 *
 * Binds the tensors now; the returned function records one launch over `count` wanted rows.
 */
export function finalNorm(recorder: Recorder, options: FinalNormOptions): (count: number) => void {
  const { rowIndices, x, weight, out, cols, stride = cols, eps } = options;
  const addend = bindAddend(options.addend, weight);
  const bound = kernel.bind(
    recorder,
    { row_indices: rowIndices, x, ...addend.tensors, weight, out },
    {
      params: { cols, stride, slots: addend.slots, eps, addend_form: addend.form },
      cost: ({ grid: [count] }) => ({
        bytes: (count * (2 + addend.reads) + 1) * cols * 4,
        flops: count * cols * (4 + 2 * addend.reads),
      }),
    },
  );
  return (count) => bound.record(count);
}
