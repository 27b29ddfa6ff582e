import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import softmaxWeight from "../common/attention/softmax_weight.wgsl?raw";
import bestOfRow from "../common/sampling/best_of_row.wgsl?raw";
import keptTokens from "../common/sampling/kept_tokens.wgsl?raw";
import orderedBits from "../common/sampling/ordered_bits.wgsl?raw";
import philox from "../common/sampling/philox.wgsl?raw";
import u64 from "../common/sampling/u64.wgsl?raw";
import workgroupBest from "../common/sampling/workgroup_best.wgsl?raw";
import { rowConstants } from "./argmax.ts";
import source from "./sample.wgsl?raw";

const kernel = new Kernel({
  name: "sampling/sample",
  source:
    orderedBits + workgroupBest + bestOfRow + softmaxWeight + u64 + philox + keptTokens + source,
  buffers: ["logits", "draws", "ids"],
  params: ["vocabulary", "stride"],
});

/** How one row's token is drawn. */
export interface Draw {
  /** 0 takes the best token. */
  readonly temperature: number;
  /** Keeps a token when the probability of those before it is at most this. 1: all. */
  readonly topP: number;
  /** Keeps this many of the best tokens, at least 1. Infinity: all. */
  readonly topK: number;
  /** Keeps a token when its probability is at least this share of the best token's. Default 0: all. */
  readonly minP?: number;
  /** With `position`, what the random number is made of. */
  readonly seed: number;
  /** Of the drawn token in its sequence. */
  readonly position: number;
}

/** 32-bit words of one row in the `draws` tensor. */
export const DRAW_WORDS = 6;

/** How often a row of logits is read, about. */
export const PASSES = 7;

/** Stands for log(0): the kernel's NO_MIN_P is above it. */
const LOG_ZERO = -2e30;

/** Writes `draw` as row `row` of the `draws` tensor's host copy. */
export function writeDraw(words: DataView, row: number, draw: Draw): void {
  const at = row * DRAW_WORDS * 4;
  words.setFloat32(at, draw.temperature, true);
  words.setFloat32(at + 4, draw.topP, true);
  words.setUint32(at + 8, Math.min(draw.topK, 0xffffffff), true);
  const { minP = 0 } = draw;
  words.setFloat32(at + 12, minP > 0 ? Math.log(minP) : LOG_ZERO, true);
  words.setUint32(at + 16, draw.seed, true);
  words.setUint32(at + 20, draw.position, true);
}

export interface SampleOptions {
  /** `[rows, stride]` f32 */
  readonly logits: Tensor;
  /** `[rows, DRAW_WORDS]`, as `writeDraw` fills it */
  readonly draws: Tensor;
  /** `[rows]` u32 */
  readonly ids: Tensor;
  /** Logits in a row. */
  readonly vocabulary: number;
  /** Default `vocabulary`. */
  readonly stride?: number;
  /** Invocations per row, 64 or 256; the answer is the same. Default: by the vocabulary. */
  readonly workgroupSize?: number;
}

/**
 * Draws each row's token from its temperature softmax, cut by top-k, top-p and min-p together.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function sample(recorder: Recorder, options: SampleOptions): (rows: number) => void {
  const { logits, draws, ids, vocabulary, stride = vocabulary, workgroupSize } = options;
  const bound = kernel.bind(
    recorder,
    { logits, draws, ids },
    {
      constants: rowConstants(vocabulary, workgroupSize),
      params: { vocabulary, stride },
      cost: ({ grid: [rows] }) => ({ bytes: PASSES * rows * vocabulary * 4, flops: 0 }),
    },
  );
  return (rows) => bound.record(rows);
}
