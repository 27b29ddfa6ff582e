/**
 * What the headers and the config of a model that drafts tell: what it takes beside its target.
 *
 * @module
 */
import { DEFAULT_LAYOUT } from "../../../kernels/linear/weights/layout.ts";
import { bytesPerToken, type CacheDtype } from "../../cache/kv_cache.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { kvCacheShape, type ModelDefinition } from "../../models/model.ts";
import { type DraftKind, kindOfDraft, requireDraftFits } from "../../speculation/draft_source.ts";
import { MIN_CONTEXT } from "../load/memory_budget.ts";
import { openDraft, prepareDraft } from "./prepare_draft.ts";

export interface DraftReport {
  /** Path or address. */
  readonly name: string;
  /** What `speculation.algorithm` has it draft. */
  readonly algorithm: DraftKind;
  readonly architecture: string;
  /** Bytes of its weights, as its files have them, on the GPU. */
  readonly gpuBytes: number;
  /** Of one token's keys and values in its own layers, by how the cache stores them. */
  readonly cacheBytesPerToken: {
    readonly bf16: number;
    readonly f32: number;
    readonly fp8: number;
  };
}

const NO_LIMIT = Number.MAX_SAFE_INTEGER;

/**
 * Reads no weight and allocates nothing.
 *
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with its files, or not supported.
 * @throws {InvalidRequestError} when it does not fit its target.
 */
export async function inspectDraft(
  source: WeightSource,
  target: ModelDefinition,
): Promise<DraftReport> {
  const opened = await openDraft(source);
  const { architecture, shape } = opened.definition;
  const { vocabularySize } = shape;
  const algorithm = kindOfDraft(architecture);
  requireDraftFits(algorithm, { architecture, vocabularySize }, target.shape.vocabularySize);
  const limits = { maxBufferSize: NO_LIMIT, maxStorageBufferBindingSize: NO_LIMIT };
  const { weightBytes: gpuBytes } = prepareDraft(
    opened,
    target,
    {
      layout: DEFAULT_LAYOUT,
      // Only working memory, which is allocated later, depends on these.
      maxRows: 1,
      maxDecodeRows: 1,
      contextLength: MIN_CONTEXT,
      pageSize: 1,
      cacheDtype: "bf16",
      quantizeActivations: true,
    },
    limits,
  );
  const perToken = (dtype: CacheDtype) => bytesPerToken(kvCacheShape(shape, dtype));
  return {
    name: source.name,
    algorithm,
    architecture,
    gpuBytes,
    cacheBytesPerToken: {
      bf16: perToken("bf16"),
      f32: perToken("f32"),
      fp8: perToken("fp8_e4m3"),
    },
  };
}
