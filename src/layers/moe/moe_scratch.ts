/**
 * The shape of a mixture of experts, and the tensors that layers of that shape work in, one after the
 * other.
 *
 * @module
 */
import type { GatedActivation } from "../../../kernels/linear/gated_activation.ts";
import { tileLimit } from "../../../kernels/moe/route/sort.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import { TUNING_CHOICES } from "../../gpu/tuning.ts";

/** Pairs of the smallest tiles of any tuning. */
const [LEAST_TILE] = TUNING_CHOICES.pairTile;

export interface MoeShape {
  readonly hiddenSize: number;
  /** Experts that rows are routed to, on all ranks together, and those that every row uses. */
  readonly routed: number;
  readonly shared: number;
  readonly perToken: number;
  readonly intermediate: number;
  readonly scoring: "sigmoid" | "softmax";
  readonly selection: "noaux_tc" | "group_limited_greedy" | "greedy";
  readonly groups: number;
  readonly groupsKept: number;
  readonly normalize: boolean;
  readonly scalingFactor: number;
  /** Default: a "gate" without a bias, experts each with tensors of their own, gated by SiLU. */
  readonly router?: { readonly name: string; readonly bias: boolean };
  /** All experts in one tensor of MXFP4 codes, with biases. */
  readonly stackedMxfp4?: boolean;
  readonly activation?: GatedActivation;
}

export interface MoeScratch {
  /** `[maxRows, logitsStride]` */
  readonly routerLogits: Tensor;
  readonly logitsStride: number;
  /** `[maxRows, slots]` u32: physical experts; behind them in the same buffer the next two */
  readonly experts: Tensor;
  /** Pairs by expert */
  readonly sortedPairs: Tensor;
  /** `[maxRows, slots]` f32 */
  readonly weights: Tensor;
  /** What sorting works with, and the tiles that pairs are cut in */
  readonly sortScratch: Tensor;
  readonly tiles: Tensor;
  /** `[maxRows * slots, intermediateStride]` */
  readonly intermediate: Tensor;
  readonly intermediateStride: number;
  /** `[maxRows * slots, hiddenStride]` */
  readonly output: Tensor;
  /** `[maxRows, sharedStride]`: of shared experts that are one MLP */
  readonly sharedIntermediate: Tensor;
  readonly sharedStride: number;
}

/** A binding starts at a multiple of 256 bytes. */
const BINDING_WORDS = 64;

export function allocateMoeScratch(
  memory: DeviceMemory,
  shape: MoeShape,
  sizes: {
    readonly maxRows: number;
    readonly hiddenStride: number;
    /** Slots of routed experts on all ranks. Default: one each. */
    readonly routedSlots?: number;
  },
): MoeScratch {
  const { maxRows, hiddenStride, routedSlots = shape.routed } = sizes;
  const allocate = (words: number, label: string) =>
    memory.allocate("activations", words * 4, label);
  const pairs = maxRows * (shape.perToken + shape.shared);
  const [experts, sortedPairs, weights] = neighbours(memory, pairs, "routed pairs");
  const expertCount = routedSlots + shape.shared;
  const logitsStride = Math.ceil(shape.routed / 4) * 4;
  const intermediateStride = Math.ceil(shape.intermediate / 4) * 4;
  const sharedStride = Math.ceil((shape.shared * shape.intermediate) / 4) * 4;
  return {
    routerLogits: allocate(maxRows * logitsStride, "router logits"),
    logitsStride,
    experts,
    weights,
    sortedPairs,
    sortScratch: allocate(pairs, "sorted pairs scratch"),
    tiles: allocate((1 + tileLimit(pairs, expertCount, LEAST_TILE)) * 4, "expert tiles"),
    intermediate: allocate(pairs * intermediateStride, "expert intermediates"),
    intermediateStride,
    output: allocate(pairs * hiddenStride, "expert outputs"),
    sharedIntermediate: allocate(maxRows * sharedStride, "shared intermediates"),
    sharedStride,
  };
}

/** Three tensors of so many words each in one buffer, each to be bound by itself. */
function neighbours(memory: DeviceMemory, words: number, label: string): [Tensor, Tensor, Tensor] {
  const apart = Math.ceil(words / BINDING_WORDS) * BINDING_WORDS * 4;
  const { buffer, offset } = memory.allocate("activations", 3 * apart, label);
  const size = words * 4;
  return [
    { buffer, offset, size },
    { buffer, offset: offset + apart, size },
    { buffer, offset: offset + 2 * apart, size },
  ];
}
