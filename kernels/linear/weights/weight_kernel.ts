/**
 * Kernels over interleaved weights: one for each weight dtype, made of the kernel's own file, the
 * dot product they all share and the decoder of the dtype.
 *
 * @module
 */
import { KernelError } from "../../../src/errors.ts";
import { type Constants, Kernel, type KernelDefinition } from "../../../src/gpu/kernel.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import dotRows from "../../common/dot/dot_rows.wgsl?raw";
import dotRowsAlone from "../../common/dot/dot_rows_alone.wgsl?raw";
import dotRowsSplit from "../../common/dot/dot_rows_split.wgsl?raw";
import dotRowsStaged from "../../common/dot/dot_rows_staged.wgsl?raw";
import groupSums from "../../common/dot/group_sums.wgsl?raw";
import groupSumsCodes from "../../common/dot/group_sums_codes.wgsl?raw";
import groupSumsHalf from "../../common/dot/group_sums_half.wgsl?raw";
import groupSumsShuffle from "../../common/dot/group_sums_shuffle.wgsl?raw";
import halfSumsInWords from "../../common/dot/half_sums_in_words.wgsl?raw";
import halfSumsKept from "../../common/dot/half_sums_kept.wgsl?raw";
import pieceRounds from "../../common/dot/piece_rounds.wgsl?raw";
import scaledSums from "../../common/dot/scaled_sums.wgsl?raw";
import stagedSums from "../../common/dot/staged_sums.wgsl?raw";
import stagedSumsHalf from "../../common/dot/staged_sums_half.wgsl?raw";
import topLevelNone from "../../common/dot/top_level_none.wgsl?raw";
import xCodes from "../../common/inputs/x_codes.wgsl?raw";
import xPlain from "../../common/inputs/x_plain.wgsl?raw";
import rowScale from "../../common/weights/row_scale.wgsl?raw";
import weightOrder from "../../common/weights/weight_order.wgsl?raw";
import bf16 from "../../common/weights/weights_bf16.wgsl?raw";
import f16 from "../../common/weights/weights_f16.wgsl?raw";
import f32 from "../../common/weights/weights_f32.wgsl?raw";
import fp8 from "../../common/weights/weights_fp8.wgsl?raw";
import int4 from "../../common/weights/weights_int4.wgsl?raw";
import int8 from "../../common/weights/weights_int8.wgsl?raw";
import mxfp4 from "../../common/weights/weights_mxfp4.wgsl?raw";
import type { RowSquares } from "../../norm/normed_rows.ts";
import { type LaunchForm, tokenLanes } from "./launch_form.ts";
import {
  BLOCK_COLUMNS,
  type GroupColumns,
  scaleWords,
  type WeightDtype,
  type WeightLayout,
} from "./layout.ts";

export const DECODERS: Readonly<Record<WeightDtype, string>> = {
  bf16,
  f16,
  f32,
  fp8,
  int8,
  int4,
  mxfp4,
};
/** Levels of the segment tree for up to 32 segments. */
export const TREE_LEVELS = 5;

/**
 * What decoded weights are multiplied by on their way to f16, which would lose some of their bits:
 * decoders make these smaller than they are.
 */
export const HALF_UP: Readonly<Partial<Record<WeightDtype, number>>> = { fp8: 16, mxfp4: 16384 };

/** What decides which text a kernel over weights is made of, beside the form of its launch. */
export type WeightForm = WeightLayout & {
  readonly dtype: WeightDtype;
  readonly groupColumns?: GroupColumns;
};

/** How a kernel's activation rows come, beside the form of its launch. */
export interface InputForm {
  /**
   * They are int8 codes with scales, as `quantizeCodes` writes them, `codedStride` words apart; the
   * weights are int8 too, and meet them in sums of whole numbers. Default false: f32.
   */
  readonly coded?: boolean | undefined;
  /**
   * Where they have sums of squares by which they are still to be scaled: `normed_rows.ts`. Default:
   * nowhere, they are multiplied as they are.
   */
  readonly squares?: RowSquares | undefined;
}

/** The kernel for weights of this form, launched so; asked for twice, the same one. */
export type WeightKernels<B extends string, P extends string> = (
  weight: WeightForm & InputForm,
  launch: LaunchForm,
) => Kernel<B, P>;

/**
 * @param definition `xVector` is the text of `x_vector(index)`, for a kernel that does not multiply
 * the vectors of its binding `x` as they are; `topLevel` that of `climb_top()`, for one whose
 * staged forms have memory for the sums of a further level of the tree.
 */
