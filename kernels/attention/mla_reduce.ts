import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import softmax from "../common/online_softmax.wgsl?raw";
import source from "./mla_reduce.wgsl?raw";

const LANES = 64;

const kernel = new Kernel({
  name: "attention/mla_reduce",
  source: softmax + source,
  buffers: ["partials", "rows", "out"],
  params: ["heads", "width", "split_length", "max_splits"],
});

export interface MlaReduceOptions {
  /** `[rows, maxSplits, heads, 2 + width]` f32: highest score, sum of weights, weighted sum */
  readonly partials: Tensor;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  /** `[rows, heads, width]` f32 */
  readonly out: Tensor;
  readonly heads: number;
  /** Elements of a head's output. */
  readonly width: number;
  /** Keys of a split. */
  readonly splitLength: number;
}

/**
 * Merges the splits of each row in ascending order.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows, whose records
 * lie `maxSplits` apart.
 */
export function mlaReduce(
  recorder: Recorder,
  options: MlaReduceOptions,
): (rows: number, maxSplits: number) => void {
  const { partials, rows, out, heads, width, splitLength } = options;
  const bound = kernel.bind(
    recorder,
    { partials, rows, out },
    { params: { heads, width, split_length: splitLength } },
  );
  const groups = Math.ceil((heads * width) / LANES);
  return (rowCount, maxSplits) => {
    bound.set("max_splits", maxSplits);
    bound.record(groups, rowCount);
  };
}
