import { KernelError } from "../../src/errors.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import rotate from "../common/rotate.wgsl?raw";
import codes from "../common/vector_write_fp8.wgsl?raw";
import pairs from "../common/vector_write_plain.wgsl?raw";
import { type CacheDtype, cacheKernels, isFp8, requireMultiples } from "./cache_kernel.ts";
import source from "./gqa_write.wgsl?raw";

const NAME = "cache/gqa_write";
const MAX_NORMED_HEADS = 512;
/** Keys and values of a row, as in vector_write_fp8.wgsl. */
const MAX_SCALED_VECTORS = 1024;

const definition = {
  name: NAME,
  source: rotate + source,
  buffers: ["projected", "query_norm", "key_norm", "rows", "rope_table", "query", "cache"],
  params: [
    "projected_stride",
    "query_column",
    "key_column",
    "value_column",
    "query_stride",
    "heads",
    "kv_heads",
    "eps",
  ],
} as const;
const kernels = cacheKernels(definition, { plain: pairs, fp8: codes });

/** Bytes of one token's FP8 entry: the keys of all heads, then the values, each with its scale. */
export const gqaFp8EntryBytes = (kvHeads: number, headDim: number) => 2 * kvHeads * (headDim + 4);

/** Bytes of one token's entry. */
export function gqaEntryBytes(dtype: CacheDtype, kvHeads: number, headDim: number): number {
  if (isFp8(dtype)) return gqaFp8EntryBytes(kvHeads, headDim);
  return 2 * kvHeads * headDim * (dtype === "bf16" ? 2 : 4);
}

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

/**
 * Norms and rotates queries and keys, and writes each row's keys and values into its cache slot.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function gqaWrite(recorder: Recorder, options: GqaWriteOptions): (rows: number) => void {
  const { projected, projectedStride, queryColumn, keyColumn, valueColumn, eps } = options;
  const { queryNorm, keyNorm, rows, ropeTable, rotary, query, queryStride } = options;
  const { cache, cacheDtype, heads, kvHeads, headDim } = options;
  requireMultiples(NAME, 2, { projectedStride, queryColumn, keyColumn, valueColumn, queryStride });
  requireMultiples(NAME, 4, { rotary, headDim });
  if ((queryNorm === undefined) !== (keyNorm === undefined)) {
    throw new KernelError(NAME, "only one of queries and keys is normed");
  }
  if (queryNorm !== undefined && heads + kvHeads > MAX_NORMED_HEADS) {
    throw new KernelError(NAME, `${heads + kvHeads} heads are too many to norm`);
  }
  if (isFp8(cacheDtype) && 2 * kvHeads > MAX_SCALED_VECTORS) {
    throw new KernelError(NAME, `${kvHeads} key heads are too many for FP8`);
  }
  const bound = kernels[cacheDtype].bind(
    recorder,
    {
      projected,
      // A binding cannot stay empty.
      query_norm: queryNorm ?? ropeTable,
      key_norm: keyNorm ?? ropeTable,
      rows,
      rope_table: ropeTable,
      query,
      cache,
    },
    {
      constants: { HEAD_DIM: headDim, ROTARY: rotary, NORM: queryNorm !== undefined },
      params: {
        projected_stride: projectedStride,
        query_column: queryColumn,
        key_column: keyColumn,
        value_column: valueColumn,
        query_stride: queryStride,
        heads,
        kv_heads: kvHeads,
        eps,
      },
      cost: ({ grid: [rowCount] }) => {
        const moved = headDim * (8 * heads + 8 * kvHeads);
        return {
          bytes: rowCount * (moved + gqaEntryBytes(cacheDtype, kvHeads, headDim)),
          flops: rowCount * (heads + kvHeads) * (4 * headDim + 3 * rotary),
        };
      },
    },
  );
  return (rowCount) => bound.record(rowCount);
}
