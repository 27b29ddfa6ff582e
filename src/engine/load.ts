/**
 * From an opened checkpoint to a model that can run: config, memory plan, weights, plan, pipelines.
 *
 * @module
 */
import { DEFAULT_LAYOUT, layoutFor } from "../../kernels/linear/layout.ts";
import { type SelfTestReport, selfTest } from "../../kernels/self_test.ts";
import { KvCache } from "../cache/kv_cache.ts";
import { PageCodec } from "../cache/page_codec.ts";
import { PageCopier } from "../cache/page_copier.ts";
import type { Checkpoint } from "../checkpoint/checkpoint.ts";
import { modelHash } from "../checkpoint/model_hash.ts";
import { DeviceError, InvalidRequestError } from "../errors.ts";
import type { EngineStatus } from "../generation.ts";
import { allocating } from "../gpu/device.ts";
import { DeviceMemory } from "../gpu/memory.ts";
import type { CompiledPipeline } from "../gpu/pipeline_cache.ts";
import { Recorder } from "../gpu/recorder.ts";
import type { LayerContext } from "../layers/layer_context.ts";
import { type QuantizationError, QuantizingUpload } from "../layers/quantizing_upload.ts";
import {
  type CreateOptions,
  kvCacheShape,
  type ModelDefinition,
  type ModelShape,
} from "../models/model.ts";
import { agree } from "../parallel/agree.ts";
import { type Communicator, ONE_RANK } from "../parallel/communicator.ts";
import { defineModel } from "./define_model.ts";
import { type EngineOptions, type ResolvedOptions, resolveOptions } from "./engine_options.ts";
import { type MemoryPlan, megabytes, planMemory } from "./memory_plan.ts";
import { logitRowCount, ModelRunner } from "./model_runner.ts";

export interface LoadedModel {
  readonly device: GPUDevice;
  readonly definition: ModelDefinition;
  readonly options: ResolvedOptions;
  readonly memoryPlan: MemoryPlan;
  readonly runner: ModelRunner;
  /** Carries pages to host memory; absent where no option asks for it. */
  readonly codec: PageCodec | undefined;
  /** Copies pages that requests share in part; absent where they share nothing. */
  readonly copier: PageCopier | undefined;
  /** What the start-up self-test found on this adapter. */
  readonly selfTest: SelfTestReport;
  /** The part of the engine's status that never changes. */
  readonly figures: Pick<
    EngineStatus,
    "weightBytes" | "cacheBytes" | "batchInvariant" | "numericClasses"
  >;
  /** How far each matrix that was quantized while it was uploaded is from its numbers. */
  readonly quantizationErrors: readonly QuantizationError[];
  /** What was compiled, and how long each took. */
  readonly pipelines: readonly CompiledPipeline[];
  destroy(): void;
}

/** The arithmetic of every linear: f32 products and sums, folded after every 128 of the sum. */
const NUMERIC_CLASS = "fma128";

export interface LoadOptions extends EngineOptions {
  /** Rows of a batch whose logits may be wanted. Default `logitRowCount`. */
  readonly maxLogitRows?: number;
  /** Takes the adapter to bind less at once than it does; tests split small tensors with it. */
  readonly maxBindingSize?: number;
  /**
   * The ranks that share the model: each loads its part, and all run the same batches. A rank that
   * fails, or whose model is destroyed, leaves the group. Default: one rank.
   */
  readonly communicator?: Communicator;
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
  const defined = await defineModel(checkpoint, given.quantization, communicator);
  const { definition, uploadTo, formats } = defined;
  const { shape } = definition;
  const wanted = resolveOptions(given, shape.contextLength);

