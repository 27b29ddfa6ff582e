import type { KernelDefinition } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import {
  type CacheDtype,
  type CacheForms,
  type CacheKernels,
  cacheKernels,
  requireMultiples,
} from "../../cache/cache_kernel.ts";
import sink from "../../common/attention/attention_sink.wgsl?raw";
import part from "../../common/attention/gqa_part.wgsl?raw";
import cached from "../../common/cache/cached_entries.wgsl?raw";
import entries from "../../common/cache/gqa_entries.wgsl?raw";
import slots from "../../common/cache/paged_slots.wgsl?raw";
import treeSlots from "../../common/cache/tree_slots.wgsl?raw";
import queries from "../../common/inputs/query_rows.wgsl?raw";
import {
  type Exchange,
  type ExchangeOptions,
  type Exchanges,
  exchangeFor,
  KEY_TILE,
  unrolls,
  withAttention,
} from "../exchange.ts";
import { type DecodeLaunch, decodeLaunch, fewOf, SHARED_ROWS } from "../split_launch.ts";
import { requireNoGroups } from "../tree_paths.ts";
import { gqaCost } from "./gqa_cost.ts";
import source from "./gqa_decode.wgsl?raw";

const NAME = "attention/gqa_decode";

/** What all rows have in common. */
export interface GqaRowOptions extends ExchangeOptions {
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
  /** Keys of a split: a multiple of `KEY_TILE`. */
  readonly splitLength: number;
  /** Multiplies the scores. */
  readonly scale: number;
  /** Keys that a row sees, its own the last. Default all. */
  readonly window?: number | undefined;
  /** `[heads]` f32: logits that join the softmax's denominator only */
  readonly sinks?: Tensor | undefined;
}

/** What decode and prefill rows have in common. */
export interface GqaAttentionOptions extends GqaRowOptions {
  /** `[rows, queryStride]` f32: queries, normed and rotated */
  readonly query: Tensor;
  /** A multiple of 4. */
  readonly queryStride: number;
}

export interface GqaDecodeOptions extends GqaAttentionOptions {
  /** `[rows, maxSplits, heads, 2 + headDim]` f32; needed for rows of more than one split */
  readonly partials?: Tensor | undefined;
  /**
   * `[groups, 2]` u32: first row, row count (at most `SHARED_ROWS`) of rows that follow each other
   * in one sequence; needed for launches over groups
   */
  readonly groups?: Tensor | undefined;
  /** Rounds rows of several splits, those alone, to E4M3 as `mergeSplits` does. Default false. */
  readonly roundsMerged?: boolean | undefined;
  /**
   * Whether rows may be of draft trees: word 3 of each is then where its path stands (tree_paths.ts).
   * Such rows share no reads: there are no groups. Default false.
   */
  readonly followsPaths?: boolean | undefined;
}

/** One kernel per element type of the cache, for each way of exchange. */
export class GqaKernels<B extends string, P extends string> {
  readonly #kernels: Exchanges<CacheKernels<B, P>>;

  /**
   * @param forms Text that the kernel has besides, by the form of the cache.
   * @param ofSlots How the slots of keys are found.
   */
  constructor(definition: KernelDefinition<B, P>, forms?: CacheForms, ofSlots = slots) {
    const texts = withAttention(entries + ofSlots + sink + definition.source);
    this.#kernels = {
      memory: cacheKernels({ ...definition, source: texts.memory }, forms),
      subgroup: cacheKernels({ ...definition, source: texts.subgroup }, forms),
    };
  }

  /** The kernel, the invocations of its workgroups, and what shares them out. */
  for({ device }: Recorder, options: GqaRowOptions) {
    const exchange = exchangeFor(device, options);
    return { kernel: this.#kernels[exchange.by][options.cacheDtype], ...exchange };
  }
}

/** The heads of a group are shared out among `tiles` workgroups, `heads` each at most. */
export interface HeadTiles {
  readonly heads: number;
  readonly tiles: number;
}

