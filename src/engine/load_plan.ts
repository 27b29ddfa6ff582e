/**
 * What is decided before anything of a model is allocated: its definition, its sizes, where the
 * memory goes, and how kernels run on the adapter.
 *
 * @module
 */
import { DEFAULT_LAYOUT, type LinearLayout, layoutFor } from "../../kernels/linear/layout.ts";
import { orderOf } from "../../kernels/linear/weight_order.ts";
import { type SelfTestReport, selfTest } from "../../kernels/self_test.ts";
import type { KvCacheShape } from "../cache/kv_cache.ts";
import type { Checkpoint } from "../checkpoint/checkpoint.ts";
import type { UploadTarget } from "../checkpoint/quantization_option.ts";
import { DeviceError } from "../errors.ts";
import { DeviceMemory, type MemoryLimits } from "../gpu/memory.ts";
import type { Recorder } from "../gpu/recorder.ts";
import { requireTuning } from "../gpu/require_tuning.ts";
import {
  attentionTuning,
  PLAIN_TUNING,
  type Tuning,
  tuningFor,
  withoutStaged,
} from "../gpu/tuning.ts";
import type { LayerContext } from "../layers/layer_context.ts";
import {
  kvCacheShape,
  type Model,
  type ModelDefinition,
  type ModelShape,
} from "../models/model.ts";
import { type Communicator, ONE_RANK } from "../parallel/communicator.ts";
import { defineModel } from "./define_model.ts";
import { type EngineOptions, type ResolvedOptions, resolveOptions } from "./engine_options.ts";
import { type MemoryPlan, planMemory } from "./memory_plan.ts";
import { classLayout, matrixLayout } from "./numeric_class.ts";
import { type StartPlan, stepLimit } from "./step_limit.ts";
import { logitRowCount, type StepSizes } from "./step_plan.ts";

export interface LoadOptions extends EngineOptions {
  /** Rows of a batch whose logits may be wanted. Default `logitRowCount`. */
  readonly maxLogitRows?: number;
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
  /** Ends the reading of weights; the load then rejects with its reason. */
  readonly signal?: AbortSignal;
}

export interface LoadPlan {
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
  readonly memoryPlan: MemoryPlan;
  /** What the caller is told of this. */
  readonly startPlan: StartPlan;
  /** Of the tensors of a step. */
  readonly sizes: StepSizes;
  /** Lays the model out in memory. */
  create(context: Omit<LayerContext, "formats" | "communicator">): Model;
}

/**
 * Reads no weight and allocates nothing.
 *
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with the checkpoint.
 * @throws {InvalidRequestError} naming an option that is out of range.
 * @throws {DeviceError} with figures when the model does not fit.
 */
export async function planLoad(checkpoint: Checkpoint, given: LoadOptions): Promise<LoadPlan> {
  const { communicator = ONE_RANK } = given;
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
  const tuning = chooseTuning(device, given);
  const counting = new DeviceMemory(limits);
  const { maxTensorBytes } = counting;
  const { deterministicInference } = wanted;
  const oneForm = deterministicInference && shape.promptsDiffer;
  const classesDiffer = given.numericClass === "mma128";
  const promptsDiffer = !deterministicInference && (shape.promptsDiffer || classesDiffer);
  const options = fitRows(wanted, shape, { oneForm, maxTensorBytes });
  const { maxRows, pageSize, maxRunningRequests: maxSequences } = options;
  const modelOptions = {
    ...options,
    prefillCapacity: 0, // nothing that is counted depends on it
    maxDecodeRows: oneForm ? maxRows : maxSequences,
  };
  const ledger = { memory: counting, layout: orderOf(tuning), formats: formats() };
  const measured = definition.create({ ...modelOptions, ...ledger });
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
    wantedTokens: options.maxTotalTokens ?? maxSequences * options.contextLength,
    wantedIsGiven: options.maxTotalTokens !== undefined,
    maxTensorBytes,
  });
  const attention = tuning.attention ?? attentionTuning(device.adapterInfo);
  const isSmall = counting.bytes("weights") < STAGED_WEIGHT_BYTES;
  const contextLength = Math.min(options.contextLength, memoryPlan.cacheTokens);
  const { prefillCapacity } = memoryPlan;
  const maxLogitRows =
    given.maxLogitRows ??
    logitRowCount(shape.vocabularySize, { maxSequences, maxRows, maxTensorBytes });
  return {
    ...{ definition, device, limits, options, oneForm, promptsDiffer, uploadTo, measured },
    ...{ cacheShape, memoryPlan },
    startPlan: {
      ...memoryPlan,
      step: stepLimit(given, { wanted, fitted: options }),
      requests: {
        running: maxSequences,
        bound: maxSequences < wanted.maxRunningRequests ? "binding" : "rows",
      },
    },
    tuning: given.tuning === undefined && isSmall ? withoutStaged(tuning) : tuning,
    sizes: {
      ...{ shape, pageSize, contextLength, maxRows, maxLogitRows, maxSequences, prefillCapacity },
      sharesReads: oneForm || attention.sharesReads === true,
    },
    create: (context) =>
      definition.create({
        ...modelOptions,
        ...context,
        formats: formats(),
        contextLength,
        prefillCapacity,
      }),
  };
}

/**
 * Runs the start-up self-test over what the model needs.
 *
 * @throws {DeviceError} when no model would run, or not as an option promises.
 */
export async function testAdapter(
  { definition, device, options, tuning, measured }: LoadPlan,
  {
    recorder,
    tunedKernels = true,
    numericClass = "auto",
    matrixKernels,
    onProgress,
  }: { readonly recorder: Recorder } & Pick<
    LoadOptions,
    "tunedKernels" | "numericClass" | "matrixKernels" | "onProgress"
  >,
): Promise<{ readonly report: SelfTestReport; readonly layout: LinearLayout }> {
  const { weightFormats } = measured;
  const numerics = classLayout(numericClass, device);
  const groupColumns = weightFormats.get("int4")?.groupColumns;
  const report = await selfTest(device, {
    recorder,
    dtypes: [...weightFormats.keys()],
    onProgress: (done, total) => onProgress?.({ phase: "adapter", done, total }),
    layout: {
      ...(tunedKernels ? layoutFor(device, tuning) : DEFAULT_LAYOUT),
      ...numerics,
    },
    ...(groupColumns !== undefined && { groupColumns }),
  });
  requirePromise(options, report);
  const { attention } = definition.facts;
  const matrices = await matrixLayout(numericClass, {
    ...options,
    ...{ recorder, matrixKernels, attention },
  });
  const { fp8Decode, subgroupSize, packedDots } = report;
  const layout = {
    ...orderOf(tuning),
    tuning,
    ...numerics,
    ...{ fp8Decode, packedDots },
    ...(subgroupSize !== undefined && { subgroupSize }),
    ...matrices,
  };
  return { report, layout };
}

/** @throws {DeviceError} when an option promises what the adapter does not keep. */
export function requirePromise(
  { deterministicInference }: Pick<ResolvedOptions, "deterministicInference">,
  { batchInvariant, failures }: SelfTestReport,
): void {
  if (!deterministicInference || batchInvariant) return;
  throw new DeviceError(
    `Cannot promise deterministic inference on this adapter: ${failures.join("; ")}`,
  );
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
  };
}
