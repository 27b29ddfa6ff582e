/**
 * The largest batch that a step may have, and the sizes of its tensors that follow.
 *
 * @module
 */
import type { KvCache } from "../../cache/kv_cache.ts";
import type { AttentionCut } from "../../layers/attention/prefill_passes.ts";
import type { StepTensorsOptions } from "../../layers/step_tensors.ts";
import type { DraftTreeSizes } from "../../layers/tree_tensors.ts";
import type { ModelShape } from "../../models/model.ts";
import { maxPrefillKeys } from "../load/prefill_workspace.ts";

export interface BatchLimits {
  readonly shape: ModelShape;
  readonly pageSize: number;
  readonly contextLength: number;
  /** Rows of a batch, and rows of it whose logits may be wanted. */
  readonly maxRows: number;
  readonly maxLogitRows: number;
  /** Rows that may be sampled: one of each sequence, and those of its drafts. */
  readonly maxSampledRows: number;
  readonly maxSequences: number;
  /** Drafts that a sequence may get in a step, one behind the other; 0 without a draft module. */
  readonly maxDrafts: number;
  /** Cached entries that prompt attention expands at once. */
  readonly prefillCapacity: number;
  /** Whether generated rows of one sequence share the reads of attention. */
  readonly sharesReads: boolean;
  /** Nodes of a sequence's draft tree at most. Default 0, without trees. */
  readonly maxTreeNodes?: number | undefined;
  /** The trees that steps draft themselves. Default: drafts follow each other. */
  readonly tree?: DraftTreeSizes | undefined;
  /** How the attention of a model that drafts is cut. Default: as the target's. */
  readonly draftCut?: AttentionCut | undefined;
  /** Whether steps are cut into two micro-batches where they can be. Default false. */
  readonly twoBatchOverlap?: boolean | undefined;
}

export function stepTensorSizes(
  options: BatchLimits,
  cache: Pick<KvCache, "slots">,
): StepTensorsOptions {
  const { shape, pageSize, contextLength, maxRows, maxSequences, prefillCapacity } = options;
  const { maxTreeNodes = 0, tree } = options;
  return {
    pageSize,
    splitLength: shape.splitLength,
    capacity: prefillCapacity,
    rowTile: shape.prefillRowTile,
    maxRows,
    hiddenSize: shape.hiddenSize,
    maxKeys: maxPrefillKeys(contextLength, maxRows),
    maxSequences,
    // Nodes of one depth have entries of their own, which may lie beyond the context.
    maxPages: Math.ceil((contextLength + maxTreeNodes) / pageSize),
    // A node has a token and a parent.
    maxDraftIds:
      (tree === undefined ? options.maxDrafts : 2 * (tree.draftTokens - 1)) * maxSequences,
    maxDraftRows: (tree?.topk ?? 0) * maxSequences,
    paddingSlot: cache.slots,
    sharesReads: options.sharesReads,
    maxTreeNodes,
    draftCut: options.draftCut,
    partedRope: shape.partedRope,
  };
}

/** Bytes of logits that are kept for prompt rows to be scored. */
const SCORED_LOGIT_BYTES = 2 ** 24;

/** Rows of logits: those that may be sampled, and some for prompts, at least one. */
export function logitRowCount(
  vocabularySize: number,
  {
    maxSampledRows,
    maxRows,
    maxTensorBytes,
  }: Readonly<Record<"maxSampledRows" | "maxRows" | "maxTensorBytes", number>>,
): number {
  const bytes = Math.ceil(vocabularySize / 4) * 16;
  const room = Math.floor(maxTensorBytes / bytes) - maxSampledRows;
  const scored = Math.min(Math.floor(SCORED_LOGIT_BYTES / bytes), room, maxRows);
  return maxSampledRows + Math.max(scored, 1);
}
