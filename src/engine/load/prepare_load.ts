/**
 * What is decided before anything of a model is allocated: its definition, its sizes, where the
 * memory goes, and how kernels run on the adapter.
 *
 * @module
 */
import { orderOf } from "../../../kernels/linear/weights/weight_order.ts";
import type { KvCacheShape } from "../../cache/kv_cache.ts";
import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import type { UploadTarget } from "../../checkpoint/quantization_option.ts";
import { DeviceError, InvalidRequestError, UnsupportedError } from "../../errors.ts";
import { DeviceMemory, type MemoryLimits } from "../../gpu/memory.ts";
import { requireTuning } from "../../gpu/require_tuning.ts";
import { withoutStaged } from "../../gpu/row_forms.ts";
import { attentionTuning, PLAIN_TUNING, type Tuning, tuningFor } from "../../gpu/tuning.ts";
import { MAX_TREE_NODES } from "../../layers/draft_tree.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import type { DraftNetwork } from "../../models/drafts/draft_network.ts";
import {
  kvCacheShape,
  type Model,
  type ModelDefinition,
  type ModelShape,
} from "../../models/model.ts";
import type { CreateOptions } from "../../models/model_options.ts";
import { ONE_RANK } from "../../parallel/communicator.ts";
import type { ExpertLayout } from "../../parallel/experts/expert_layout.ts";
import { layoutOf } from "../../parallel/experts/expert_options.ts";
import { draftRowBytes, requireDrafts } from "../draft_model/draft_limits.ts";
import { openDraft, type PreparedDraft, prepareDraft } from "../draft_model/prepare_draft.ts";
import { type ResolvedOptions, resolveOptions } from "../resolve_options.ts";
import { type BatchLimits, logitRowCount } from "../step/batch_limits.ts";
import { promptsDiffer } from "./class_layout.ts";
import { defineModel } from "./define_model.ts";
import type { LoadOptions } from "./load_options.ts";
import {
  budgetMemory,
  type MemoryBudget,
  type MemoryBudgetOptions,
  visionBytes,
} from "./memory_budget.ts";
import { copiesOfCache, type StartSizes, startSizes } from "./start_sizes.ts";

/** Where a model is laid out. */
type ModelContext = Omit<LayerContext, "formats" | "communicator">;

/** A draft model whose sizes are decided. */
interface PlacedDraft extends Omit<PreparedDraft, "create"> {
  create(context: ModelContext): DraftNetwork;
}

export interface PreparedLoad {
  readonly definition: ModelDefinition;
  readonly device: GPUDevice;
  readonly limits: MemoryLimits;
  readonly options: ResolvedOptions;
  /** How launches over weights are shared out. */
  readonly tuning: Tuning;
  /** Whether prompts run in the form that generated tokens have. */
  readonly oneForm: boolean;
  /** Whether a token has other bits as part of a prompt than as one that was generated. */
  readonly promptsDiffer: boolean;
  /** What plain weights are quantized to on their way to the GPU. */
  readonly uploadTo: UploadTarget | undefined;
  /** The model in a ledger. */
  readonly measured: Model;
  readonly cacheShape: KvCacheShape;
  /** The model that drafts beside it, where one does. */
  readonly draft: PlacedDraft | undefined;
  readonly memoryBudget: MemoryBudget;
  /** What the caller is told of this. */
  readonly startSizes: StartSizes;
  /** How its experts lie on the ranks; absent without experts. */
  readonly expertLayout: ExpertLayout | undefined;
  /** Of the tensors of a step. */
  readonly sizes: BatchLimits;
  /** Lays the model out in memory. */
  create(context: ModelContext): Model;
}

/**
 * Reads no weight and allocates nothing.
 *
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with the checkpoint.
 * @throws {InvalidRequestError} naming an option that is out of range.
 * @throws {DeviceError} with figures when the model does not fit.
 */
