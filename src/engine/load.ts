/**
 * From an opened checkpoint to a model that can run: weights, plan, pipelines.
 *
 * @module
 */
import type { SelfTestReport } from "../../kernels/self_test.ts";
import { KvCache } from "../cache/kv_cache.ts";
import { PageCodec } from "../cache/page_codec.ts";
import { PageCopier } from "../cache/page_copier.ts";
import type { Checkpoint } from "../checkpoint/checkpoint.ts";
import { modelHash } from "../checkpoint/model_hash.ts";
import { DeviceError } from "../errors.ts";
import type { EngineStatus } from "../generation.ts";
import { adapterName, allocating, lossOf } from "../gpu/device.ts";
import { DeviceMemory } from "../gpu/memory.ts";
import type { CompiledPipeline } from "../gpu/pipeline_cache.ts";
import { Recorder } from "../gpu/recorder.ts";
import { type QuantizationError, QuantizingUpload } from "../layers/quantizing_upload.ts";
import { RepackingUpload } from "../layers/repacking_upload.ts";
import { StagedUpload } from "../layers/staged_upload.ts";
import type { ModelDefinition } from "../models/model.ts";
import { agree } from "../parallel/agree.ts";
import { type Communicator, ONE_RANK } from "../parallel/communicator.ts";
import type { ResolvedOptions } from "./engine_options.ts";
import { invarianceFailures } from "./invariance.ts";
import { type LoadOptions, planLoad, requirePromise, testAdapter } from "./load_plan.ts";
import { type MemoryPlan, megabytes } from "./memory_plan.ts";
import { ModelRunner } from "./model_runner.ts";
import { matricesOf } from "./numeric_class.ts";

export type { LoadOptions };

