import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./adjust.wgsl?raw";

const kernel = new Kernel({
  name: "sampling/adjust",
  source,
  buffers: ["items", "counts", "masks", "biases", "logits"],
  params: ["vocabulary", "stride", "mask_words", "forbidden"],
});

/** Tokens one workgroup changes; `CHUNK` in the kernel. */
const CHUNK = 2048;
const NONE = 0xffffffff;

/** Penalties of one row; each neutral value changes nothing. */
export interface PenaltyStrengths {
  /** Divides the logits of tokens that occur anywhere, above 0; neutral is 1. */
  readonly repetition: number;
  /** Taken off for each time a token was generated; neutral is 0. */
  readonly frequency: number;
  /** Taken off once a token was generated; neutral is 0. */
  readonly presence: number;
}

/** What is done to one row of logits. */
export interface Adjustment {
  /** Row of `logits`. */
  readonly row: number;
  /** With the row of `counts` that they go by. */
  readonly penalties?: (PenaltyStrengths & { readonly slot: number }) | undefined;
  /** Row of `masks`. */
  readonly mask?: number | undefined;
  /** Entries `[firstBias, firstBias + biasCount)` of `biases`; each token at most once. */
  readonly firstBias: number;
  readonly biasCount: number;
  /**
   * So many entries before `firstBias` are tokens that were drafted in front of the row, which
   * penalties go by as if they were generated. Default 0.
   */
  readonly draftCount?: number;
}

/** 32-bit words of one item in the `items` tensor. */
export const ADJUST_WORDS = 9;
/** In `counts`: the token occurs in the prompt. The other bits count how often it was generated. */
export const IN_PROMPT = 0x80000000;

/** Words of one row of a token mask: one bit a token. */
export const maskWords = (vocabulary: number): number => Math.ceil(vocabulary / 32);

/** Writes `adjustment` as item `index` of the `items` tensor's host copy. */
export function writeAdjustment(words: DataView, index: number, adjustment: Adjustment): void {
  const { row, penalties, mask = NONE, firstBias, biasCount, draftCount = 0 } = adjustment;
  const at = index * ADJUST_WORDS * 4;
  [row, penalties?.slot ?? NONE, mask, firstBias, biasCount].forEach((word, i) => {
    words.setUint32(at + i * 4, word, true);
  });
  words.setFloat32(at + 20, penalties?.repetition ?? 1, true);
  words.setFloat32(at + 24, penalties?.frequency ?? 0, true);
  words.setFloat32(at + 28, penalties?.presence ?? 0, true);
  words.setUint32(at + 32, draftCount, true);
}

export interface AdjustOptions {
  /** `[items, ADJUST_WORDS]`, as `writeAdjustment` fills it; no row twice */
  readonly items: Tensor;
  /** `[slots, vocabulary]` u32, see `IN_PROMPT` */
  readonly counts: Tensor;
  /** `[masks, maskWords(vocabulary)]` u32 */
  readonly masks: Tensor;
  /** `[biases, 2]`: token, f32 bits of what is added; of a drafted token its row */
  readonly biases: Tensor;
  /** `[rows, stride]` f32, changed in place */
  readonly logits: Tensor;
  /** Logits in a row. */
  readonly vocabulary: number;
  /** Default `vocabulary`. */
  readonly stride?: number;
  /** Invocations per workgroup; the answer is the same. */
  readonly workgroupSize?: number;
}

/**
 * Applies penalties, token masks and biases to the rows that have any, in that order.
 *
 * Binds the tensors now; the returned function records one launch over `items` items.
 */
export function adjust(recorder: Recorder, options: AdjustOptions): (items: number) => void {
  const { items, counts, masks, biases, logits, vocabulary, stride = vocabulary } = options;
  const { workgroupSize = 64 } = options;
  const bound = kernel.bind(
    recorder,
    { items, counts, masks, biases, logits },
    {
      constants: { WORKGROUP_SIZE: workgroupSize, CHUNK },
      params: {
        vocabulary,
        stride,
        mask_words: maskWords(vocabulary),
        forbidden: Number.NEGATIVE_INFINITY,
      },
      cost: ({ grid: [, count] }) => ({
        bytes: count * vocabulary * 12,
        flops: count * vocabulary * 4,
      }),
    },
  );
  const chunks = Math.ceil(vocabulary / CHUNK);
  return (count) => bound.record(chunks, count);
}
