import { KernelError } from "../../src/errors.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../../src/gpu/tensor.ts";
import rotate from "../common/attention/rotate.wgsl?raw";
import latentFp8 from "../common/cache/latent_write_fp8.wgsl?raw";
import latentPlain from "../common/cache/latent_write_plain.wgsl?raw";
import quantize from "../common/numbers/quantize_e4m3.wgsl?raw";
import { type CacheDtype, cacheKernels, isFp8, requireMultiples } from "./cache_kernel.ts";
import source from "./mla_write.wgsl?raw";

const NAME = "cache/mla_write";
/** MAX_GROUPS groups of 128 columns. */
const MAX_QUANTIZED_WIDTH = 8192;

/** MAX_RUNS runs of 128 elements. */
const MAX_FP8_LATENT = 8192;

const definition = {
  name: NAME,
  source: quantize + rotate + source,
  buffers: ["a", "q_weight", "kv_weight", "rows", "rope_table", "q_out", "cache"],
  params: [
    "a_stride",
    "query_offset",
    "query_width",
    "latent_offset",
    "latent",
    "rope_offset",
    "rope",
    "q_stride",
    "eps",
  ],
} as const;
const kernels = cacheKernels(definition, { plain: latentPlain, fp8: latentFp8 });

/** Bytes of one token's FP8 entry: codes, a scale for each 128 of them, the rope part in BF16. */
export const mlaFp8EntryBytes = (latent: number, rope: number) =>
  latent + 4 * Math.ceil(latent / 128) + 2 * rope;

/** Bytes of one token's entry. */
export function mlaEntryBytes(dtype: CacheDtype, latent: number, rope: number): number {
  if (isFp8(dtype)) return mlaFp8EntryBytes(latent, rope);
  return (latent + rope) * (dtype === "bf16" ? 2 : 4);
}

export interface MlaWriteOptions {
  /** `[rows, aStride]` f32: output of the fused first projections */
  readonly a: Tensor;
  readonly aStride: number;
  /** The query latent; absent in models that project queries in one step. */
  readonly query?: {
    /** First column of `a`. */
    readonly offset: number;
    readonly width: number;
    /** `[width]` f32 */
    readonly weight: Tensor;
    /** `[rows, outStride]` f32 */
    readonly out: Tensor;
    readonly outStride: number;
    /** Rounds to E4M3 and back in groups of 128 columns. Default false. */
    readonly quantize?: boolean;
  };
  /** First column of the latent in `a`. */
  readonly latentOffset: number;
  /** Elements of the latent: even, and a multiple of 4 for FP8. */
  readonly latent: number;
  /** `[latent]` f32 */
  readonly latentWeight: Tensor;
  /** First column of the rope part in `a`. */
  readonly ropeOffset: number;
  /** Elements of the rope part: even. */
  readonly rope: number;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  /** `[positions, rope]` f32, cosine and sine in turns */
  readonly ropeTable: Tensor;
  /** `[slots, latent + rope]` in `cacheDtype`; FP8: `mlaFp8EntryBytes` a slot */
  readonly cache: Tensor;
  readonly cacheDtype: CacheDtype;
  /** Added to both mean squares before the root. */
  readonly eps: number;
}

/**
 * Norms the query latent, and writes each row's latent and rotated rope part into its cache slot.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function mlaWrite(recorder: Recorder, options: MlaWriteOptions): (rows: number) => void {
  const { a, query, latent, latentWeight, rope, rows, ropeTable, cache, cacheDtype } = options;
  requireMultiples(NAME, 2, { latent, rope });
  const quantizes = query?.quantize ?? false;
  if (quantizes && query!.width > MAX_QUANTIZED_WIDTH) {
    throw new KernelError(NAME, `a query of ${query!.width} columns is too wide to quantize`);
  }
  if (isFp8(cacheDtype)) {
    requireMultiples(NAME, 4, { latent });
    if (latent > MAX_FP8_LATENT) {
      throw new KernelError(NAME, `a latent of ${latent} elements is too wide for FP8`);
    }
  }
  const bound = kernels[cacheDtype].bind(
    recorder,
    {
      a,
      q_weight: query?.weight ?? latentWeight,
      kv_weight: latentWeight,
      rows,
      rope_table: ropeTable,
      // A binding cannot stay empty, nor share a buffer that is written.
      q_out: query?.out ?? allocateTensor(recorder.device, 4, `${NAME} no query`),
      cache,
    },
    {
      constants: { QUANTIZE: quantizes },
      params: {
        a_stride: options.aStride,
        query_offset: query?.offset ?? 0,
        query_width: query?.width ?? 0,
        latent_offset: options.latentOffset,
        latent,
        rope_offset: options.ropeOffset,
        rope,
        q_stride: query?.outStride ?? 0,
        eps: options.eps,
      },
      cost: ({ grid: [rows] }) => {
        const width = query?.width ?? 0;
        const read = 4 * (width + latent + rope);
        const written = 4 * width + mlaEntryBytes(cacheDtype, latent, rope);
        return {
          bytes: rows * (read + written) + 4 * (width + latent),
          flops: rows * (4 * (width + latent) + 3 * rope),
        };
      },
    },
  );
  return (rowCount) => bound.record(rowCount);
}
