import type { Constants } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import { type CacheKernels, cacheKernels } from "../../cache/cache_kernel.ts";
import softmax from "../../common/attention/online_softmax.wgsl?raw";
import rotate from "../../common/attention/rotate.wgsl?raw";
import latentFp8 from "../../common/cache/latent_read_fp8.wgsl?raw";
import latentPlain from "../../common/cache/latent_read_plain.wgsl?raw";
import slots from "../../common/cache/paged_slots.wgsl?raw";
import treeSlots from "../../common/cache/tree_slots.wgsl?raw";
import matrixProducts from "../../common/matrix/matrix_products.wgsl?raw";
import { operandConstants } from "../../linear/matrix/matrix_kernel.ts";
import type { MatrixTiles } from "../../linear/matrix/matrix_tiles.ts";
import { decodeLaunch } from "../split_launch.ts";
import { decodeCost, type MlaDecodeOptions, requireSizes } from "./mla_decode.ts";
import source from "./mla_decode_matrix.wgsl?raw";

const NAME = "attention/mla_decode_matrix";
/** Heads of a workgroup: twice as many would need more registers than there are. */
const HEAD_TILE = 16;
/** Keys of a tile, and columns of the values that are multiplied at a time. */
const KEY_TILE = 64;
const STRIPS = 4;

const definition = {
  name: NAME,
  buffers: ["q_absorbed", "q", "cache", "rows", "page_tables", "rope_table", "out"],
  params: [
    "heads",
    "nope",
    "key_quads",
    "value_tiles",
    "q_stride",
    "page_size",
    "split_length",
    "max_splits",
    "direct",
    "scale",
  ],
} as const;
type Kernels = CacheKernels<
  (typeof definition.buffers)[number],
  (typeof definition.params)[number]
>;
const kernels = new Map<string, Kernels>();

/** The kernels made of the tiles' functions; asked for twice, the same ones. */
function kernelsFor({ text }: MatrixTiles, followsPaths: boolean): Kernels {
  const ofSlots = followsPaths ? treeSlots : slots;
  const whole = [text, source, matrixProducts, softmax, ofSlots, rotate].join("\n");
  const made =
    kernels.get(whole) ??
    cacheKernels({ ...definition, source: whole }, { plain: latentPlain, fp8: latentFp8 });
  kernels.set(whole, made);
  return made;
}

/** The constants of matrix_tiles*.wgsl and matrix_products.wgsl. */
function stripConstants(tiles: MatrixTiles): Constants {
  const { workgroup, subgroups } = tiles;
  return {
    ...operandConstants(tiles),
    WORKGROUP_SIZE: workgroup,
    TOKENS: (HEAD_TILE * KEY_TILE) / (4 * workgroup),
    TILE_ROWS: HEAD_TILE,
    STRIPS_EACH: Math.ceil(STRIPS / subgroups),
  };
}

export interface MlaDecodeMatrixOptions
  extends Omit<MlaDecodeOptions, "groups" | "subgroupSize" | "tuning" | "leavesSplits"> {
  readonly tiles: MatrixTiles;
}

/**
 * Absorbed latent attention of generated rows over keys `0..position` in numeric class mma128: every
 * key is read twice for `HEAD_TILE` heads, and multiplied by matrices.
 *
 * Binds the tensors now; the returned function records one launch when the longest row has one
 * split, else two.
 */
export function mlaDecodeMatrix(
  recorder: Recorder,
  options: MlaDecodeMatrixOptions,
): (rows: number, maxSplits: number) => void {
  const { cacheDtype, rows, out, partials, heads, latent, rope, nope, splitLength, tiles } =
    options;
  const kernel = kernelsFor(tiles, options.followsPaths === true)[cacheDtype];
  requireSizes(NAME, options);
  const headTiles = Math.ceil(heads / HEAD_TILE);
  const launch = decodeLaunch(recorder, {
    kernel: NAME,
    partials,
    out,
    groups: undefined,
    merge: { rows, out, outStride: heads * latent, heads, headDim: latent, splitLength },
    bind: (target, direct) => {
      const bound = kernel.bind(
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
          constants: { ...stripConstants(tiles), LATENT: latent, ROPE: rope },
          params: {
            heads,
            nope,
            key_quads: (latent + rope) / 4,
            value_tiles: Math.ceil(latent / KEY_TILE),
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
      return { bound, headTiles };
    },
  });
  // Rows of one sequence do not share reads here, whether they are grouped or not.
  return (count, maxSplits) => launch(count, maxSplits);
}
