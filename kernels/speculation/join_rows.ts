import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import addendSource from "../common/inputs/addend.wgsl?raw";
import { type Addend, bindAddend } from "../norm/addend.ts";
import source from "./join_rows.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/join_rows",
  source: addendSource + source,
  buffers: ["embedded", "x", "addend", "slot_weights", "final_weight", "weights", "out"],
  params: ["cols", "stride", "out_stride", "slots", "eps", "addend_form", "hidden_norm"],
});

export interface JoinRowsOptions {
  /** `[rows, stride]` f32: embeddings of the tokens behind the rows' own */
  readonly embedded: Tensor;
  /** `[rows, stride]` f32: hidden rows; of a target with `finalWeight` its residual stream */
  readonly x: Tensor;
  /** What the target's last block adds to `x`. */
  readonly addend?: Addend | undefined;
  /** `[cols]` f32: of the target's final norm, where `x` is not normed yet */
  readonly finalWeight?: Tensor | undefined;
  /** Norms of both halves. Default: neither is normed once more. */
  readonly norms?:
    | {
        /** f32: from 0 on `cols` weights of the embedding's norm, from `hidden` on those of the hidden row's */
        readonly weights: Tensor;
        readonly hidden: number;
      }
    | undefined;
  /** `[rows, outStride]` f32: both halves, one behind the other */
  readonly out: Tensor;
  readonly cols: number;
  /** Elements from one row to the next, of everything but `out`. Default `cols`. */
  readonly stride?: number;
  /** Default `2 * cols`. */
  readonly outStride?: number;
  /** Added to each mean square before the root. */
  readonly eps: number;
}

/**
 * `out[r]` = the embedding of row r and its hidden row, each normed or as it is, side by side: the
 * input of the first projection of a network that drafts.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function joinRows(recorder: Recorder, options: JoinRowsOptions): (rows: number) => void {
  const { embedded, x, finalWeight, norms, out, cols, eps } = options;
  const { stride = cols, outStride = 2 * cols } = options;
  // A binding cannot stay empty.
  const unused = embedded;
  const addend = bindAddend(options.addend, unused);
  const vectors = (norms === undefined ? 0 : 2) + (finalWeight === undefined ? 0 : 1);
  const bound = kernel.bind(
    recorder,
    {
      embedded,
      x,
      ...addend.tensors,
      final_weight: finalWeight ?? unused,
      weights: norms?.weights ?? unused,
      out,
    },
    {
      constants: { FINAL_NORM: finalWeight !== undefined, NORMS: norms !== undefined },
      params: {
        cols,
        stride,
        out_stride: outStride,
        slots: addend.slots,
        eps,
        addend_form: addend.form,
        hidden_norm: norms?.hidden ?? 0,
      },
      cost: ({ grid: [count] }) => ({
        bytes: (count * (4 + addend.reads) + vectors) * cols * 4,
        flops: count * cols * (8 + 2 * addend.reads),
      }),
    },
  );
  return (rows) => bound.record(rows, 2);
}
