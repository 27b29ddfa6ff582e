import { KernelError } from "../../../src/errors.ts";
import type { LaunchCost, StepArrays } from "../../../src/gpu/launch_cost.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { type CacheDtype, cacheKernels, requireMultiples } from "../../cache/cache_kernel.ts";
import { mlaEntryBytes } from "../../cache/mla_write.ts";
import rotate from "../../common/attention/rotate.wgsl?raw";
import latentFp8 from "../../common/cache/latent_entries_fp8.wgsl?raw";
import latentPlain from "../../common/cache/latent_entries_plain.wgsl?raw";
import slots from "../../common/cache/paged_slots.wgsl?raw";
import treeSlots from "../../common/cache/tree_slots.wgsl?raw";
import {
  type ExchangeOptions,
  exchangeFor,
  KEY_TILE,
  unrolls,
  withAttention,
} from "../exchange.ts";
import { seenKeys } from "../seen_keys.ts";
import { type DecodeLaunch, decodeLaunch, fewOf, SHARED_ROWS } from "../split_launch.ts";
import { requireNoGroups } from "../tree_paths.ts";
import source from "./mla_decode.wgsl?raw";

const NAME = "attention/mla_decode";

/** Elements of a latent at most: a scale for each 128 keeps the FP8 form in workgroup memory. */
export const MLA_DECODE_MAX_LATENT = 1024;

const definition = {
  name: NAME,
  buffers: ["q_absorbed", "q", "cache", "rows", "page_tables", "rope_table", "groups", "out"],
  params: [
    "heads",
    "nope",
    "key_quads",
    "value_quads",
    "q_stride",
    "page_size",
    "split_length",
    "max_splits",
    "direct",
    "scale",
  ],
} as const;
const forms = { plain: latentPlain, fp8: latentFp8 };

function kernelsWith(ofSlots: string) {
  const texts = withAttention(rotate + ofSlots + source);
  return {
    memory: cacheKernels({ ...definition, source: texts.memory }, forms),
    subgroup: cacheKernels({ ...definition, source: texts.subgroup }, forms),
  };
}

const kernels = kernelsWith(slots);
const treeKernels = kernelsWith(treeSlots);

export interface MlaDecodeOptions extends ExchangeOptions {
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
  /** `[rows, heads * latent]` f32; not written where splits are left */
  readonly out: Tensor;
  /** Leaves the records of splits, even of one, as `mergeSplits` reads them. Default false. */
  readonly leavesSplits?: boolean;
  readonly heads: number;
  /** Elements of a latent and of a rope part: multiples of 4. */
  readonly latent: number;
  readonly rope: number;
  /** Elements of a head's query in front of its rope part. */
  readonly nope: number;
  readonly pageSize: number;
  /** Keys of a split: a multiple of `KEY_TILE`. */
  readonly splitLength: number;
  /** Multiplies the scores. */
  readonly scale: number;
  /**
   * `[groups, 2]` u32: first row, row count (at most `SHARED_ROWS`) of rows that follow each other
   * in one sequence; needed for launches over groups
   */
  readonly groups?: Tensor | undefined;
  /**
   * Whether rows may be of draft trees: word 3 of each is then where its path stands (tree_paths.ts).
   * Such rows share no reads: there are no groups. Default false.
   */
  readonly followsPaths?: boolean | undefined;
}

type DecodeSizes = Pick<
  MlaDecodeOptions,
  "cacheDtype" | "heads" | "latent" | "rope" | "splitLength"
>;

/** @throws {KernelError} when a size is none that kernels of latent attention have. */
export function requireSizes(kernel: string, { latent, rope, splitLength }: DecodeSizes): void {
  requireMultiples(kernel, 4, { latent, rope });
  requireMultiples(kernel, KEY_TILE, { splitLength });
  if (latent > MLA_DECODE_MAX_LATENT) {
    const problem = `latents of ${latent} elements, more than ${MLA_DECODE_MAX_LATENT}`;
    throw new KernelError(kernel, problem);
  }
}

/** What the generated rows of a step cost. */
export function decodeCost(
  { cacheDtype, heads, latent, rope }: DecodeSizes,
  step: StepArrays,
): LaunchCost {
  const { keys, pairs } = seenKeys(step, [[0, step.decodeRows]]);
  return {
    bytes: keys * mlaEntryBytes(cacheDtype, latent, rope),
    flops: 2 * pairs * heads * (2 * latent + rope),
  };
}

/**
 * Absorbed latent attention of generated rows over keys `0..position`.
 *
 * Binds the tensors now; the returned function records one launch when the longest row has one
 * split or splits are left, else two. With `groups` rows of one sequence share the reads
 * of its cache; no bit changes.
 *
 * @throws {KernelError} when rows of draft trees are to share reads.
 */
export function mlaDecode(recorder: Recorder, options: MlaDecodeOptions): DecodeLaunch {
  const { cacheDtype, rows, out, partials, heads, latent, rope, nope, splitLength } = options;
  requireSizes(NAME, options);
  requireNoGroups(NAME, options);
  const ofRows = options.followsPaths === true ? treeKernels : kernels;
  const { by, lanes, subgroupSize, tuning } = exchangeFor(recorder.device, options);
  const merge = { rows, out, outStride: heads * latent, heads, headDim: latent, splitLength };
  const bindWith = (most: number, target: Tensor, direct: boolean, groups?: Tensor) => {
    const headTile = Math.min(heads, most);
    const bound = ofRows[by][cacheDtype].bind(
      recorder,
      {
        q_absorbed: options.queryAbsorbed,
        q: options.query,
        cache: options.cache,
        rows,
        page_tables: options.pageTables,
        rope_table: options.ropeTable,
        // A binding cannot stay empty.
        groups: groups ?? rows,
        out: target,
      },
      {
        subgroupSize,
        constants: {
          LATENT: latent,
          ROPE: rope,
          HEADS: headTile,
          LANES: lanes,
          UNROLLS: unrolls({ lanes, tuning }, latent),
          ROWS: groups === undefined ? 1 : SHARED_ROWS,
        },
        params: {
          heads,
          nope,
          key_quads: (latent + rope) / 4,
          value_quads: latent / 4,
          q_stride: options.queryStride,
          page_size: options.pageSize,
          split_length: splitLength,
          max_splits: 1,
          direct: direct ? 1 : 0,
          scale: options.scale,
        },
        cost: ({ step }) => decodeCost(options, step),
      },
    );
    return { bound, headTiles: Math.ceil(heads / headTile) };
  };
  return decodeLaunch(recorder, {
    kernel: NAME,
    partials,
    out,
    groups: options.groups,
    merge: options.leavesSplits ? undefined : merge,
    bind: (target, direct, groups) =>
      bindWith(groups === undefined ? tuning.rowHeads : tuning.groupHeads, target, direct, groups),
    few: fewOf(tuning, heads, bindWith),
  });
}
