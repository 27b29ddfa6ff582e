/**
 * How a weight matrix lies on the GPU.
 *
 * Rows are padded with zeros to a whole run, columns to a multiple of 128. A row is cut into granules
 * of 16 bytes, and scales are spread to words for every row; weight_order.ts says where both lie:
 *
 * | dtype | group | word |
 * |---|---|---|
 * | fp8, int8 | 128 columns | f32 scale |
 * | int4 | `groupColumns` | `int4ScaleWord()`: f32 scale and zero point |
 * | mxfp4 | 128 columns | byte i: E8M0 exponent of columns 32 i to 32 i + 31 |
 *
 * A code of 4 bits lies in bits 4 i of its word, in the order of the columns.
 *
 * @module
 */
import { canAskFor } from "../../../src/gpu/subgroup_size.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import {
  attentionTuning,
  PLAIN_TUNING,
  type Tuning,
  takesPackedDots,
  tuningFor,
} from "../../../src/gpu/tuning.ts";
import { orderOf, paddedRows, type WeightOrder } from "./weight_order.ts";

/**
 * `int8`: two's complement codes, value = code * scale. `int4`: codes 0 to 15, value =
 * (code - zero) * scale. `mxfp4`: E2M1 codes, value = code's number * 2^(exponent - 127).
 */
export type WeightDtype = "bf16" | "f16" | "f32" | "fp8" | "int8" | "int4" | "mxfp4";

/** Neighbouring columns of a row that share a scale in int4. */
export type GroupColumns = 32 | 64 | 128;

/** How FP8 codes become numbers: through f16, or bit by bit where f16 subnormals are flushed. */
export type Fp8Decode = "half" | "bits";

/** What an adapter prefers; chosen once, before the weights are uploaded. */
export interface WeightLayout extends WeightOrder {
  /** Default "half". */
  readonly fp8Decode?: Fp8Decode;
  /**
   * Invocations of a subgroup, at least 4, where every workgroup is known to be cut in subgroups
   * of this size, in order. Kernels then share loads of `x`; the bits stay the same.
   */
  readonly subgroupSize?: number;
  /**
   * Invocations of a subgroup that kernels of attention ask for, where the adapter has subgroups of
   * several sizes. The bits stay the same.
   */
  readonly askedSubgroupSize?: number;
  /**
   * Whether rounded activations stay int8 codes where they meet int8 weights: only where
   * `dot4I8Packed` is there and right. Default false.
   */
  readonly packedDots?: boolean;
  /**
   * Whether weights and activations are multiplied in f16 (numeric class f16), but for weights in
   * f32: needs the feature shader-f16. Default false.
   */
  readonly halfProducts?: boolean;
  /** Whether sums of halves may be kept in words, which compilers without subgroups do not all take. Default false. */
  readonly wordSums?: boolean;
  /** How launches are shared out; its order is the one above. Default `PLAIN_TUNING`. */
  readonly tuning?: Tuning;
}

/** What every adapter can do, and what sizes are counted with where there is no device. */
export const DEFAULT_LAYOUT: WeightLayout = orderOf(PLAIN_TUNING);

/**
 * The layout of a tuning, with the subgroup size of a device whose subgroups are all of one size.
 *
 * @param tuning Default: that of the device's adapter.
 */
export function layoutFor(
  device: GPUDevice,
  tuning: Tuning = tuningFor(device.adapterInfo),
): WeightLayout {
  return {
    ...orderOf(tuning),
    tuning,
    packedDots: takesPackedDots(device.adapterInfo),
    ...subgroupsOf(device),
    ...askedSubgroups(device, tuning),
  };
}

/** The size that kernels of attention ask for, where they may choose and the tuning has a use for it. */
function askedSubgroups(
  device: GPUDevice,
  { attention = attentionTuning(device.adapterInfo) }: Tuning,
): Pick<WeightLayout, "askedSubgroupSize"> {
  const { lanes, subgroups } = attention;
  return subgroups && canAskFor(device, lanes) ? { askedSubgroupSize: lanes } : {};
}

/** The size of subgroups, where all have one that kernels over weights can use. */
export function subgroupsOf({
  features,
  adapterInfo,
}: GPUDevice): Pick<WeightLayout, "subgroupSize"> {
  const { subgroupMinSize: smallest, subgroupMaxSize: largest } = adapterInfo;
  const known = features.has("subgroups") && smallest === largest && smallest >= 4;
  return known ? { subgroupSize: smallest } : {};
}

/** A weight matrix on the GPU. */
export interface PlacedWeight extends WeightLayout {
  readonly dtype: WeightDtype;
  /** Outputs. */
  readonly rows: number;
  /** Inputs. */
  readonly columns: number;
  readonly rowsPadded: number;
  /** int4 only. Default 128. */
  readonly groupColumns?: GroupColumns;
  /** Interleaved granules. */
  readonly words: Tensor;
  /** `groups * rowsPadded` u32; only where the dtype has scales. */
  readonly scales?: Tensor;
  /** `[rowsPadded]` f32, added to each output once. */
  readonly bias?: Tensor;
}