export function weightKernels<B extends string, P extends string>({
  xVector = xPlain,
  topLevel = topLevelNone,
  ...definition
}: KernelDefinition<B, P> & {
  readonly xVector?: string;
  readonly topLevel?: string;
}): WeightKernels<B, P> {
  const kernels = new Map<string, Kernel<B, P>>();
  return (weight, launch) => {
    const { dtype, coded = false } = weight;
    if (coded && dtype !== "int8") {
      throw new KernelError(definition.name, `codes do not meet ${dtype} weights`);
    }
    const shares = sharesLoads(weight, launch);
    const splits = launch.split > 1;
    const { staged = false } = launch;
    const halves = multipliesHalves(weight);
    const inWords = keepsWords(weight, launch);
    const key = `${dtype} ${coded} ${halves} ${inWords} ${shares} ${splits} ${staged}`;
    const known = kernels.get(key);
    if (known !== undefined) return known;
    const source = [
      ...(halves ? ["enable f16;"] : []),
      ...(shares ? [SUBGROUPS] : []),
      definition.source,
      coded ? xCodes : xVector,
      dotRows,
      weightOrder,
      staged ? `${dotRowsStaged}\n${topLevel}` : splits ? dotRowsSplit : dotRowsAlone,
      DECODERS[dtype],
      sumsText({ coded, staged, halves, inWords, shares }),
    ];
    const kernel = new Kernel({ ...definition, source: source.join("\n") });
    kernels.set(key, kernel);
    return kernel;
  };
}

/** The text that adds up products, in the way that these say. */
function sumsText(options: {
  readonly coded: boolean;
  readonly staged: boolean;
  readonly halves: boolean;
  readonly inWords: boolean;
  readonly shares: boolean;
}): string {
  const { coded, staged, halves, inWords, shares } = options;
  if (coded) return groupSumsCodes;
  if (staged) return halves ? stagedSumsHalf : stagedSums;
  if (halves) {
    const kept = inWords ? halfSumsInWords : halfSumsKept;
    return `${pieceRounds}\n${kept}\n${groupSumsHalf}`;
  }
  return shares ? groupSumsShuffle : groupSums;
}

/**
 * Invocations that share the columns of a row are in subgroups of their own, where control flow is
 * uniform; a compiler cannot know.
 */
const SUBGROUPS = "enable subgroups;\ndiagnostic(off, subgroup_uniformity);";

/** Weights in f32 are so for a reason, and codes meet codes. */
function multipliesHalves({ dtype, halfProducts, coded }: WeightForm & InputForm): boolean {
  return halfProducts === true && dtype !== "f32" && coded !== true;
}

/** F32 weights gain with several rows only, and lose with one: their granule takes one vector of x. */
function sharesLoads(weight: WeightForm & InputForm, launch: LaunchForm): boolean {
  const { dtype, subgroupSize, coded = false, tuning } = weight;
  if (coded || launch.staged || tuning?.readsAlone || multipliesHalves(weight)) return false;
  if (dtype === "f32" || subgroupSize === undefined) return false;
  return launch.split === 1 || (launch.workgroup / launch.split) % subgroupSize === 0;
}

/** Whether the text reads pieces of each weight row, of which a form may say how many at once. */
function readsPieces(weight: WeightForm & InputForm, launch: LaunchForm): boolean {
  if (weight.coded === true || launch.staged === true) return false;
  return !multipliesHalves(weight) && !sharesLoads(weight, launch);
}

/** Whether sums of halves are kept in words. */
function keepsWords(weight: WeightForm & InputForm, { staged }: LaunchForm): boolean {
  return weight.wordSums === true && staged !== true && multipliesHalves(weight);
}

/** Pieces of four vectors: all dtypes that are decoded. */
const DECODED: readonly WeightDtype[] = ["fp8", "int8", "int4", "mxfp4"];

/**
 * Whether pieces are multiplied in two rounds: where they are read one at a time, for want of registers, and sums of
 * halves take more of them.
 */
function takesRounds(weight: WeightForm & InputForm, launch: LaunchForm): boolean {
  if (launch.staged || launch.piecesAtOnce !== 1 || launch.tokens <= 2) return false;
  return multipliesHalves(weight) && DECODED.includes(weight.dtype);
}

/** Whether weights of this dtype have scales. */
function scaled({ dtype }: { readonly dtype: WeightDtype }): boolean {
  return scaleWords({ dtype, columns: 1 }) > 0;
}

