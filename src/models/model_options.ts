/**
 * What a model is created with, and what its plan is bound to.
 *
 * @module
 */
import type { CacheDtype, KvCache } from "../cache/kv_cache.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { DraftTensors } from "../layers/draft_tensors.ts";
import type { LayerContext } from "../layers/layer_context.ts";
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
  /** Whether the checkpoint's multi-token-prediction module is there to draft. Default false. */
  readonly drafts?: boolean;
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
}

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
}
