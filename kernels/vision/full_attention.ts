import { KernelError } from "../../src/errors.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./full_attention.wgsl?raw";

const NAME = "vision/full_attention";
/** Rows of an item at most. */
export const ATTENTION_ITEM_ROWS = 64;
const QUAD = 4;
/** Elements of a head at most: an invocation has a query and its sums in registers. */
export const FULL_ATTENTION_MAX_HEAD = 80;

const kernel = new Kernel({
  name: NAME,
  source,
  buffers: ["qkv", "items", "out"],
  params: ["first_item", "qkv_quads", "key_quad", "value_quad", "heads", "scale"],
});

export interface FullAttentionOptions {
  /** `[rows, qkvStride]` f32: queries of all heads, from `keyColumn` on keys, from `valueColumn` on values */
  readonly qkv: Tensor;
  /** Multiples of 4. */
  readonly qkvStride: number;
  readonly keyColumn: number;
  readonly valueColumn: number;
  /** `[items, 4]` u32: its rows from the first to behind the last, and those that they see. */
  readonly items: Tensor;
  /** `[rows, heads * headDim]` f32 */
  readonly out: Tensor;
  readonly heads: number;
  /** A multiple of 4. */
  readonly headDim: number;
}

/** Items of one launch. */
export interface AttentionItems {
  /** The first of them, and how many. */
  readonly first: number;
  readonly count: number;
  /** Rows of all, and pairs of a row and one that it sees. */
  readonly rows: number;
  readonly pairs: number;
}

/** Words of an item. */
export const ATTENTION_ITEM_WORDS = 4;

/** Appends the items of rows that all see each other and no others. */
export function addAttentionItems(words: number[], first: number, end: number): void {
  for (let row = first; row < end; row += ATTENTION_ITEM_ROWS) {
    words.push(row, Math.min(row + ATTENTION_ITEM_ROWS, end), first, end);
  }
}

/**
 * Softmax attention of rows over rows, scaled by `headDim^-0.5`.
 *
 * Binds the tensors now; the returned function records one launch over some of the items.
 *
 * @throws {KernelError} when a head has more elements than registers are for, or a size is no multiple of 4.
 */
export function fullAttention(
  recorder: Recorder,
  options: FullAttentionOptions,
): (items: AttentionItems) => void {
  const { qkv, qkvStride, keyColumn, valueColumn, items, out, heads, headDim } = options;
  for (const size of [qkvStride, keyColumn, valueColumn, headDim]) {
    if (size % QUAD !== 0) throw new KernelError(NAME, `${size} is no multiple of ${QUAD}`);
  }
  if (headDim > FULL_ATTENTION_MAX_HEAD) {
    throw new KernelError(NAME, `a head has ${headDim} elements, of ${FULL_ATTENTION_MAX_HEAD}`);
  }
  let rows = 0;
  let pairs = 0;
  const bound = kernel.bind(
    recorder,
    { qkv, items, out },
    {
      constants: { HEAD_QUADS: headDim / QUAD },
      params: {
        first_item: 0,
        qkv_quads: qkvStride / QUAD,
        key_quad: keyColumn / QUAD,
        value_quad: valueColumn / QUAD,
        heads,
        scale: headDim ** -0.5,
      },
      cost: () => ({
        bytes: rows * heads * headDim * 16,
        flops: pairs * heads * headDim * 4,
      }),
    },
  );
  return (launched) => {
    ({ rows, pairs } = launched);
    bound.set("first_item", launched.first);
    bound.record(launched.count, heads);
  };
}
