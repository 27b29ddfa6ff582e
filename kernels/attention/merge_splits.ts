import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import sink from "../common/attention/attention_sink.wgsl?raw";
import mergedSplits from "../common/attention/merged_splits.wgsl?raw";
import softmax from "../common/attention/online_softmax.wgsl?raw";
import quantize from "../common/numbers/quantize_e4m3.wgsl?raw";
import source from "./merge_splits.wgsl?raw";

const LANES = 64;
/** Columns of a row that share a scale. */
const ROUNDED_LANES = 128;

const kernel = new Kernel({
  name: "attention/merge_splits",
  source: quantize + softmax + mergedSplits + sink + source,
  buffers: ["partials", "rows", "sinks", "out"],
  params: ["heads", "head_dim", "out_stride", "split_length", "max_splits", "window", "has_sinks"],
});

export interface MergeSplitsOptions {
  /** `[rows, maxSplits, heads, 2 + headDim]` f32: highest score, sum of weights, weighted sum */
  readonly partials: Tensor;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  /** `[rows, outStride]` f32; the first `heads * headDim` of a row are written */
  readonly out: Tensor;
  readonly outStride: number;
  readonly heads: number;
  readonly headDim: number;
  /** Keys of a split. */
  readonly splitLength: number;
  /** Keys that a row sees, its own the last; splits without any are not read. Default all. */
  readonly window?: number | undefined;
  /** `[heads]` f32: logits that join the softmax's denominator only */
  readonly sinks?: Tensor | undefined;
  /** Rounds to E4M3 and back in groups of 128 columns, as `quantize` does. Default false. */
  readonly roundsMerged?: boolean | undefined;
}

/**
 * Merges the splits of each row in ascending order.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows, whose records
 * lie `maxSplits` apart.
 */
export function mergeSplits(
  recorder: Recorder,
  options: MergeSplitsOptions,
): (rows: number, maxSplits: number) => void {
  const { partials, rows, sinks, out, outStride, heads, headDim, splitLength, window } = options;
  const { roundsMerged = false } = options;
  const lanes = roundsMerged ? ROUNDED_LANES : LANES;
  const bound = kernel.bind(
    recorder,
    // A binding cannot stay empty.
    { partials, rows, sinks: sinks ?? rows, out },
    {
      constants: { LANES: lanes, ROUND: roundsMerged },
      params: {
        heads,
        head_dim: headDim,
        out_stride: outStride,
        split_length: splitLength,
        window: window ?? 0xffffffff,
        has_sinks: sinks === undefined ? 0 : 1,
      },
      cost: ({ grid: [, rowCount], step }) => {
        let splits = 0;
        for (let r = 0; r < rowCount; r++) {
          const seen = step.rows[4 * r + 1]! + 1;
          const first = Math.max(0, seen - (window ?? seen));
          splits += Math.ceil(seen / splitLength) - Math.floor(first / splitLength);
        }
        const floats = splits * heads * (2 + headDim);
        return { bytes: (floats + rowCount * heads * headDim) * 4, flops: 4 * floats };
      },
    },
  );
  const groups = Math.ceil((heads * headDim) / lanes);
  return (rowCount, maxSplits) => {
    bound.set("max_splits", maxSplits);
    bound.record(groups, rowCount);
  };
}
