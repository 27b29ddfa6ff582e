import { KernelError } from "../../src/errors.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { CacheDtype } from "./cache_kernel.ts";

const NAME = "cache/gqa_write";

export interface GqaWriteOptions {
  /** `[rows, projectedStride]` f32: output of the fused projection */
  readonly projected: Tensor;
  readonly projectedStride: number;
  /** First columns of the projection's parts: even. */
  readonly queryColumn: number;
  readonly keyColumn: number;
  readonly valueColumn: number;
  /** `[headDim]` f32: weights of the norm of each head; both or none */
  readonly queryNorm?: Tensor | undefined;
  readonly keyNorm?: Tensor | undefined;
  /** Added to a head's mean square before the root. */
  readonly eps: number;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  /** `[positions, rotary]` f32, cosine and sine in turns */
  readonly ropeTable: Tensor;
  /** Elements of a head that rotate, `i` with `i + rotary / 2`: a multiple of 4. */
  readonly rotary: number;
  /** `[rows, queryStride]` f32: queries, normed and rotated */
  readonly query: Tensor;
  readonly queryStride: number;
  /** `[slots, 2 * kvHeads * headDim]` in `cacheDtype`: the keys of all heads, then the values */
  readonly cache: Tensor;
  readonly cacheDtype: CacheDtype;
  readonly heads: number;
  readonly kvHeads: number;
  /** Elements of a head: a multiple of 4. */
  readonly headDim: number;
}

/**
 * Norms and rotates queries and keys, and writes each row's keys and values into its cache slot.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function gqaWrite(_recorder: Recorder, _options: GqaWriteOptions): (rows: number) => void {
  throw new KernelError(NAME, "it has no kernel");
}