export async function prepareLoad(
  checkpoint: Checkpoint,
  given: LoadOptions,
): Promise<PreparedLoad> {
  const found = await read(checkpoint, given);
  const { definition, uploadTo, formats, opened, wanted, maxDrafts } = found;
  const { shape } = definition;

  const device = typeof given.device === "function" ? await given.device(0) : given.device;
  const limits = limitsOf(device, given);
  const tuning = chooseTuning(device, given);
  const counting = new DeviceMemory(limits);
  const { maxTensorBytes } = counting;
  const oneForm = wanted.deterministicInference && shape.promptsDiffer;
  const maxTreeNodes = Math.max(treeNodes(given), wanted.tree?.draftTokens ?? 0);
  const widest = widestOf(shape, opened?.definition.shape, given);
  const options = fitRows(wanted, widest, { oneForm, maxTensorBytes, maxDrafts, maxTreeNodes });

  const modelOptions = modelOptionsOf(found, options, { given, oneForm });
  const layout = orderOf(tuning);
  const ledger = { memory: counting, layout, formats: formats() };
  const measured = measureModel(checkpoint, definition, { ...modelOptions, ...ledger });
  const vision = visionBytes(measured, counting);
  const weightBytes = counting.bytes("weights");
  const draft = opened && prepareDraft(opened, definition, { ...modelOptions, layout }, limits);

  const cacheShape = kvCacheShape(shape, options.cacheDtype, modelOptions.drafts);
  const fitted = { shape, options, oneForm, maxTensorBytes, maxDrafts };
  const counted = { ...widest, weightBytes, cache: cacheShape, draft, vision };
  const memoryBudget = budgetModel(fitted, counted);
  const { sharesReads = false } = tuning.attention ?? attentionTuning(device.adapterInfo);
  const sizes = {
    ...batchLimits(fitted, { memoryBudget, sharesReads, given }),
    maxTreeNodes,
    draftCut: draft?.cut,
  };
  const { contextLength, prefillCapacity } = sizes;
  const bound = { ...modelOptions, contextLength, prefillCapacity };
  const isPlain = given.tuning === undefined && weightBytes < STAGED_WEIGHT_BYTES;
  return {
    definition,
    device,
    limits,
    options,
    oneForm,
    promptsDiffer: promptsDiffer(shape, measured, { ...given, ...wanted, device }),
    uploadTo,
    measured,
    cacheShape,
    draft: draft && {
      ...draft,
      create: (context) => draft.create({ ...bound, ...context }),
    },
    memoryBudget,
    startSizes: startSizes(memoryBudget, {
      given,
      wanted,
      fitted: options,
      cacheCopies: copiesOfCache(definition.facts, given),
    }),
    tuning: isPlain ? withoutStaged(tuning) : tuning,
    sizes,
    create: (context) => definition.create({ ...bound, ...context, formats: formats() }),
    expertLayout: modelOptions.expertLayout,
  };
}

/** What the files of the model, and of one that drafts for it, and the options say. */
async function read(checkpoint: Checkpoint, given: LoadOptions) {
  const { communicator = ONE_RANK } = given;
  const defined = await defineModel(checkpoint, given.quantization, communicator);
  const { definition } = defined;
  const opened = given.draftModel && (await openDraft(given.draftModel));
  const wanted = resolveOptions(given, { ...definition, draft: opened?.definition });
  const { maxDrafts: asked = wanted.draftSteps } = given;
  const maxDrafts = requireDrafts(definition, { maxDrafts: asked, draft: opened });
  return { ...defined, opened, wanted, maxDrafts };
}

/** What the model is created with, but for what a context adds. */
function modelOptionsOf(
  { definition, opened, maxDrafts }: Awaited<ReturnType<typeof read>>,
  options: ResolvedOptions,
  { given, oneForm }: { readonly given: LoadOptions; readonly oneForm: boolean },
) {
  return {
    ...options,
    ...expertContext(definition, given),
    maxDecodeRows: oneForm ? options.maxRows : options.maxGeneratedRows,
    drafts: maxDrafts > 0 && opened === undefined,
    headByGroup: given.headByGroup ?? false,
    wholeDense: given.wholeDenseLayers ?? false,
    twoBatchOverlap: overlapsBatches(given),
  };
}

/** @throws {UnsupportedError} where ranks have nothing to wait for. */
function overlapsBatches({
  twoBatchOverlap = false,
  communicator = ONE_RANK,
}: LoadOptions): boolean {
  if (!twoBatchOverlap) return false;
  if (communicator.size > 1) return true;
  const field = "twoBatchOverlap";
  throw new UnsupportedError(field, "one rank exchanges nothing that it could wait for", { field });
}

