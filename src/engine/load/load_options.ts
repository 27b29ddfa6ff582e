/**
 * What a model is loaded with: the engine's options, and what only a load on its own can be told.
 *
 * @module
 */
import type { Communicator } from "../../parallel/communicator.ts";
import type { StepCosts } from "../../speculation/step_costs.ts";
import type { EngineOptions } from "../engine_options.ts";

export interface LoadOptions extends EngineOptions {
  /** Rows of a batch whose logits may be wanted. Default `logitRowCount`. */
  readonly maxLogitRows?: number;
  /**
   * Nodes of a sequence's draft tree at most, `MAX_TREE_NODES` at most. Default 0: batches have no
   * trees, and nothing is compiled for them.
   */
  readonly maxTreeNodes?: number;
  /** Takes the adapter to bind less at once than it does; tests split small tensors with it. */
  readonly maxBindingSize?: number;
  /**
   * Whether the loaded model is tried for batch invariance. Default true; tests that load many models
   * go without.
   */
  readonly triesInvariance?: boolean;
  /**
   * The ranks that share the model: each loads its part, and all run the same batches. A rank that
   * fails, or whose model is destroyed, leaves the group. Default: one rank.
   */
  readonly communicator?: Communicator;
  /**
   * Drafts that a sequence may get in a step, by `draftModel` or the checkpoint's multi-token-prediction
   * module, up to `MAX_DRAFTS`. Default as `speculation` says; with 0 the module is not loaded.
   */
  readonly maxDrafts?: number;
  /**
   * What steps take, where the number of drafts follows it. Default: measured once the model is there,
   * on its first device.
   */
  readonly stepCosts?: StepCosts;
  /** Ends the reading of weights; the load then rejects with its reason. */
  readonly signal?: AbortSignal;
}
