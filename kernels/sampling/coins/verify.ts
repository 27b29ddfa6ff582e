import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import softmaxWeight from "../../common/attention/softmax_weight.wgsl?raw";
import bestOfRow from "../../common/sampling/best_of_row.wgsl?raw";
import keptTokens from "../../common/sampling/kept_tokens.wgsl?raw";
import orderedBits from "../../common/sampling/ordered_bits.wgsl?raw";
import philox from "../../common/sampling/philox.wgsl?raw";
import u64 from "../../common/sampling/u64.wgsl?raw";
import workgroupBest from "../../common/sampling/workgroup_best.wgsl?raw";
import { rowConstants } from "../argmax.ts";
import { PASSES, type SampleOptions } from "../sample.ts";
import source from "./verify.wgsl?raw";

const kernel = new Kernel({
  name: "sampling/verify",
  source:
    orderedBits + workgroupBest + bestOfRow + softmaxWeight + u64 + philox + keptTokens + source,
  buffers: ["logits", "draws", "children", "logit_rows", "rows", "ids"],
  params: ["vocabulary", "stride", "single", "acc"],
});

/** Words of a row in the `children` tensor: its first child, and the next child of its parent. */
export const CHILDREN_WORDS = 2;
/** In place of one of these: there is none. */
export const NO_ROW = 0xffffffff;

export interface VerifyOptions extends SampleOptions {
  /** `[rows, CHILDREN_WORDS]` u32: rows of logits, or `NO_ROW` */
  readonly children: Tensor;
  /** `[..]` u32: rows of the step, in the order of their logits */
  readonly logitRows: Tensor;
  /** `[..]` of four u32: source, which of a child is the token id of a draft, and three others */
  readonly rows: Tensor;
  /** Share of the kept tokens from which a draft is accepted, from 0 to 1. */
  readonly single: number;
  /** What coins are compared with is divided by it, from 0 to 1; the least divisor is 1e-9. */
  readonly acc: number;
}

/**
 * Gives each row the token of an accepted child, or draws its token as `sample` does. No two children
 * of a row stand at the same token.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function verify(recorder: Recorder, options: VerifyOptions): (rows: number) => void {
  const { logits, draws, ids, children, logitRows, rows: stepRows, single, acc } = options;
  const { vocabulary, stride = vocabulary, workgroupSize } = options;
  const bound = kernel.bind(
    recorder,
    { logits, draws, children, logit_rows: logitRows, rows: stepRows, ids },
    {
      constants: { ...rowConstants(vocabulary, workgroupSize), NO_ROW },
      params: { vocabulary, stride, single, acc },
      cost: ({ grid: [rows] }) => ({ bytes: PASSES * rows * vocabulary * 4, flops: 0 }),
    },
  );
  return (rows) => bound.record(rows);
}