/**
 * The same matrix of many experts on the GPU, stacked in slabs of consecutive experts. Within a
 * slab, an expert's granules and scales follow those of the expert before. Experts that no slab
 * holds are left out by the kernels.
 */
export interface PlacedExperts extends WeightLayout {
  readonly dtype: WeightDtype;
  /** Physical experts that there are, in a slab or not. */
  readonly expertCount: number;
  /** Outputs of one expert. */
  readonly rows: number;
  /** Inputs of one expert. */
  readonly columns: number;
  /** int4 only. Default 128. */
  readonly groupColumns?: GroupColumns;
  readonly slabs: readonly ExpertSlab[];
}

export interface ExpertSlab {
  readonly firstExpert: number;
  readonly expertCount: number;
  readonly words: Tensor;
  /** Only where the dtype has scales. */
  readonly scales?: Tensor;
  /** `[expertCount, rowsPadded]` f32, added to each output once. */
  readonly bias?: Tensor;
}

/** Columns that a row is padded to a multiple of, and that row-parallel linears are cut at. */
export const BLOCK_COLUMNS = 128;
/** Bytes that a kernel reads at once. */
export const GRANULE_BYTES = 16;
/** Segments that a row-parallel linear is cut in at most. */
const MOST_SEGMENTS = 32;

/** Bytes of an element; a half where two share a byte. */
export const WEIGHT_BYTES: Readonly<Record<WeightDtype, number>> = {
  f32: 4,
  bf16: 2,
  f16: 2,
  fp8: 1,
  int8: 1,
  int4: 0.5,
  mxfp4: 0.5,
};

/** Words of scales that a row of `columns` elements takes; 0 where the dtype has no scales. */
export function scaleWords(shape: Pick<WeightShape, "dtype" | "columns" | "groupColumns">): number {
  const { dtype, columns, groupColumns = BLOCK_COLUMNS } = shape;
  const blocks = Math.ceil(columns / BLOCK_COLUMNS);
  switch (dtype) {
    case "bf16":
    case "f16":
    case "f32":
      return 0;
    case "fp8":
    case "int8":
    case "mxfp4":
      return blocks;
    case "int4":
      return blocks * (BLOCK_COLUMNS / groupColumns);
    default:
      return dtype satisfies never;
  }
}

const scratchFloat = new Float32Array(1);
const scratchBits = new Uint32Array(scratchFloat.buffer);
const ZERO_BITS = 5;

/**
 * The scale word of an int4 group: the bits of `scale`, rounded to nearest with the low 5 bits
 * zero (exact for what F16 and BF16 hold), and `zero` in those.
 *
 * @param zero 0 to 31: the code that stands for 0.
 */
export function int4ScaleWord(scale: number, zero: number): number {
  scratchFloat[0] = scale;
  const bits = scratchBits[0]!;
  const rounded = bits + 15 + ((bits >>> ZERO_BITS) & 1);
  return (((rounded >>> ZERO_BITS) << ZERO_BITS) | zero) >>> 0;
}

/** Segments in which a row-parallel linear of `columns` inputs adds its 128-column blocks. */
export function segments(columns: number): number {
  return Math.min(MOST_SEGMENTS, Math.ceil(columns / BLOCK_COLUMNS));
}

/** How one of several ranks adds the inputs it has of a row-parallel linear. */
export interface RankSegments {
  /** Runs of columns whose sums it sends. */
  readonly parts: number;
  /** Segments of each run: a subtree of the whole linear's tree. */
  readonly segments: number;
}

/**
 * How each of `ranks` ranks adds its share of `columns` inputs, so that `joinSums` gives the bits
 * that the whole linear has; undefined when they would cut a segment.
 */
export function rankSegments(columns: number, ranks: number): RankSegments | undefined {
  const all = segments(columns);
  if (columns % (ranks * BLOCK_COLUMNS) !== 0 || all % ranks !== 0) return undefined;
  const own = all / ranks;
  // The largest power of two in it: runs of so many segments are subtrees wherever a rank begins.
  const run = own & -own;
  return { parts: own / run, segments: run };
}

export interface WeightShape extends WeightOrder {
  readonly dtype: WeightDtype;
  readonly rows: number;
  readonly columns: number;
  /** int4 only. Default 128. */
  readonly groupColumns?: GroupColumns;
}

/** Granules of a row, its padding included. */
export function granulesOfRow({ dtype, columns }: Pick<WeightShape, "dtype" | "columns">): number {
  const padded = Math.ceil(columns / BLOCK_COLUMNS) * BLOCK_COLUMNS;
  return (padded * WEIGHT_BYTES[dtype]) / GRANULE_BYTES;
}

/** Bytes that a matrix takes on the GPU. */
export function weightBytes(shape: WeightShape): {
  readonly words: number;
  readonly scales: number;
} {
  const { dtype, rows, columns } = shape;
  const blocks = Math.ceil(columns / BLOCK_COLUMNS);
  const padded = paddedRows(rows, shape);
  return {
    words: padded * blocks * BLOCK_COLUMNS * WEIGHT_BYTES[dtype],
    scales: padded * scaleWords(shape) * 4,
  };
}
