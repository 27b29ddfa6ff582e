import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import rowSum from "../../common/dot/row_sum.wgsl?raw";
import orderedBits from "../../common/sampling/ordered_bits.wgsl?raw";
import workgroupBest from "../../common/sampling/workgroup_best.wgsl?raw";
import { rowConstants } from "../../sampling/argmax.ts";
import source from "./top_drafts.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/trees/top_drafts",
  source: orderedBits + workgroupBest + rowSum + source,
  buffers: ["logits", "tokens", "probabilities"],
  params: ["vocabulary", "stride", "topk"],
});

export interface TopDraftsOptions {
  /** `[rows, stride]` f32 */
  readonly logits: Tensor;
  /** `[rows, topk]` u32 */
  readonly tokens: Tensor;
  /** `[rows, topk]` f32 */
  readonly probabilities: Tensor;
  /** At most `vocabulary`. */
  readonly topk: number;
  /** Logits in a row. */
  readonly vocabulary: number;
  /** Default `vocabulary`. */
  readonly stride?: number;
  /** Invocations per row, 64 or 256. Default: by the vocabulary. */
  readonly workgroupSize?: number;
}

/**
 * The likeliest tokens of each row, best first, the lowest one of equals, with their probabilities.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function topDrafts(recorder: Recorder, options: TopDraftsOptions): (rows: number) => void {
  const { logits, tokens, probabilities, topk, vocabulary, stride = vocabulary } = options;
  const bound = kernel.bind(
    recorder,
    { logits, tokens, probabilities },
    {
      constants: rowConstants(vocabulary, options.workgroupSize),
      params: { vocabulary, stride, topk },
      cost: ({ grid: [rows] }) => ({
        bytes: 2 * rows * vocabulary * 4,
        flops: 4 * rows * vocabulary,
      }),
    },
  );
  return (rows) => bound.record(rows);
}
