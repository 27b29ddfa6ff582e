import { KernelError } from "../../src/errors.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { type CacheDtype, cacheKernels, requireMultiples } from "../cache/cache_kernel.ts";
import { mlaEntryBytes } from "../cache/mla_write.ts";
import latentFp8 from "../common/latent_read_fp8.wgsl?raw";
import latentPlain from "../common/latent_read_plain.wgsl?raw";
import softmax from "../common/online_softmax.wgsl?raw";
import rotate from "../common/rotate.wgsl?raw";
import { mergeSplits } from "./merge_splits.ts";
import source from "./mla_decode.wgsl?raw";
import { seenKeys } from "./seen_keys.ts";
import { type SharingOptions, sharingConstants, withSharedReads } from "./shared_reads.ts";

const NAME = "attention/mla_decode";
const HEAD_TILE = 4;
const WORKGROUP_BYTES = 16384;

/** Keys of a tile. It fixes the order of additions: a split is a multiple of it. */
const MLA_DECODE_KEY_TILE = 128;

/** Lanes and bytes of workgroup memory beside the entry. */
const MAX_LANES = 64;
const TILE_BYTES = 40 * MLA_DECODE_KEY_TILE;
/** Elements of a cache entry at most, whatever the lanes. */
export const MLA_DECODE_MAX_ENTRY = (WORKGROUP_BYTES - TILE_BYTES) / 16 - MAX_LANES;

const texts = withSharedReads(softmax + rotate + source);
const definition = {
  name: NAME,
  buffers: ["q_absorbed", "q", "cache", "rows", "page_tables", "rope_table", "out"],
  params: [
    "heads",
    "nope",
    "q_stride",
    "page_size",
    "split_length",
    "max_splits",
    "direct",
    "scale",
  ],
} as const;
const forms = { plain: latentPlain, fp8: latentFp8 };
const kernels = cacheKernels({ ...definition, source: texts.plain }, forms);
const sharingKernels = cacheKernels({ ...definition, source: texts.shuffle }, forms);

export interface MlaDecodeOptions extends SharingOptions {
  /** `[rows, heads * latent]` f32: queries times the key up-projection */
  readonly queryAbsorbed: Tensor;
  /** `[rows, queryStride]` f32: per head `nope + rope` elements, the rope part not yet rotated */
  readonly query: Tensor;
  readonly queryStride: number;
  /** `[slots, latent + rope]` in `cacheDtype`; FP8: `mlaFp8EntryBytes` a slot */
  readonly cache: Tensor;
  readonly cacheDtype: CacheDtype;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  /** u32 page numbers, one run per sequence */
  readonly pageTables: Tensor;
  /** `[positions, rope]` f32, cosine and sine in turns */
  readonly ropeTable: Tensor;
  /** `[rows, maxSplits, heads, 2 + latent]` f32; needed for rows of more than one split */
  readonly partials?: Tensor;
  /** `[rows, heads * latent]` f32 */
  readonly out: Tensor;
  readonly heads: number;
  /** Elements of a latent and of a rope part: multiples of 4. */
  readonly latent: number;
  readonly rope: number;
  /** Elements of a head's query in front of its rope part. */
  readonly nope: number;
  readonly pageSize: number;
  /** Keys of a split: a multiple of `MLA_DECODE_KEY_TILE`. */
  readonly splitLength: number;
  /** Multiplies the scores. */
  readonly scale: number;
  /** Invocations of a workgroup, a power of two up to 64; changes no bit. */
  readonly lanes?: number;
  /** Keys an invocation scores at once, a power of two; changes no bit. */
  readonly keys?: number;
}

/**
 * Absorbed latent attention of generated rows over keys `0..position`.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows when the
 * longest has one split, else two.
 */
export function mlaDecode(
  recorder: Recorder,
  options: MlaDecodeOptions,
): (rows: number, maxSplits: number) => void {
  const { cacheDtype, rows, out, partials, heads, latent, rope, nope, splitLength } = options;
  const { lanes = defaultLanes(recorder, latent), keys = 4 } = options;
  requireMultiples(NAME, 4, { latent, rope });
  requireMultiples(NAME, MLA_DECODE_KEY_TILE, { splitLength });
  const bytes = 16 * (latent + rope + lanes) + TILE_BYTES;
  if (bytes > WORKGROUP_BYTES) {
    throw new KernelError(NAME, `an entry of ${latent + rope} elements needs ${bytes} bytes`);
  }
  const bind = (target: Tensor, direct: boolean) =>
    (options.subgroupSize === undefined ? kernels : sharingKernels)[cacheDtype].bind(
      recorder,
      {
        q_absorbed: options.queryAbsorbed,
        q: options.query,
        cache: options.cache,
        rows,
        page_tables: options.pageTables,
        rope_table: options.ropeTable,
        out: target,
      },
      {
        constants: {
          ...{ LATENT: latent, ROPE: rope, LANES: lanes, KEYS: keys },
          ...sharingConstants(options),
        },
        params: {
          heads,
          nope,
          q_stride: options.queryStride,
          page_size: options.pageSize,
          split_length: splitLength,
          max_splits: 1,
          direct: direct ? 1 : 0,
          scale: options.scale,
        },
        cost: ({ grid: [count], step }) => {
          const { keys, pairs } = seenKeys(step, [[0, count]]);
          return {
            bytes: keys * mlaEntryBytes(cacheDtype, latent, rope),
            flops: 2 * pairs * heads * (2 * latent + rope),
          };
        },
      },
    );
  const headTiles = Math.ceil(heads / HEAD_TILE);
  const direct = bind(out, true);
  if (partials === undefined) {
    return (rowCount, maxSplits) => {
      if (maxSplits > 1) throw new KernelError(NAME, `${maxSplits} splits, but no partials`);
      direct.record(rowCount, headTiles);
    };
  }
  const split = bind(partials, false);
  const reduce = mergeSplits(recorder, {
    ...{ partials, rows, out, outStride: heads * latent },
    ...{ heads, headDim: latent, splitLength },
  });
  return (rowCount, maxSplits) => {
    if (maxSplits <= 1) return direct.record(rowCount, headTiles);
    split.set("max_splits", maxSplits);
    split.record(rowCount, headTiles, maxSplits);
    reduce(rowCount, maxSplits);
  };
}

/** Software adapters run few lanes at a time and pay for each load; a GPU wants lanes. */
function defaultLanes({ device }: Recorder, latent: number): number {
  const { subgroupMaxSize = 0 } = device.adapterInfo;
  if (subgroupMaxSize > 0 && subgroupMaxSize <= 8) return 8;
  return Math.min(MAX_LANES, Math.max(16, 2 ** Math.ceil(Math.log2(latent / 4))));
}
