import { KernelError } from "../../src/errors.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./full_attention.wgsl?raw";

const NAME = "vision/full_attention";
const WORKGROUP_SIZE = 64;
const QUAD = 4;
/** Elements of a head at most: an invocation has a query and its sums in registers. */
export const FULL_ATTENTION_MAX_HEAD = 80;

const kernel = new Kernel({
  name: NAME,
  source,
  buffers: ["qkv", "out"],
  params: ["rows", "qkv_quads", "key_quad", "value_quad", "heads", "scale"],
});

export interface FullAttentionOptions {
  /** `[rows, qkvStride]` f32: queries of all heads, from `keyColumn` on keys, from `valueColumn` on values */
  readonly qkv: Tensor;
  /** Multiples of 4. */
  readonly qkvStride: number;
  readonly keyColumn: number;
  readonly valueColumn: number;
  /** `[rows, heads * headDim]` f32 */
  readonly out: Tensor;
  readonly heads: number;
  /** A multiple of 4. */
  readonly headDim: number;
}

/**
 * Softmax attention of every row over all rows, scaled by `headDim^-0.5`.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows, which see each
 * other and no others.
 *
 * @throws {KernelError} when a head has more elements than registers are for, or a size is no multiple of 4.
 */
export function fullAttention(
  recorder: Recorder,
  options: FullAttentionOptions,
): (rows: number) => void {
  const { qkv, qkvStride, keyColumn, valueColumn, out, heads, headDim } = options;
  for (const size of [qkvStride, keyColumn, valueColumn, headDim]) {
    if (size % QUAD !== 0) throw new KernelError(NAME, `${size} is no multiple of ${QUAD}`);
  }
  if (headDim > FULL_ATTENTION_MAX_HEAD) {
    throw new KernelError(NAME, `a head has ${headDim} elements, of ${FULL_ATTENTION_MAX_HEAD}`);
  }
  let rows = 0;
  const bound = kernel.bind(
    recorder,
    { qkv, out },
    {
      constants: { HEAD_QUADS: headDim / QUAD },
      params: {
        rows,
        qkv_quads: qkvStride / QUAD,
        key_quad: keyColumn / QUAD,
        value_quad: valueColumn / QUAD,
        heads,
        scale: headDim ** -0.5,
      },
      cost: () => ({
        bytes: rows * heads * headDim * 16,
        flops: rows * rows * heads * headDim * 4,
      }),
    },
  );
  return (count) => {
    rows = count;
    bound.set("rows", count);
    bound.record(Math.ceil(count / WORKGROUP_SIZE), heads);
  };
}