/** How the experts of the model lie on its ranks. */
function expertContext(
  { facts: { experts }, shape: { layers } }: ModelDefinition,
  { experts: asked, communicator = ONE_RANK }: LoadOptions,
): Pick<CreateOptions, "expertLayout" | "keepsChoices" | "allToAll"> {
  const keepsChoices = (asked?.recorderMode ?? "stat") !== "stat";
  if (keepsChoices && communicator.attention !== undefined) {
    const field = "experts.recorderMode";
    throw new UnsupportedError(field, "attention groups record stat alone", { field });
  }
  return {
    expertLayout: layoutOf(asked, experts && { ...experts, layers }, communicator),
    allToAll: asked?.allToAll,
    keepsChoices,
  };
}

/** The model in a ledger, whose weights the checkpoint has. */
function measureModel(
  checkpoint: Checkpoint,
  definition: ModelDefinition,
  options: Omit<CreateOptions, "prefillCapacity">,
): Model {
  // Nothing that is counted depends on the capacity.
  const measured = definition.create({ ...options, prefillCapacity: 0 });
  checkpoint.check(measured.specs, { ignored: (name) => measured.ignores(name) });
  return measured;
}

/** Of one buffer and one binding, as the adapter has them or as it is taken to have them. */
function limitsOf(
  { limits }: GPUDevice,
  { maxBindingSize = Number.POSITIVE_INFINITY }: Pick<LoadOptions, "maxBindingSize">,
): MemoryLimits {
  const { maxBufferSize, maxStorageBufferBindingSize } = limits;
  return {
    maxBufferSize,
    maxStorageBufferBindingSize: Math.min(maxStorageBufferBindingSize, maxBindingSize),
  };
}

/**
 * Weights that staged forms are for, unless a caller asks for them: of fewer, launches take longer
 * than what they do, and pipelines longer to compile than prompts to run.
 */
const STAGED_WEIGHT_BYTES = 64 * 2 ** 20;

/** @throws {InvalidRequestError} when the caller's tuning is none that kernels can have. */
function chooseTuning(
  { adapterInfo }: GPUDevice,
  { tunedKernels = true, tuning }: Pick<LoadOptions, "tunedKernels" | "tuning">,
): Tuning {
  const wanted = tuning === undefined ? tuningFor(adapterInfo) : requireTuning(tuning);
  return tunedKernels ? wanted : PLAIN_TUNING;
}

/** What rows take at most in a model and in one that drafts for it. */
function widestOf(
  { maxRowBytes: { row, decodeRow }, hiddenSize, expandedEntry }: ModelShape,
  draft: ModelShape | undefined,
  { communicator = ONE_RANK }: LoadOptions,
): Pick<ModelShape, "maxRowBytes" | "hiddenSize" | "expandedEntry"> {
  // Rows of all attention groups meet.
  const maxRowBytes = { row: row * (communicator.attention?.groups ?? 1), decodeRow };
  if (draft === undefined) return { maxRowBytes, hiddenSize, expandedEntry };
  const own = draft.maxRowBytes;
  return {
    hiddenSize: Math.max(hiddenSize, draft.hiddenSize),
    maxRowBytes: {
      row: Math.max(maxRowBytes.row, own.row),
      decodeRow: (context) => Math.max(maxRowBytes.decodeRow(context), own.decodeRow(context)),
    },
    // Each has a workspace of its own.
    expandedEntry: expandedEntry && {
      bytes: expandedEntry.bytes + (draft.expandedEntry?.bytes ?? 0),
      widest: Math.max(expandedEntry.widest, draft.expandedEntry?.widest ?? 0),
    },
  };
}

