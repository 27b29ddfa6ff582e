import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import rowSum from "../common/dot/row_sum.wgsl?raw";
import orderedBits from "../common/sampling/ordered_bits.wgsl?raw";
import workgroupBest from "../common/sampling/workgroup_best.wgsl?raw";
import { rowWorkgroupSize } from "./argmax.ts";
import source from "./logprobs.wgsl?raw";

const kernel = new Kernel({
  name: "sampling/logprobs",
  source: orderedBits + workgroupBest + rowSum + source,
  buffers: ["items", "ids", "wanted", "logits", "tokens", "values"],
  params: ["vocabulary", "stride"],
});

/** What is told about one row. */
export interface LogprobItem {
  /** Row of `logits`. */
  readonly row: number;
  /** Token whose value comes first; absent: the one sampled from the row. */
  readonly token?: number | undefined;
  /** Divides the logits, above 0. */
  readonly temperature: number;
  /** How many of the largest, at most the vocabulary. */
  readonly top: number;
  /** Entries `[firstWanted, firstWanted + wantedCount)` of `wanted`. */
  readonly firstWanted: number;
  readonly wantedCount: number;
  /** Where its `1 + top + wantedCount` results start. */
  readonly out: number;
}

/** 32-bit words of one item in the `items` tensor. */
export const LOGPROB_WORDS = 7;
const SAMPLED = 0x40000000;

/** Writes `item` as item `index` of the `items` tensor's host copy. */
export function writeLogprobItem(words: DataView, index: number, item: LogprobItem): void {
  const at = index * LOGPROB_WORDS * 4;
  const { row, token, temperature, top, firstWanted, wantedCount, out } = item;
  words.setUint32(at, row, true);
  words.setUint32(at + 4, token ?? SAMPLED + row, true);
  words.setFloat32(at + 8, temperature, true);
  [top, firstWanted, wantedCount, out].forEach((word, i) => {
    words.setUint32(at + 12 + i * 4, word, true);
  });
}

export interface LogprobsOptions {
  /** `[items, LOGPROB_WORDS]`, as `writeLogprobItem` fills it */
  readonly items: Tensor;
  /** `[rows]` u32: the tokens that were sampled */
  readonly ids: Tensor;
  /** u32: lists of token ids */
  readonly wanted: Tensor;
  /** `[rows, stride]` f32 */
  readonly logits: Tensor;
  /** u32: token of each result */
  readonly tokens: Tensor;
  /** f32: log-probability of each result */
  readonly values: Tensor;
  /** Logits in a row. */
  readonly vocabulary: number;
  /** Default `vocabulary`. */
  readonly stride?: number;
  /** Invocations per row, 64 or 256. Default: by the vocabulary. */
  readonly workgroupSize?: number;
}

/**
 * Gathers log-probabilities from rows of logits: of one token, of the largest, of given tokens.
 *
 * Binds the tensors now; the returned function records one launch over `items` items.
 */
export function logprobs(recorder: Recorder, options: LogprobsOptions): (items: number) => void {
  const { items, ids, wanted, logits, tokens, values, vocabulary, stride = vocabulary } = options;
  const { workgroupSize = rowWorkgroupSize(vocabulary) } = options;
  const bound = kernel.bind(
    recorder,
    { items, ids, wanted, logits, tokens, values },
    {
      constants: { WORKGROUP_SIZE: workgroupSize, BEST_BLOCK: Math.sqrt(workgroupSize) },
      params: { vocabulary, stride },
      cost: ({ grid: [count] }) => ({
        bytes: 2 * count * vocabulary * 4,
        flops: 4 * count * vocabulary,
      }),
    },
  );
  return (count) => bound.record(count);
}
