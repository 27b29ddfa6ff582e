/**
 * What a step launches: the model, then the choice of tokens, bound to the tensors they share.
 *
 * @module
 */
import { continueRows } from "../../../kernels/speculation/continue_rows.ts";
import { continueTrees } from "../../../kernels/speculation/trees/continue_trees.ts";
import type { KvCache } from "../../cache/kv_cache.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import { allocateDraftTensors, type DraftTensors } from "../../layers/draft_tensors.ts";
import type { MicroBatchTensors } from "../../layers/micro_batches.ts";
import type { StepTensors } from "../../layers/step_tensors.ts";
import type { DraftNetwork } from "../../models/drafts/draft_network.ts";
import type { Model } from "../../models/model.ts";
import { type Captures, capturedStride } from "../../models/model_options.ts";
import type { AcceptThresholds } from "../../speculation/verify.ts";
import { Sampler } from "../sample/sampler.ts";
import { type BatchLimits, stepTensorSizes } from "./batch_limits.ts";

export interface CompiledStep {
  /** `[maxLogitRows, logitsStride]` f32 */
  readonly logits: Tensor;
  readonly logitsStride: number;
  readonly sampler: Sampler;
  /** There where the model drafts. */
  readonly drafts: DraftTensors | undefined;
}

/** A model that drafts, and the entries of its layers. */
export interface StepDraftModel {
  readonly network: DraftNetwork;
  readonly cache: KvCache;
}

/** Adds the launches of a step to the plan. */
export function compileStep(
  plan: Plan<Step>,
  options: BatchLimits & {
    readonly memory: DeviceMemory;
    readonly model: Model;
    readonly cache: KvCache;
    /** A model that drafts, in place of the model's own module, and its cache. */
    readonly draft?: StepDraftModel | undefined;
    readonly inputs: StepTensors;
    /** Of steps that are cut in two; absent where none is. */
    readonly microBatches?: MicroBatchTensors | undefined;
    readonly thresholds?: AcceptThresholds | undefined;
  },
): CompiledStep {
  const { memory, model, cache, inputs, shape, maxRows, maxLogitRows, maxSequences } = options;
  const { microBatches } = options;
  const { vocabularySize } = shape;
  const { logitRows, rows } = inputs;
  const { thresholds } = options;
  const logitsStride = Math.ceil(vocabularySize / 4) * 4;
  const logits = memory.allocate("activations", maxLogitRows * logitsStride * 4, "logits");
  const sampler = new Sampler(memory, {
    maxRows: maxLogitRows,
    maxPenalizedRows: Math.min(maxLogitRows, maxSequences),
    vocabularySize,
    logits,
    logitsStride,
    sampled: inputs.sampled,
    coins: thresholds && { thresholds, logitRows, rows },
  });
  const { draft, tree } = options;
  const { hiddenSize } = draft?.network ?? shape;
  const draftSizes = { maxRows, maxLogitRows, maxSequences, hiddenSize, logitsStride, tree };
  const drafts = options.maxDrafts > 0 ? allocateDraftTensors(memory, draftSizes) : undefined;
  if (drafts !== undefined) {
    compileContinuation(plan, { inputs, drafts, sampler, pageSize: options.pageSize });
  }
  const captures = draft && allocateCaptures(options, draft.network);
  const written = { inputs, cache, logits, logitsStride, captures, microBatches };
  const bindDrafts = model.compile(plan, written);
  const { maxPages } = stepTensorSizes(options, cache);
  const padding = { slot: cache.slots, page: maxSequences * maxPages };
  const { draftItems: items = inputs.items } = inputs;
  const own = { ...inputs, items };
  const compileDrafts =
    drafts &&
    bindDrafts(
      { inputs: own, drafts, padding, target: cache, cache: draft?.cache, captures },
      draft?.network,
    );
  sampler.compile(plan);
  compileDrafts?.();
  return { logits, logitsStride, sampler, drafts };
}

/** For rows of the model that a network takes, where it takes some. */
function allocateCaptures(
  {
    memory,
    maxRows,
    shape,
  }: Pick<BatchLimits, "maxRows" | "shape"> & {
    readonly memory: DeviceMemory;
  },
  { captures: layers }: DraftNetwork,
): Captures | undefined {
  if (layers === undefined) return undefined;
  const stride = capturedStride(layers, shape.hiddenSize);
  return { layers, stride, out: memory.allocate("activations", maxRows * stride * 4, "captures") };
}

/** Adds what starts rows from where the step before has left their sequences. */
function compileContinuation(
  plan: Plan<Step>,
  {
    inputs,
    drafts,
    sampler,
    pageSize,
  }: {
    readonly inputs: StepTensors;
    readonly drafts: DraftTensors;
    readonly sampler: Sampler;
    readonly pageSize: number;
  },
): void {
  const { rows, pageTables, sampled: ids } = inputs;
  const { ends, trees } = drafts;
  const given = { ends, ids, pageTables, rows, draws: sampler.draws, pageSize };
  plan.group("drafts");
  plan.within({ times: ({ continues }) => (continues ? 1 : 0) }, () => {
    const start =
      trees === undefined
        ? continueRows(plan.recorder, { ...given, continued: drafts.continued })
        : continueTrees(plan.recorder, {
            ...given,
            continued: trees.continued,
            parents: trees.parents,
          });
    plan.add((step) => start(step.rows));
  });
}
