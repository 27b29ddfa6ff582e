/**
 * A model that drafts for another: what is decided of it before anything is allocated.
 *
 * @module
 */
import type { KvCacheShape } from "../../cache/kv_cache.ts";
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { readConfig } from "../../checkpoint/config.ts";
import { detectQuantization } from "../../checkpoint/quantization_config/detect_quantization.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { CheckpointError, UnsupportedError } from "../../errors.ts";
import { DeviceMemory, type MemoryLimits } from "../../gpu/memory.ts";
import type { AttentionCut } from "../../layers/attention/prefill_passes.ts";
import { MatrixFormats } from "../../layers/weights/matrix_format.ts";
import { type DraftDefinition, defineDraft } from "../../models/drafts/draft_definition.ts";
import type { DraftNetwork } from "../../models/drafts/draft_network.ts";
import { kvCacheShape, type ModelDefinition, type ModelShape } from "../../models/model.ts";
import type { CreateOptions } from "../../models/model_options.ts";

/** A draft model as its files describe it. */
export interface OpenedDraft {
  readonly checkpoint: Checkpoint;
  readonly definition: DraftDefinition;
  /** The formats of its matrices. */
  formats(): MatrixFormats;
}

/** A draft model that fits its target. */
export interface PreparedDraft {
  readonly checkpoint: Checkpoint;
  readonly cacheShape: KvCacheShape;
  readonly weightBytes: number;
  /** How its attention is cut, where the target's is cut in another way. */
  readonly cut: AttentionCut | undefined;
  /** Lays it out in memory. */
  create(options: DraftOptions): DraftNetwork;
}

/** A draft takes all settings of its target, but formats of weights. */
type DraftOptions = Omit<CreateOptions, "formats" | "drafts">;

/**
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with the draft's files, or not
 * supported in them.
 */
export async function openDraft(source: WeightSource): Promise<OpenedDraft> {
  try {
    const checkpoint = await Checkpoint.open(source);
    const { tensors } = checkpoint;
    const config = await readConfig(source);
    const quantization = await detectQuantization(source, config);
    const tensor = (name: string) => tensors.get(name);
    return {
      checkpoint,
      definition: defineDraft(config, quantization, (name) => tensors.has(name)),
      formats: () => new MatrixFormats({ tensor, quantization, uploadTo: undefined }),
    };
  } catch (error) {
    throw named(error, source);
  }
}

/** An error of the draft's files, which says whose they are. */
function named(error: unknown, { name }: WeightSource): unknown {
  const isOfFiles = error instanceof CheckpointError || error instanceof UnsupportedError;
  if (!isOfFiles) return error;
  return new CheckpointError(`draft model ${name}`, error.message, undefined, { cause: error });
}

/** What options say of experts is of the target's. */
const ALONE = { expertLayout: undefined, keepsChoices: false };

/**
 * Reads no weight and allocates nothing.
 *
 * @throws {CheckpointError} naming a tensor that is missing, or that no part of the draft wants.
 * @throws {UnsupportedError} when its prompts need a workspace that the target's have not.
 */
export function prepareDraft(
  { checkpoint, definition, formats }: OpenedDraft,
  { shape }: ModelDefinition,
  options: Omit<DraftOptions, "memory" | "prefillCapacity">,
  limits: MemoryLimits,
): PreparedDraft {
  const cut = cutOf(definition.shape, shape);
  const memory = new DeviceMemory(limits);
  // Nothing that is counted depends on the capacity.
  const counted = { ...options, ...ALONE, memory, formats: formats(), prefillCapacity: 0 };
  try {
    const measured = definition.create(counted, shape);
    checkpoint.check(measured.specs, { ignored: (name) => measured.ignores(name) });
  } catch (error) {
    throw named(error, checkpoint.source);
  }
  return {
    checkpoint,
    cacheShape: kvCacheShape(definition.shape, options.cacheDtype),
    weightBytes: memory.bytes("weights"),
    cut,
    create: (own) => definition.create({ ...own, ...ALONE, formats: formats() }, shape),
  };
}

/** What cuts a step into launches of attention. */
type StepShape = Pick<ModelShape, "expandedEntry" | "prefillRowTile" | "splitLength">;

function cutOf(draft: StepShape, target: StepShape): AttentionCut | undefined {
  const isSame =
    (draft.expandedEntry === undefined) === (target.expandedEntry === undefined) &&
    draft.prefillRowTile === target.prefillRowTile &&
    draft.splitLength === target.splitLength;
  if (isSame) return undefined;
  if (draft.expandedEntry === undefined) {
    return { splitLength: draft.splitLength, rowTile: draft.prefillRowTile };
  }
  throw new UnsupportedError(
    "speculation.draftModelPath of a model with another latent attention than the target's",
    "its prompts are expanded in a workspace of the target's cut",
    { field: "speculation.draftModelPath" },
  );
}
