/**
 * From an opened checkpoint to a model that can run.
 *
 * | phase | what is done |
 * |---|---|
 * | `prepareLoad` | everything is decided: definition, sizes, memory |
 * | `agreeOnSizes` | ranks find that they load the same |
 * | `tryAdapter` | the self-test runs; how the adapter multiplies is decided |
 * | `allocate` | the model, its cache and its plan are on the device, empty |
 * | `readWeights` | weights are streamed to their places, while the driver compiles |
 * | `openCodec` | pages can be carried to the host, where an option asks for it |
 * | `compilePipelines` | every pipeline has been launched once |
 * | `tryModel` | the model shows that it is batch invariant |
 *
 * @module
 */
import type { LinearLayout } from "../../../kernels/linear/linear_layout.ts";
import type { SelfTestReport } from "../../../kernels/self_test.ts";
import { EntryMover } from "../../cache/entry_mover.ts";
import { KvCache, type KvCacheShape } from "../../cache/kv_cache.ts";
import type { PageCodec } from "../../cache/page_codec.ts";
import { PageCopier } from "../../cache/page_copier.ts";
import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { modelHash } from "../../checkpoint/model_hash.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import { DeviceError } from "../../errors.ts";
import type { EngineStatus } from "../../generation.ts";
import { adapterName, allocating, lossOf } from "../../gpu/device.ts";
import { DeviceMemory } from "../../gpu/memory.ts";
import type { CompiledPipeline } from "../../gpu/pipeline_cache.ts";
import { Recorder } from "../../gpu/recorder.ts";
import { MAX_TREE_DEPTH } from "../../layers/draft_tree.ts";
import type { Unshared } from "../../layers/ranks/unshared.ts";
import {
  type QuantizationError,
  QuantizingUpload,
} from "../../layers/weights/quantizing_upload.ts";
import { RepackingUpload } from "../../layers/weights/repacking_upload.ts";
import { StagedUpload } from "../../layers/weights/staged_upload.ts";
import type { Model, ModelDefinition } from "../../models/model.ts";
import { VisionRunner } from "../../models/vision/vision_runner.ts";
import { agree } from "../../parallel/agree.ts";
import { type Communicator, ONE_RANK } from "../../parallel/communicator.ts";
import type { ExpertLayout } from "../../parallel/experts/expert_layout.ts";
import { type DraftPages, openDraftPages } from "../draft_model/draft_pages.ts";
import { agreeOnSizes } from "../ranks/agree_on_sizes.ts";
import type { ResolvedOptions } from "../resolve_options.ts";
import { coinThresholds } from "../resolve_speculation.ts";
import type { StepDraftModel } from "../step/compile_step.ts";
import { ModelRunner } from "../step/model_runner.ts";
import { movesPages, openCodec } from "./carriers.ts";
import { matricesOf } from "./class_layout.ts";
import { invarianceFailures } from "./invariance.ts";
import type { LoadOptions } from "./load_options.ts";
import { type MemoryBudget, megabytes } from "./memory_budget.ts";
import { type PreparedLoad, prepareLoad } from "./prepare_load.ts";
import { requirePromise, testAdapter } from "./test_adapter.ts";

export interface LoadedModel {
  readonly device: GPUDevice;
  readonly definition: ModelDefinition;
  readonly options: ResolvedOptions;
  /** Whether a token has other bits as part of a prompt than as one that was generated. */
  readonly promptsDiffer: boolean;
  /** Operands and sizes of the matrices of class mma128; absent without them. */
  readonly matrices: string | undefined;
  readonly memoryBudget: MemoryBudget;
  readonly runner: ModelRunner;
  /** Makes rows of pictures; absent where the model sees none. */
  readonly vision: VisionRunner | undefined;
  /** What every rank of several holds and computes whole. */
  readonly unshared: readonly Unshared[];
  /** How experts lie on the ranks; absent in models without experts. */
  readonly expertLayout: ExpertLayout | undefined;
  /** Of the checkpoint; absent where nothing has to be told from another. */
  readonly hash: string | undefined;
  /** Carries pages to host memory; absent where no option asks for it. */
  readonly codec: PageCodec | undefined;
  /** Carries what a draft model has of a page; absent without one, or where `codec` is. */
  readonly draftPages: DraftPages | undefined;
  /** Copies pages that requests share in part; absent where they share nothing. */
  readonly copier: PageCopier | undefined;
  /** Moves entries of accepted paths together; absent where batches have no trees. */
  readonly mover: EntryMover | undefined;
  /** What the start-up self-test found on this adapter. */
  readonly selfTest: SelfTestReport;
  /** The part of the engine's status that never changes. */
  readonly figures: Pick<
    EngineStatus,
    | "maxRunningRequests"
    | "weightBytes"
    | "cacheBytes"
    | "ranks"
    | "batchInvariant"
    | "numericClasses"
  >;
  /** How far each matrix that was quantized while it was uploaded is from its numbers. */
  readonly quantizationErrors: readonly QuantizationError[];
  /** What was compiled, and how long each took. */
  readonly pipelines: readonly CompiledPipeline[];
  destroy(): void;
}