/** Tiles of about one size: seven heads in tiles of at most four are four and three. */
export function headTiles({ heads, kvHeads }: GqaRowOptions, most: number): HeadTiles {
  const tiles = Math.ceil(heads / kvHeads / most);
  return { heads: Math.ceil(heads / kvHeads / tiles), tiles };
}

type Sharing = Pick<Exchange, "lanes" | "tuning">;

/** The constants of a kernel whose workgroups hold `rows` rows, each with a tile of heads. */
export function gqaConstants(
  kernel: string,
  { rows, heads, ...exchange }: Readonly<Record<"rows" | "heads", number>> & Sharing,
  options: GqaRowOptions,
): Readonly<Record<string, number | boolean>> {
  const { headDim, outStride, splitLength } = options;
  requireMultiples(kernel, 4, { headDim, outStride });
  requireMultiples(kernel, KEY_TILE, { splitLength });
  requireMultiples(kernel, options.kvHeads, { heads: options.heads });
  const { lanes } = exchange;
  const UNROLLS = unrolls(exchange, headDim);
  return { HEAD_DIM: headDim, ROWS: rows, HEADS: heads, LANES: lanes, UNROLLS };
}

/** The uniform values of all kernels. */
export const gqaParams = (options: GqaRowOptions) => ({
  heads: options.heads,
  kv_heads: options.kvHeads,
  head_quads: options.headDim / 4,
  out_stride: options.outStride,
  page_size: options.pageSize,
  split_length: options.splitLength,
  window: options.window ?? 0xffffffff,
  has_sinks: options.sinks === undefined ? 0 : 1,
  scale: options.scale,
});

const definition = {
  name: NAME,
  source: queries + cached + part + source,
  buffers: ["q", "cache", "rows", "page_tables", "sinks", "groups", "out"],
  params: [
    "heads",
    "kv_heads",
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
} as const;
const kernels = new GqaKernels(definition);
const treeKernels = new GqaKernels(definition, undefined, treeSlots);

/**
 * Grouped-query attention of generated rows over the keys they see, with the bits of `gqaPrefill`.
 *
 * Binds the tensors now; the returned function records one launch when the longest row has one
 * split, else two. With `groups` rows of one sequence share the reads of its cache; no bit changes.
 *
 * @throws {KernelError} when rows of draft trees are to share reads.
 */
export function gqaDecode(recorder: Recorder, options: GqaDecodeOptions): DecodeLaunch {
  const { query, queryStride, cache, rows, pageTables, sinks, partials, out, kvHeads } = options;
  requireMultiples(NAME, 4, { queryStride });
  requireNoGroups(NAME, options);
  const ofRows = options.followsPaths === true ? treeKernels : kernels;
  const { kernel, lanes, subgroupSize, tuning } = ofRows.for(recorder, options);
  const bindWith = (most: number, target: Tensor, direct: boolean, groups?: Tensor) => {
    const tile = headTiles(options, most);
    const shape = {
      rows: groups === undefined ? 1 : SHARED_ROWS,
      heads: tile.heads,
      lanes,
      tuning,
    };
    const bound = kernel.bind(
      recorder,
      {
        q: query,
        cache,
        rows,
        page_tables: pageTables,
        out: target,
        // A binding cannot stay empty.
        sinks: sinks ?? rows,
        groups: groups ?? rows,
      },
      {
        subgroupSize,
        constants: gqaConstants(NAME, shape, options),
        params: {
          ...gqaParams(options),
          q_stride: queryStride,
          max_splits: 1,
          direct: direct ? 1 : 0,
        },
        cost: ({ step }) => gqaCost(options, step, [[0, step.decodeRows]]),
      },
    );
    return { bound, headTiles: kvHeads * tile.tiles };
  };
  return decodeLaunch(recorder, {
    kernel: NAME,
    partials,
    out,
    groups: options.groups,
    merge: options,
    bind: (target, direct, groups) =>
      bindWith(groups === undefined ? tuning.rowHeads : tuning.groupHeads, target, direct, groups),
    few: fewOf(tuning, options.heads / kvHeads, bindWith),
  });
}
