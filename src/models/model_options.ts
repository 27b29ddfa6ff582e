/**
 * What a model is created with, and what its plan is bound to.
 *
 * @module
 */
import type { CacheDtype, KvCache } from "../cache/kv_cache.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { DraftTensors } from "../layers/draft_tensors.ts";
import type { LayerContext } from "../layers/layer_context.ts";
import type { MicroBatchTensors } from "../layers/micro_batches.ts";
import type { StepTensors } from "../layers/step_tensors.ts";

export interface ModelOptions extends LayerContext {
  /** Rows of one step at most, and those of generated tokens among them. */
  readonly maxRows: number;
  readonly maxDecodeRows: number;
  /** Positions a sequence may have. */
  readonly contextLength: number;
  readonly pageSize: number;
  readonly cacheDtype: CacheDtype;
  /**
   * Cached entries that prompt attention expands at once, a multiple of the split length; 0 when it
   * expands none.
   */
  readonly prefillCapacity: number;
  /** Quantizes the inputs of quantized linears, as the checkpoint's scheme says. */
  readonly quantizeActivations: boolean;
  /**
   * Whether the ranks of each attention group share a head, and each rank has dense feed-forward blocks
   * whole. Default false: all ranks share both.
   */
  readonly headByGroup?: boolean;
  readonly wholeDense?: boolean;
  /** Whether steps may be cut into micro-batches that compute side by side. Default false. */
  readonly twoBatchOverlap?: boolean;
  /** Whether the checkpoint's multi-token-prediction module is there to draft. Default false. */
  readonly drafts?: boolean;
  /** Whether a model that reads images has what it reads them with. Default true. */
  readonly sees?: boolean;
}

/** What a definition does not know itself. */
export type CreateOptions = Omit<ModelOptions, "communicator" | "unshared" | "roundsRows">;

/** What layers read and write besides a model's own tensors. */
export interface LayerTensors {
  readonly inputs: StepTensors;
  readonly cache: KvCache;
}

/** Where a plan reads from and writes to besides the model's own tensors. */
export interface PlanTensors extends LayerTensors {
  /** `[maxLogitRows, logitsStride]` f32 */
  readonly logits: Tensor;
  readonly logitsStride: number;
  /** Rows between layers that a draft network takes. */
  readonly captures?: Captures | undefined;
  /** What layers read of both micro-batches; absent where no step is cut. */
  readonly microBatches?: MicroBatchTensors | undefined;
}

/** Rows in front of some layers of a target, side by side. */
export interface Captures {
  /** In the order of the columns that they have. */
  readonly layers: readonly number[];
  /** `[maxRows, stride]` f32 */
  readonly out: Tensor;
  readonly stride: number;
}

/** Bytes from one row to the next are a multiple of 16. */
export const capturedStride = (layers: readonly number[], hiddenSize: number): number =>
  Math.ceil((layers.length * hiddenSize) / 4) * 4;

/** What the launches of drafts read and write besides. */
export interface DraftBinding {
  readonly inputs: StepTensors;
  readonly drafts: DraftTensors;
  /** Slot of the cache and entry of the page tables that rows of padding have. */
  readonly padding: { readonly slot: number; readonly page: number };
  /** The target's entries. */
  readonly target: KvCache;
  /** Entries of a model that drafts beside the target; the target's own layers have theirs in its cache. */
  readonly cache: KvCache | undefined;
  /** Of a network that takes some. */
  readonly captures: Captures | undefined;
}