export interface LoadedModel {
  readonly device: GPUDevice;
  readonly definition: ModelDefinition;
  readonly options: ResolvedOptions;
  /** Whether a token has other bits as part of a prompt than as one that was generated. */
  readonly promptsDiffer: boolean;
  /** Operands and sizes of the matrices of class mma128; absent without them. */
  readonly matrices: string | undefined;
  readonly memoryPlan: MemoryPlan;
  readonly runner: ModelRunner;
  /** Of the checkpoint; absent where nothing has to be told from another. */
  readonly hash: string | undefined;
  /** Carries pages to host memory; absent where no option asks for it. */
  readonly codec: PageCodec | undefined;
  /** Copies pages that requests share in part; absent where they share nothing. */
  readonly copier: PageCopier | undefined;
  /** What the start-up self-test found on this adapter. */
  readonly selfTest: SelfTestReport;
  /** The part of the engine's status that never changes. */
  readonly figures: Pick<
    EngineStatus,
    "maxRunningRequests" | "weightBytes" | "cacheBytes" | "batchInvariant" | "numericClasses"
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
 * @throws {UnsupportedError} naming the tensor that so many ranks cannot share.
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

async function load(
  checkpoint: Checkpoint,
  given: LoadOptions,
  communicator: Communicator,
): Promise<LoadedModel> {
  const plan = await planLoad(checkpoint, given);
  const { definition, device, limits, options, oneForm, uploadTo, memoryPlan } = plan;
  const { promptsDiffer } = plan;
  await agree(communicator, "what they load", {
    architecture: definition.architecture,
    quantization: given.quantization ?? "as published",
    contextLength: options.contextLength,
    cacheTokens: memoryPlan.cacheTokens,
    cacheDtype: options.cacheDtype,
    pageSize: options.pageSize,
    maxRowsPerStep: options.maxRows,
    maxRunningRequests: options.maxRunningRequests,
    decodeBuckets: options.decodeBuckets.join(),
    quantizeActivations: options.quantizeActivations,
    numericClass: given.numericClass ?? "auto",
    oneForm,
  });

  given.onPlan?.(plan.startPlan);
  const recorder = new Recorder(device);
  const memory = new DeviceMemory(limits, device);
  const owned: { destroy(): void }[] = [recorder, memory];
  const destroy = () => {
    communicator.abort("its model is not loaded any more");
    for (const one of owned) one.destroy();
  };
  try {
    const { report, layout } = await testAdapter(plan, { ...given, recorder });
    const matrices = matricesOf(layout);
    if (matrices !== undefined) {
      // How an adapter adds products up is its own affair, and what every rank has whole must be the same.
      const adapter = adapterName(device);
      await agree(communicator, "what they multiply by", { matrices, adapter });
    }
    const weights = `${megabytes(memoryPlan.weightBytes)} of weights`;
    const staged = new StagedUpload(device);
    const quantizing = uploadTo && new QuantizingUpload(staged);
    const repacking = new RepackingUpload(staged, layout.tuning?.repacks === true);
    const uploads = { quantizing, repacking };
    owned.push(staged);
    if (quantizing !== undefined) owned.push(quantizing);
    const model = await allocating(device, weights, () => plan.create({ memory, layout, uploads }));
    const { runner, cache, copier } = await allocating(
      device,
      `${megabytes(memoryPlan.cacheBytes)} of KV cache, and activations`,
      () => {
        const cache = new KvCache(device, plan.cacheShape, memoryPlan.cacheTokens);
        owned.push(cache);
        const { prefixCache, pageSize } = options;
        const copier = prefixCache ? new PageCopier(device, cache, pageSize) : undefined;
        if (copier !== undefined) owned.push(copier);
        const runner = new ModelRunner({
          ...plan.sizes,
          ...{ recorder, memory, model, cache, oneForm, communicator },
          buckets: options.decodeBuckets,
        });
        owned.push(runner);
        return { runner, cache, copier };
      },
    );
    // Meanwhile the driver compiles what was bound.
    await checkpoint.load(model.specs, {
      ...(given.signal && { signal: given.signal }),
      onProgress: ({ loadedBytes, totalBytes }) =>
        given.onProgress?.({ phase: "weights", done: loadedBytes, total: totalBytes }),
    });
    const quantizationErrors = (await quantizing?.report()) ?? [];
    quantizing?.destroy();
    staged.destroy();
    const movesPages = options.retractionMemory > 0 || options.prefixStore !== undefined;
    const mayBeReadAgain = typeof given.device === "function";
    const hash = movesPages || mayBeReadAgain ? await modelHash(checkpoint) : undefined;
    let codec: PageCodec | undefined;
    if (movesPages) {
      const { pageSize, quantizeActivations } = options;
      codec = new PageCodec(device, {
        cache,
        pageSize,
        modelHash: hash!,
        numerics: JSON.stringify({
          ...{ classes: model.numericClasses, matrices, uploadTo, quantizeActivations, oneForm },
          // Each rank has pages of its own heads.
          ...(communicator.size > 1 && { rank: communicator.rank, ranks: communicator.size }),
        }),
      });
      owned.push(codec);
    }
    const pipelines = await recorder.pipelines.launchAll((done, total) =>
      given.onProgress?.({ phase: "pipelines", done, total }),
    );
    const { triesInvariance = true } = given;
    const dtypes = [...model.weightFormats.keys()];
    const trial = { ...plan, runner, dtypes, findsBest: model.findsBest };
    const unequal = triesInvariance ? await invarianceFailures(trial) : [];
    const selfTest = withFailures(report, unequal);
    requirePromise(options, selfTest);
    const { weightBytes, cacheBytes } = memoryPlan;
    const figures: LoadedModel["figures"] = {
      maxRunningRequests: options.maxRunningRequests,
      weightBytes,
      cacheBytes,
      batchInvariant: selfTest.batchInvariant,
      numericClasses: model.numericClasses,
    };
    const planned = { device, definition, options, promptsDiffer, memoryPlan, figures };
    const loaded = { ...planned, matrices, runner, hash, codec, copier, destroy };
    return { ...loaded, selfTest, quantizationErrors, pipelines };
  } catch (error) {
    destroy();
    const loss = await lossOf(device);
    if (loss === undefined) throw error;
    const cause = { cause: error };
    throw new DeviceError(`Cannot load the model: the device is lost (${loss.message})`, cause);
  }
}

/** The report with what the model itself has shown. */
function withFailures(report: SelfTestReport, unequal: readonly string[]): SelfTestReport {
  if (unequal.length === 0) return report;
  return { ...report, batchInvariant: false, failures: [...report.failures, ...unequal] };
}
