import { KernelError } from "../../src/errors.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { CacheDtype } from "../cache/cache_kernel.ts";
import type { SharingOptions } from "./shared_reads.ts";

const NAME = "attention/gqa_decode";

/** Keys of a tile. It fixes the order of additions: a split is a multiple of it. */
export const GQA_KEY_TILE = 128;

/** What decode and prefill rows have in common. */
export interface GqaAttentionOptions extends SharingOptions {
  /** `[rows, queryStride]` f32: queries, normed and rotated */
  readonly query: Tensor;
  /** A multiple of 4. */
  readonly queryStride: number;
  /** `[slots, 2 * kvHeads * headDim]` in `cacheDtype`: the keys of all heads, then the values */
  readonly cache: Tensor;
  readonly cacheDtype: CacheDtype;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  /** u32 page numbers, one run per sequence */
  readonly pageTables: Tensor;
  /** `[rows, outStride]` f32; the first `heads * headDim` of a row are written */
  readonly out: Tensor;
  /** A multiple of 4. */
  readonly outStride: number;
  /** Query heads, a multiple of `kvHeads`. */
  readonly heads: number;
  readonly kvHeads: number;
  /** Elements of a head: a multiple of 4. */
  readonly headDim: number;
  readonly pageSize: number;
  /** Keys of a split: a multiple of `GQA_KEY_TILE`. */
  readonly splitLength: number;
  /** Multiplies the scores. */
  readonly scale: number;
  /** Keys that a row sees, its own the last. Default all. */
  readonly window?: number | undefined;
  /** `[heads]` f32: logits that join the softmax's denominator only */
  readonly sinks?: Tensor | undefined;
  /** Invocations of a workgroup, a power of two from 8 to 32; changes no bit. */
  readonly lanes?: number;
}

export interface GqaDecodeOptions extends GqaAttentionOptions {
  /** `[rows, maxSplits, heads, 2 + headDim]` f32; needed for rows of more than one split */
  readonly partials?: Tensor | undefined;
}

/**
 * Grouped-query attention of generated rows over the keys they see, with the bits of `gqaPrefill`.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows when the
 * longest has one split, else two.
 */
export function gqaDecode(
  _recorder: Recorder,
  _options: GqaDecodeOptions,
): (rows: number, maxSplits: number) => void {
  throw new KernelError(NAME, "it has no kernel");
}
