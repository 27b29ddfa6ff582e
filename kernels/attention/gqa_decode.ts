import { KernelError } from "../../src/errors.ts";
import type { KernelDefinition } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import {
  type CacheDtype,
  type CacheKernels,
  cacheKernels,
  requireMultiples,
} from "../cache/cache_kernel.ts";
import sink from "../common/attention_sink.wgsl?raw";
import attend from "../common/gqa_split.wgsl?raw";
import softmax from "../common/online_softmax.wgsl?raw";
import { gqaCost } from "./gqa_cost.ts";
import source from "./gqa_decode.wgsl?raw";
import { mergeSplits } from "./merge_splits.ts";
import { type SharingOptions, sharingConstants, withSharedReads } from "./shared_reads.ts";

const NAME = "attention/gqa_decode";
const MAX_LANES = 32;
/** Query heads that share the reads of a workgroup, at most. */
const HEAD_TILE = 4;

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

/** One kernel per element type of the cache, in the two forms of shared reads. */
export class GqaKernels<B extends string, P extends string> {
  readonly #plain: CacheKernels<B, P>;
  readonly #sharing: CacheKernels<B, P>;

  constructor(definition: KernelDefinition<B, P>) {
    const texts = withSharedReads(softmax + sink + attend + definition.source);
    this.#plain = cacheKernels({ ...definition, source: texts.plain });
    this.#sharing = cacheKernels({ ...definition, source: texts.shuffle });
  }

  for({ subgroupSize, cacheDtype }: GqaAttentionOptions) {
    return (subgroupSize === undefined ? this.#plain : this.#sharing)[cacheDtype];
  }
}

/** The heads of a group are shared out among `tiles` workgroups, `heads` each at most. */
export interface HeadTiles {
  readonly heads: number;
  readonly tiles: number;
}

/** Tiles of about one size: seven heads in tiles of at most four are four and three. */
export function headTiles({ heads, kvHeads }: GqaAttentionOptions, most: number): HeadTiles {
  const tiles = Math.ceil(heads / kvHeads / most);
  return { heads: Math.ceil(heads / kvHeads / tiles), tiles };
}

/** The constants of a kernel whose workgroups hold `rows` rows, each with a tile of heads. */
export function gqaConstants(
  kernel: string,
  { rows, heads, lanes }: Readonly<Record<"rows" | "heads" | "lanes", number>>,
  options: GqaAttentionOptions,
): Readonly<Record<string, number>> {
  const { headDim, queryStride, outStride, splitLength } = options;
  requireMultiples(kernel, 4, { headDim, queryStride, outStride });
  requireMultiples(kernel, GQA_KEY_TILE, { splitLength });
  requireMultiples(kernel, options.kvHeads, { heads: options.heads });
  // More than two at once save few reads, and compile for long.
  const shares = 2 * rows * heads <= Math.min(options.subgroupSize ?? 0, lanes, 8);
  return {
    ...{ HEAD_DIM: headDim, ROWS: rows, HEADS: heads, LANES: lanes, BLOCK: shares ? 2 : 1 },
    ...sharingConstants(options),
  };
}

/** The uniform values of both kernels. */
export const gqaParams = (options: GqaAttentionOptions) => ({
  heads: options.heads,
  kv_heads: options.kvHeads,
  head_quads: options.headDim / 4,
  q_stride: options.queryStride,
  out_stride: options.outStride,
  page_size: options.pageSize,
  split_length: options.splitLength,
  window: options.window ?? 0xffffffff,
  has_sinks: options.sinks === undefined ? 0 : 1,
  scale: options.scale,
});

const kernels = new GqaKernels({
  name: NAME,
  source,
  buffers: ["q", "cache", "rows", "page_tables", "sinks", "out"],
  params: [
    "heads",
    "kv_heads",
    "head_tiles",
    "head_quads",
    "q_stride",
    "out_stride",
    "page_size",
    "split_length",
    "max_splits",
    "direct",
    "window",
    "has_sinks",
    "scale",
  ],
});

/**
 * Grouped-query attention of generated rows over the keys they see, with the bits of `gqaPrefill`.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows when the
 * longest has one split, else two.
 */
export function gqaDecode(
  recorder: Recorder,
  options: GqaDecodeOptions,
): (rows: number, maxSplits: number) => void {
  const { query, cache, rows, pageTables, sinks, partials, out, kvHeads } = options;
  const { headDim, lanes = defaultLanes(recorder, headDim) } = options;
  const tile = headTiles(options, HEAD_TILE);
  const constants = gqaConstants(NAME, { rows: 1, heads: tile.heads, lanes }, options);
  const bind = (target: Tensor, direct: boolean) =>
    kernels.for(options).bind(
      recorder,
      // A binding cannot stay empty.
      { q: query, cache, rows, page_tables: pageTables, sinks: sinks ?? rows, out: target },
      {
        constants,
        params: {
          ...gqaParams(options),
          ...{ head_tiles: tile.tiles, max_splits: 1, direct: direct ? 1 : 0 },
        },
        cost: ({ grid: [rowCount], step }) => gqaCost(options, step, [[0, rowCount]]),
      },
    );
  const direct = bind(out, true);
  if (partials === undefined) {
    return (rowCount, maxSplits) => {
      if (maxSplits > 1) throw new KernelError(NAME, `${maxSplits} splits, but no partials`);
      direct.record(rowCount, kvHeads * tile.tiles);
    };
  }
  const split = bind(partials, false);
  const reduce = mergeSplits(recorder, { ...options, partials });
  return (rowCount, maxSplits) => {
    if (maxSplits <= 1) return direct.record(rowCount, kvHeads * tile.tiles);
    split.set("max_splits", maxSplits);
    split.record(rowCount, kvHeads * tile.tiles, maxSplits);
    reduce(rowCount, maxSplits);
  };
}

/** Software adapters run few lanes at a time; a GPU wants one for four columns. */
function defaultLanes({ device }: Recorder, headDim: number): number {
  const { subgroupMaxSize = 0 } = device.adapterInfo;
  if (subgroupMaxSize > 0 && subgroupMaxSize <= 8) return 8;
  return Math.min(MAX_LANES, Math.max(8, 2 ** Math.ceil(Math.log2(headDim / 4))));
}