/**
 * Checks everything that can be checked before the device is touched, then loads.
 *
 * @throws {GroupError} when another rank fails, or loads with other options.
 */
export async function loadModel(checkpoint: Checkpoint, given: LoadOptions): Promise<LoadedModel> {
  const { communicator = ONE_RANK } = given;
  try {
    return await load(checkpoint, given, communicator);
  } catch (error) {
    communicator.abort(`it could not load the model: ${(error as Error).message}`);
    throw error;
  }
}

/** What the phases of a load share. */
interface Loading {
  readonly checkpoint: Checkpoint;
  readonly given: LoadOptions;
  readonly communicator: Communicator;
  readonly prepared: PreparedLoad;
  readonly recorder: Recorder;
  readonly memory: DeviceMemory;
  /** What goes with the model, or when the load fails. */
  readonly owned: { destroy(): void }[];
}

async function load(
  checkpoint: Checkpoint,
  given: LoadOptions,
  communicator: Communicator,
): Promise<LoadedModel> {
  const prepared = await prepareLoad(checkpoint, given);
  await agreeOnSizes(communicator, prepared, given);
  given.onPlan?.(prepared.startSizes);
  const { device, limits } = prepared;
  const recorder = new Recorder(device);
  const memory = new DeviceMemory(limits, device);
  const owned: Loading["owned"] = [recorder, memory];
  const destroy = () => {
    communicator.abort("its model is not loaded any more");
    for (const one of owned) one.destroy();
  };
  try {
    const loading = { checkpoint, given, communicator, prepared, recorder, memory, owned };
    return { ...(await loadPrepared(loading)), destroy };
  } catch (error) {
    destroy();
    const loss = await lossOf(device);
    if (loss === undefined) throw error;
    const cause = { cause: error };
    throw new DeviceError(`Cannot load the model: the device is lost (${loss.message})`, cause);
  }
}

/** Every phase that touches the device, in order. */
async function loadPrepared(loading: Loading): Promise<Omit<LoadedModel, "destroy">> {
  const { device, definition, options, promptsDiffer, memoryBudget } = loading.prepared;
  const { report, layout, matrices } = await tryAdapter(loading);
  const uploads = openUploads(loading, layout);
  const allocated = await allocate(loading, layout, uploads);
  const { model, runner, copier, mover, draft } = allocated;
  // Meanwhile the driver compiles what was bound.
  const quantizationErrors = await readWeights(loading, { model, draft }, uploads);
  const hash = await hashIfNeeded(loading);
  const [codec, draftPages] = await allocating(device, "memory to move pages in", () => [
    openCodec(loading, { ...allocated, matrices, hash }),
    draft && movesPages(loading.prepared)
      ? openDraftPages(loading, { cache: draft.cache, hash: hash! })
      : undefined,
  ]);
  const pipelines = await compilePipelines(loading);
  const selfTest = await tryModel(loading, { model, runner, report });
  return {
    device,
    definition,
    options,
    promptsDiffer,
    matrices,
    memoryBudget,
    runner,
    vision: allocated.vision,
    unshared: model.unshared,
    expertLayout: loading.prepared.expertLayout,
    hash,
    codec,
    draftPages,
    copier,
    mover,
    selfTest,
    figures: {
      maxRunningRequests: options.maxRunningRequests,
      weightBytes: memoryBudget.weightBytes,
      cacheBytes: memoryBudget.cacheBytes,
      batchInvariant: selfTest.batchInvariant,
      numericClasses: model.numericClasses,
    },
    quantizationErrors,
    pipelines,
  };
}

/** What the adapter's self-test found, and how the adapter is to multiply. */
async function tryAdapter({ prepared, given, recorder, communicator }: Loading) {
  const { report, layout } = await testAdapter(prepared, { ...given, recorder });
  const matrices = matricesOf(layout);
  // How an adapter adds products up is its own affair, and what every rank has whole must be the same.
  const adapter = matrices === undefined ? "any" : adapterName(prepared.device);
  await agree(communicator, "what they multiply by", { matrices: matrices ?? "none", adapter });
  return { report, layout, matrices };
}

interface Uploads {
  readonly staged: StagedUpload;
  readonly quantizing: QuantizingUpload | undefined;
  readonly repacking: RepackingUpload;
}

/** The ways of weights to the GPU that pass through a kernel. */
function openUploads({ prepared, owned }: Loading, layout: LinearLayout): Uploads {
  const staged = new StagedUpload(prepared.device);
  const quantizing = prepared.uploadTo && new QuantizingUpload(staged);
  const repacking = new RepackingUpload(staged, layout.tuning?.repacks === true);
  owned.push(staged);
  if (quantizing !== undefined) owned.push(quantizing);
  return { staged, quantizing, repacking };
}

