/**
 * What a step launches: the model, then the choice of tokens, bound to the tensors they share.
 *
 * @module
 */
import type { KvCache } from "../cache/kv_cache.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "../layers/batch.ts";
import type { StepTensors, StepTensorsOptions } from "../layers/step_tensors.ts";
import type { Model, ModelShape } from "../models/model.ts";
import { maxPrefillKeys } from "./prefill_workspace.ts";
import { Sampler } from "./sampler.ts";

/** What the tensors of a step are sized by. */
export interface StepSizes {
  readonly shape: ModelShape;
  readonly pageSize: number;
  readonly contextLength: number;
  /** Rows of a batch, and rows of it whose logits may be wanted. */
  readonly maxRows: number;
  readonly maxLogitRows: number;
  readonly maxSequences: number;
  /** Cached entries that prompt attention expands at once. */
  readonly prefillCapacity: number;
  /** Whether generated rows of one sequence share the reads of attention. */
  readonly sharesReads: boolean;
}

export function stepTensorSizes(
  options: StepSizes,
  cache: Pick<KvCache, "slots">,
): StepTensorsOptions {
  const { shape, pageSize, contextLength, maxRows, maxSequences, prefillCapacity } = options;
  return {
    pageSize,
    splitLength: shape.splitLength,
    capacity: prefillCapacity,
    rowTile: shape.prefillRowTile,
    maxRows,
    hiddenSize: shape.hiddenSize,
    maxKeys: maxPrefillKeys(contextLength, maxRows),
    maxSequences,
    maxPages: Math.ceil(contextLength / pageSize),
    paddingSlot: cache.slots,
    sharesReads: options.sharesReads,
  };
}

export interface CompiledStep {
  /** `[maxLogitRows, logitsStride]` f32 */
  readonly logits: Tensor;
  readonly logitsStride: number;
  readonly sampler: Sampler;
}

/** Adds the launches of a step to the plan. */
export function compileStep(
  plan: Plan<Step>,
  options: StepSizes & {
    readonly memory: DeviceMemory;
    readonly model: Model;
    readonly cache: KvCache;
    readonly inputs: StepTensors;
  },
): CompiledStep {
  const { memory, model, cache, inputs, shape, maxLogitRows, maxSequences } = options;
  const { vocabularySize } = shape;
  const logitsStride = Math.ceil(vocabularySize / 4) * 4;
  const logits = memory.allocate("activations", maxLogitRows * logitsStride * 4, "logits");
  model.compile(plan, { inputs, cache, logits, logitsStride });
  const sampler = new Sampler(memory, {
    maxRows: maxLogitRows,
    maxPenalizedRows: Math.min(maxLogitRows, maxSequences),
    vocabularySize,
    logits,
    logitsStride,
    sampled: inputs.sampled,
  });
  sampler.compile(plan);
  return { logits, logitsStride, sampler };
}

/** Bytes of logits that are kept for prompt rows to be scored. */
const SCORED_LOGIT_BYTES = 2 ** 24;

/** Rows of logits: one for each sequence, and some for prompts, at least one. */
export function logitRowCount(
  vocabularySize: number,
  {
    maxSequences,
    maxRows,
    maxTensorBytes,
  }: Readonly<Record<"maxSequences" | "maxRows" | "maxTensorBytes", number>>,
): number {
  const bytes = Math.ceil(vocabularySize / 4) * 16;
  const room = Math.floor(maxTensorBytes / bytes) - maxSequences;
  const scored = Math.min(Math.floor(SCORED_LOGIT_BYTES / bytes), room, maxRows);
  return maxSequences + Math.max(scored, 1);
}