/** Takes back rows and sequences until the widest activations fit one binding. */
function fitRows(
  options: ResolvedOptions,
  { maxRowBytes, hiddenSize }: Pick<ModelShape, "maxRowBytes" | "hiddenSize">,
  {
    oneForm,
    maxTensorBytes,
    maxDrafts,
    maxTreeNodes,
  }: Pick<FittedModel, "oneForm" | "maxTensorBytes" | "maxDrafts"> & {
    readonly maxTreeNodes: number;
  },
): ResolvedOptions {
  // Drafts of a tree are made from as many rows of a sequence as it has beams.
  const beams = options.tree?.topk ?? 1;
  const perSequence = Math.max(1 + options.maxDrafts, 1 + maxDrafts, maxTreeNodes, beams);
  const generated = Math.floor(maxTensorBytes / maxRowBytes.decodeRow(options.contextLength));
  const rowBytes = Math.max(maxRowBytes.row, maxDrafts > 0 ? draftRowBytes(hiddenSize) : 0);
  const fits = Math.floor(maxTensorBytes / rowBytes);
  const maxRows = Math.min(options.maxRows, oneForm ? Math.min(fits, generated) : fits);
  const most = Math.floor(Math.min(maxRows, generated) / beams);
  const running = Math.min(options.maxRunningRequests, most);
  const maxGeneratedRows = Math.min(running * perSequence, maxRows, generated);
  if (running < 1) {
    throw new DeviceError(
      `Cannot compute in a context of ${options.contextLength} tokens: this adapter binds ${maxTensorBytes} bytes`,
    );
  }
  return {
    ...options,
    maxRows,
    maxPrefillRows: Math.min(options.maxPrefillRows, maxRows),
    maxRunningRequests: running,
    maxGeneratedRows,
  };
}

/** @throws {InvalidRequestError} when rows cannot say which of so many nodes they see. */
function treeNodes({ maxTreeNodes = 0 }: Pick<LoadOptions, "maxTreeNodes">): number {
  if (Number.isInteger(maxTreeNodes) && maxTreeNodes >= 0 && maxTreeNodes <= MAX_TREE_NODES) {
    return maxTreeNodes;
  }
  throw new InvalidRequestError(
    `maxTreeNodes must be an integer from 0 to ${MAX_TREE_NODES}, got ${maxTreeNodes}`,
    "maxTreeNodes",
  );
}

/** A model as it fits the adapter. */
interface FittedModel {
  readonly shape: ModelShape;
  readonly options: ResolvedOptions;
  readonly oneForm: boolean;
  /** Bytes of one binding. */
  readonly maxTensorBytes: number;
  readonly maxDrafts: number;
}

/** @throws {DeviceError} with figures, when the weights do not fit or leave no room for a page. */
function budgetModel(
  { shape, options, oneForm, maxTensorBytes }: FittedModel,
  counted: Pick<MemoryBudgetOptions, "weightBytes" | "cache" | "draft" | "vision"> &
    Pick<ModelShape, "expandedEntry">,
): MemoryBudget {
  const { maxTotalTokens, maxRunningRequests, contextLength } = options;
  return budgetMemory({
    ...options,
    ...counted,
    workspace: {
      ...options,
      splitLength: shape.splitLength,
      expandedEntry: oneForm ? undefined : counted.expandedEntry,
    },
    wantedTokens: maxTotalTokens ?? maxRunningRequests * contextLength,
    wantedIsGiven: maxTotalTokens !== undefined,
    maxTensorBytes,
  });
}

/** The largest batch that tensors of a step are made for. */
function batchLimits(
  { shape, options, oneForm, maxTensorBytes, maxDrafts }: FittedModel,
  decided: {
    readonly memoryBudget: MemoryBudget;
    /** Whether the adapter shares reads of attention wherever it can. */
    readonly sharesReads: boolean;
    readonly given: Pick<LoadOptions, "maxLogitRows" | "twoBatchOverlap">;
  },
): BatchLimits {
  const { maxRows, pageSize, maxRunningRequests: maxSequences } = options;
  const { maxGeneratedRows: maxSampledRows } = options;
  const { cacheTokens, prefillCapacity } = decided.memoryBudget;
  return {
    shape,
    pageSize,
    contextLength: Math.min(options.contextLength, cacheTokens),
    maxRows,
    maxLogitRows:
      decided.given.maxLogitRows ??
      logitRowCount(shape.vocabularySize, { maxSampledRows, maxRows, maxTensorBytes }),
    maxSampledRows,
    maxSequences,
    maxDrafts,
    tree: options.tree,
    prefillCapacity,
    twoBatchOverlap: decided.given.twoBatchOverlap,
    // Drafts are rows of their sequence's newest token: they pay for a pipeline of their own.
    sharesReads: oneForm || decided.sharesReads || Math.max(options.maxDrafts, maxDrafts) > 0,
  };
}