/** Everything that the model has on the device, empty. */
async function allocate(loading: Loading, layout: LinearLayout, uploads: Uploads) {
  const { prepared, recorder, memory, communicator, owned } = loading;
  const { device, options, oneForm, memoryBudget } = prepared;
  const weights = `${megabytes(memoryBudget.weightBytes)} of weights`;
  const [model, network] = await allocating(device, weights, () => {
    const context = { memory, layout, uploads };
    return [prepared.create(context), prepared.draft?.create(context)];
  });
  const rest = `${megabytes(memoryBudget.cacheBytes)} of KV cache, and activations`;
  return allocating(device, rest, () => {
    const cacheOf = (shape: KvCacheShape) => {
      const cache = new KvCache(device, shape, memoryBudget.cacheTokens);
      owned.push(cache);
      return cache;
    };
    const cache = cacheOf(prepared.cacheShape);
    const draft = network && { network, cache: cacheOf(prepared.draft!.cacheShape) };
    const { prefixCache, pageSize } = options;
    const caches = [cache, ...(draft ? [draft.cache] : [])];
    const copier = prefixCache ? new PageCopier(device, caches, pageSize) : undefined;
    if (copier !== undefined) owned.push(copier);
    const runner = new ModelRunner({
      ...prepared.sizes,
      recorder,
      memory,
      model,
      cache,
      draft,
      oneForm,
      communicator,
      // What other groups bring changes from step to step.
      buckets: communicator.attention === undefined ? options.decodeBuckets : [],
      thresholds: coinThresholds(options),
    });
    owned.push(runner);
    const vision = model.vision && new VisionRunner(model.vision, recorder);
    if (vision !== undefined) owned.push(vision);
    return { model, runner, vision, cache, draft, copier, mover: openMover(loading, cache) };
  });
}

function openMover({ prepared, recorder, memory }: Loading, cache: KvCache) {
  const { pageSize, maxSequences, maxTreeNodes = 0, tree } = prepared.sizes;
  // Steps that draft trees move entries themselves.
  if (maxTreeNodes === 0 || tree !== undefined) return undefined;
  const maxMoves = maxSequences * MAX_TREE_DEPTH;
  return new EntryMover(recorder, { memory, cache }, { pageSize, maxSequences, maxMoves });
}

/** Streams the weights to their places; how far those are off that were quantized on the way. */
async function readWeights(
  { checkpoint, given, prepared }: Loading,
  { model, draft }: { readonly model: Model; readonly draft: StepDraftModel | undefined },
  { quantizing, staged }: Uploads,
): Promise<readonly QuantizationError[]> {
  const read = (from: Checkpoint, specs: readonly WeightSpec[]) =>
    from.load(specs, {
      ...(given.signal && { signal: given.signal }),
      onProgress: ({ loadedBytes, totalBytes }) =>
        given.onProgress?.({ phase: "weights", done: loadedBytes, total: totalBytes }),
    });
  if (draft !== undefined) await read(prepared.draft!.checkpoint, draft.network.specs);
  await read(checkpoint, model.specs);
  const errors = (await quantizing?.report()) ?? [];
  quantizing?.destroy();
  staged.destroy();
  return errors;
}

/** Where the model, or what it has computed, may have to be told from another's. */
async function hashIfNeeded({ checkpoint, given, prepared }: Loading): Promise<string | undefined> {
  const mayBeReadAgain = typeof given.device === "function";
  return movesPages(prepared) || mayBeReadAgain ? modelHash(checkpoint) : undefined;
}

/** Waits for what the driver compiles, and launches each pipeline once. */
function compilePipelines({ recorder, given }: Loading): Promise<readonly CompiledPipeline[]> {
  return recorder.pipelines.launchAll((done, total) =>
    given.onProgress?.({ phase: "pipelines", done, total }),
  );
}

/**
 * The adapter's report with what the model itself has shown.
 *
 * @throws {DeviceError} when an option promises what the adapter does not keep.
 */
async function tryModel(
  { prepared, given }: Loading,
  made: {
    readonly model: Model;
    readonly runner: ModelRunner;
    readonly report: SelfTestReport;
  },
): Promise<SelfTestReport> {
  const { model, runner, report } = made;
  const { triesInvariance = true } = given;
  const dtypes = [...model.weightFormats.keys()];
  const trial = { ...prepared, runner, dtypes, findsBest: model.findsBest };
  const unequal = triesInvariance ? await invarianceFailures(trial) : [];
  const selfTest = withFailures(report, unequal);
  requirePromise(prepared.options, selfTest);
  return selfTest;
}

function withFailures(report: SelfTestReport, unequal: readonly string[]): SelfTestReport {
  if (unequal.length === 0) return report;
  return { ...report, batchInvariant: false, failures: [...report.failures, ...unequal] };
}
