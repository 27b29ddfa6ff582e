import { KernelError } from "../../src/errors.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import codes from "../common/cache/vector_write_fp8.wgsl?raw";
import pairs from "../common/cache/vector_write_pairs.wgsl?raw";
import direct from "../common/outputs/vector_store.wgsl?raw";
import { type CacheDtype, cacheKernels, isFp8, requireMultiples } from "./cache_kernel.ts";
import {
  type GqaVectorOptions,
  vectorConstants,
  vectorFlops,
  vectorParams,
  vectorText,
} from "./gqa_vectors.ts";
import source from "./gqa_write.wgsl?raw";

const NAME = "cache/gqa_write";
/** Queries and keys of a row at most: workgroup memory has room for the sums of so many. */
const MOST_HEADS = 512;

const definition = {
  name: NAME,
  source: vectorText + source,
  buffers: ["projected", "norms", "rows", "rope_table", "query", "cache"],
  params: [
    "projected_stride",
    "query_column",
    "key_column",
    "value_column",
    "key_norm",
    "query_stride",
    "heads",
    "kv_heads",
    "eps",
  ],
} as const;
const kernels = cacheKernels(definition, { plain: pairs, fp8: codes + direct });

/** Bytes of one token's FP8 entry: the keys of all heads, then the values, each with its scale. */
export const gqaFp8EntryBytes = (kvHeads: number, headDim: number) => 2 * kvHeads * (headDim + 4);

/** Bytes of one token's entry. */
export function gqaEntryBytes(dtype: CacheDtype, kvHeads: number, headDim: number): number {
  if (isFp8(dtype)) return gqaFp8EntryBytes(kvHeads, headDim);
  return 2 * kvHeads * headDim * (dtype === "bf16" ? 2 : 4);
}

export interface GqaWriteOptions extends GqaVectorOptions {
  /** `[rows, queryStride]` f32: queries, normed and rotated */
  readonly query: Tensor;
  /** Even. */
  readonly queryStride: number;
}

/**
 * Norms and rotates queries and keys, and writes each row's keys and values into its cache slot.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function gqaWrite(recorder: Recorder, options: GqaWriteOptions): (rows: number) => void {
  const { projected, norms, rows, ropeTable, query, queryStride } = options;
  const { cache, cacheDtype, heads, kvHeads, headDim } = options;
  requireMultiples(NAME, 2, { queryStride });
  if (norms !== undefined && heads + kvHeads > MOST_HEADS) {
    throw new KernelError(NAME, `${heads + kvHeads} heads are too many to norm`);
  }
  if (isFp8(cacheDtype) && kvHeads > MOST_HEADS) {
    throw new KernelError(NAME, `${kvHeads} key heads are too many for FP8`);
  }
  const bound = kernels[cacheDtype].bind(
    recorder,
    // A binding cannot stay empty.
    { projected, norms: norms?.weights ?? ropeTable, rows, rope_table: ropeTable, query, cache },
    {
      constants: { ...vectorConstants(NAME, options), MOST_HEADS: heads + kvHeads },
      params: { ...vectorParams(options), query_stride: queryStride },
      cost: ({ grid: [rowCount] }) => {
        const moved = headDim * (8 * heads + 8 * kvHeads);
        return {
          bytes: rowCount * (moved + gqaEntryBytes(cacheDtype, kvHeads, headDim)),
          flops: rowCount * vectorFlops(options),
        };
      },
    },
  );
  return (rowCount) => bound.record(rowCount);
}
