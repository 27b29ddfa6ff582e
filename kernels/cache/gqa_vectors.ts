/**
 * Queries, keys and values as a fused projection leaves them, for kernels that norm, rotate and store
 * them: `gqa_vectors.wgsl`.
 *
 * @module
 */
import type { Tensor } from "../../src/gpu/tensor.ts";
import rotate from "../common/attention/rotate.wgsl?raw";
import vectors from "../common/cache/gqa_vectors.wgsl?raw";
import { type CacheDtype, requireMultiples } from "./cache_kernel.ts";

export interface GqaVectorOptions {
  /** `[rows, projectedStride]` f32: output of the fused projection */
  readonly projected: Tensor;
  readonly projectedStride: number;
  /** First columns of the projection's parts: even. */
  readonly queryColumn: number;
  readonly keyColumn: number;
  readonly valueColumn: number;
  /** Weights of the norm of each head, where there is one. */
  readonly norms?: GqaNorms | undefined;
  /** Added to a head's mean square before the root. */
  readonly eps: number;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  /** `[positions, rotary]` f32, cosine and sine in turns */
  readonly ropeTable: Tensor;
  /** Elements of a head that rotate, `i` with `i + rotary / 2`: a multiple of 4. */
  readonly rotary: number;
  /**
   * `[slots, 2 * kvHeads * headDim]` in `cacheDtype`: the keys of all heads, then the values. FP8:
   * `gqaFp8EntryBytes` a slot.
   */
  readonly cache: Tensor;
  readonly cacheDtype: CacheDtype;
  readonly heads: number;
  readonly kvHeads: number;
  /** Elements of a head: a multiple of 4. */
  readonly headDim: number;
}

export interface GqaNorms {
  /** f32: `headDim` weights of queries and, from `key` on, of keys */
  readonly weights: Tensor;
  /** Even. */
  readonly key: number;
}

/** What kernels call. */
export const vectorText = rotate + vectors;

/** @throws {KernelError} when a size is not a multiple of what it has to be. */
export function vectorConstants(kernel: string, options: GqaVectorOptions) {
  const { projectedStride, queryColumn, keyColumn, valueColumn, norms, rotary, headDim } = options;
  const keyNorm = norms?.key ?? 0;
  requireMultiples(kernel, 2, { projectedStride, queryColumn, keyColumn, valueColumn, keyNorm });
  requireMultiples(kernel, 4, { rotary, headDim });
  return { HEAD_DIM: headDim, ROTARY: rotary, NORM: norms !== undefined };
}

export const vectorParams = (options: GqaVectorOptions) => ({
  projected_stride: options.projectedStride,
  query_column: options.queryColumn,
  key_column: options.keyColumn,
  value_column: options.valueColumn,
  key_norm: options.norms?.key ?? 0,
  heads: options.heads,
  kv_heads: options.kvHeads,
  eps: options.eps,
});

/** A multiplication for each square and each weight, and three operations where a pair rotates. */
export const vectorFlops = ({ heads, kvHeads, headDim, rotary }: GqaVectorOptions) =>
  (heads + kvHeads) * (4 * headDim + 3 * rotary);