  const device = typeof given.device === "function" ? await given.device() : given.device;
  const { maxBufferSize, maxStorageBufferBindingSize } = device.limits;
  const limits = {
    maxBufferSize,
    maxStorageBufferBindingSize: Math.min(
      maxStorageBufferBindingSize,
      given.maxBindingSize ?? Number.POSITIVE_INFINITY,
    ),
  };
  const counting = new DeviceMemory(limits);
  const oneForm = wanted.deterministicInference && shape.promptsDiffer;
  const options = fitRows(wanted, shape, { oneForm, maxTensorBytes: counting.maxTensorBytes });
  const modelOptions = (
    context: Omit<LayerContext, "formats" | "communicator">,
  ): CreateOptions => ({
    ...options,
    ...context,
    formats: formats(),
    prefillCapacity: 0, // nothing that is counted depends on it
    maxDecodeRows: oneForm ? options.maxRows : options.maxRunningRequests,
  });
  const measured = definition.create(modelOptions({ memory: counting, layout: DEFAULT_LAYOUT }));
  checkpoint.check(measured.specs, { ignored: (name) => measured.ignores(name) });
  const cacheShape = kvCacheShape(shape, options.cacheDtype);
  const memoryPlan = planMemory({
    ...options,
    weightBytes: counting.bytes("weights"),
    workspace: {
      ...options,
      splitLength: shape.splitLength,
      expandedEntry: oneForm ? undefined : shape.expandedEntry,
    },
    cache: cacheShape,
    wantedTokens: options.maxTotalTokens ?? options.maxRunningRequests * options.contextLength,
    wantedIsGiven: options.maxTotalTokens !== undefined,
    maxTensorBytes: counting.maxTensorBytes,
  });

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
    oneForm,
  });

  given.onPlan?.(memoryPlan);
  const recorder = new Recorder(device);
  const memory = new DeviceMemory(limits, device);
  const owned: { destroy(): void }[] = [recorder, memory];
  const destroy = () => {
    communicator.abort("its model is not loaded any more");
    for (const one of owned) one.destroy();
  };
  try {
    const { weightFormats } = measured;
    const groupColumns = weightFormats.get("int4")?.groupColumns;
    const report = await selfTest(device, {
      recorder,
      dtypes: [...weightFormats.keys()],
      layout: given.tunedKernels === false ? DEFAULT_LAYOUT : layoutFor(device),
      ...(groupColumns !== undefined && { groupColumns }),
    });
    if (options.deterministicInference && !report.batchInvariant) {
      throw new DeviceError(
        `Cannot promise deterministic inference on this adapter: ${report.failures.join("; ")}`,
      );
    }
    const { fp8Decode, subgroupSize } = report;
    const layout = {
      ...DEFAULT_LAYOUT,
      fp8Decode,
      ...(subgroupSize !== undefined && { subgroupSize }),
    };
    const contextLength = Math.min(options.contextLength, memoryPlan.cacheTokens);
    const { prefillCapacity } = memoryPlan;
    const weights = `${megabytes(memoryPlan.weightBytes)} of weights`;
    const upload = uploadTo && new QuantizingUpload(device);
    if (upload !== undefined) owned.push(upload);
    const model = await allocating(device, weights, () =>
      definition.create({
        ...modelOptions({ memory, layout, upload }),
        contextLength,
        prefillCapacity,
      }),
    );
    await checkpoint.load(model.specs, {
      onProgress: ({ loadedBytes, totalBytes }) =>
        given.onProgress?.({ phase: "weights", done: loadedBytes, total: totalBytes }),
    });
    const quantizationErrors = (await upload?.report()) ?? [];
    upload?.destroy();
    const { runner, cache, copier } = await allocating(
      device,
      `${megabytes(memoryPlan.cacheBytes)} of KV cache, and activations`,
      () => {
        const cache = new KvCache(device, cacheShape, memoryPlan.cacheTokens);
        owned.push(cache);
        const { prefixCache, pageSize } = options;
        const copier = prefixCache ? new PageCopier(device, cache, pageSize) : undefined;
        if (copier !== undefined) owned.push(copier);
        const runner = new ModelRunner({
          recorder,
          memory,
          model,
          shape,
          cache,
          pageSize,
          contextLength,
          maxRows: options.maxRows,
          maxLogitRows:
            given.maxLogitRows ??
            logitRowCount(shape.vocabularySize, {
              maxSequences: options.maxRunningRequests,
              maxRows: options.maxRows,
              maxTensorBytes: memory.maxTensorBytes,
            }),
          maxSequences: options.maxRunningRequests,
          prefillCapacity,
          oneForm,
          buckets: options.decodeBuckets,
          communicator,
        });
        owned.push(runner);
        return { runner, cache, copier };
      },
    );
    let codec: PageCodec | undefined;
    if (options.retractionMemory > 0) {
      const { pageSize, quantizeActivations } = options;
      codec = new PageCodec(device, {
        cache,
        pageSize,
        modelHash: await modelHash(checkpoint),
        numerics: JSON.stringify({
          ...{ class: NUMERIC_CLASS, uploadTo, quantizeActivations, oneForm },
          // Each rank has pages of its own heads.
          ...(communicator.size > 1 && { rank: communicator.rank, ranks: communicator.size }),
        }),
      });
      owned.push(codec);
    }
    const pipelines = await recorder.pipelines.launchAll((done, total) =>
      given.onProgress?.({ phase: "pipelines", done, total }),
    );
    const { weightBytes, cacheBytes } = memoryPlan;
    const figures: LoadedModel["figures"] = {
      weightBytes,
      cacheBytes,
      batchInvariant: report.batchInvariant,
      numericClasses: { prefill: NUMERIC_CLASS, decode: NUMERIC_CLASS },
    };
    const planned = { device, definition, options, memoryPlan, figures };
    const loaded = { ...planned, runner, codec, copier, destroy };
    return { ...loaded, selfTest: report, quantizationErrors, pipelines };
  } catch (error) {
    destroy();
    throw error;
  }
}

/** Takes back rows and sequences until the widest activations fit one binding. */
function fitRows(
  options: ResolvedOptions,
  { maxRowBytes }: Pick<ModelShape, "maxRowBytes">,
  { oneForm, maxTensorBytes }: { readonly oneForm: boolean; readonly maxTensorBytes: number },
): ResolvedOptions {
  const generated = Math.floor(maxTensorBytes / maxRowBytes.decodeRow(options.contextLength));
  const fits = Math.floor(maxTensorBytes / maxRowBytes.row);
  const maxRows = Math.min(options.maxRows, oneForm ? Math.min(fits, generated) : fits);
  const running = Math.min(options.maxRunningRequests, maxRows, generated);
  if (running < 1 || (options.maxRunningIsGiven && running < options.maxRunningRequests)) {
    throw new InvalidRequestError(
      `maxRunningRequests ${options.maxRunningRequests} is too many: with a context of ` +
        `${options.contextLength} tokens this adapter's bindings of ${maxTensorBytes} bytes hold ${running}`,
      "maxRunningRequests",
    );
  }
  return {
    ...options,
    maxRows,
    maxPrefillRows: Math.min(options.maxPrefillRows, maxRows),
    maxRunningRequests: running,
  };
}