/**
 * Levels of the segment tree: no more than there are in staged forms, as each takes registers of their many sums;
 * of other forms one pipeline is for any number of segments.
 */
function treeLevels(segments: number, { staged = false }: LaunchForm): number {
  if (staged) return Math.ceil(Math.log2(segments));
  return segments === 1 ? 1 : TREE_LEVELS;
}

/** The constants that every kernel over weights takes. */
export function weightConstants(
  weight: WeightForm & InputForm,
  launch: LaunchForm,
  {
    segments,
    bias,
    skips = false,
    xByRun = false,
    together = 1,
  }: {
    readonly segments: number;
    readonly bias: boolean;
    /** Of an invocation's four rows, neighbours that certainly lie in one run where runs have so many. Default 1. */
    readonly together?: 1 | 2 | 4;
    /** Whether neighbouring runs of lanes may have slices of x of their own. */
    readonly xByRun?: boolean;
    /** Whether the kernel says how many rows of an invocation are wanted, and others cost much. */
    readonly skips?: boolean;
  },
): Constants {
  const { dtype, lanes, rowsPerLane = 1, scaleOrder = "byGroup" } = weight;
  const { groupColumns = BLOCK_COLUMNS, fp8Decode = "half", subgroupSize } = weight;
  const { piecesAtOnce } = launch;
  const halves = dtype === "fp8" || dtype === "mxfp4";
  const shares = sharesLoads(weight, launch);
  return {
    WORKGROUP_SIZE: launch.workgroup,
    TOKENS: launch.tokens / tokenLanes(launch),
    ...(launch.staged && { TOKEN_LANES: tokenLanes(launch) }),
    BLOCK_SPLIT: launch.split,
    LANES: lanes,
    // Left out where they are as the file has them: most adapters run its text, and name it so.
    ...(rowsPerLane > 1 && { ROWS_PER_LANE: rowsPerLane }),
    ...(scaleOrder === "byRun" && scaled(weight) && { SCALES_BY_RUN: true }),
    ...(together > 1 && together <= rowsPerLane && { ROWS_TOGETHER: together }),
    LEVELS: treeLevels(segments, launch),
    ...(shares && { SUBGROUP_SIZE: subgroupSize! }),
    ...(shares && xByRun && { X_BY_RUN: true }),
    BIAS: bias,
    ...(skips && { SKIPS: true }),
    ...(halves && { HALF_DECODE: fp8Decode === "half" }),
    ...(multipliesHalves(weight) && { WEIGHT_UP: HALF_UP[dtype] ?? 1 }),
    ...(multipliesHalves(weight) && launch.staged && { Staged: "vec4<f16>", VECTOR_BYTES: 8 }),
    ...(dtype === "int4" && { SCALE_COLUMNS: groupColumns }),
    ...(takesRounds(weight, launch) && { ROUNDS: 2 }),
    ...(piecesAtOnce !== undefined &&
      readsPieces(weight, launch) && { PIECES_AT_ONCE: piecesAtOnce }),
  };
}

/** A matrix, or a slab of them, as a kernel binds it. */
interface StoredWeight {
  readonly dtype: WeightDtype;
  readonly words: Tensor;
  readonly scales?: Tensor;
  readonly bias?: Tensor;
}

/**
 * What to bind for a weight: where it has no scales or bias, its words, which no kernel reads
 * there.
 */
export function weightTensors(
  kernel: string,
  weight: StoredWeight,
): Readonly<Record<"weights" | "scales" | "bias", Tensor>> {
  const { dtype, words, scales, bias = words } = weight;
  const has = scaled(weight);
  if (has && scales === undefined) {
    throw new KernelError(kernel, `${dtype} weights come without scales`);
  }
  return { weights: words, scales: has ? scales! : words, bias };
}

/** Throws unless every named number is a multiple of 4, as rows read as `vec4f` must be. */
export function requireMultiplesOf4(
  kernel: string,
  numbers: Readonly<Record<string, number>>,
): void {
  for (const [name, value] of Object.entries(numbers)) {
    if (value % 4 !== 0) throw new KernelError(kernel, `${name} ${value} is not a multiple of 4`);
  }
}

/** What a kernel needs whose rows may have sums of squares, and of which. */
export const SCALED_ROWS = `${scaledSums}\n${rowScale}`;

/** Throws unless the first sum is at a whole vector. */
export function squaresParams(kernel: string, squares: RowSquares | undefined) {
  const { column = 0, eps = 0 } = squares ?? {};
  requireMultiplesOf4(kernel, { squares: column });
  return { squares: column / 4, eps };
}
