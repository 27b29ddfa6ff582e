/**
 * From options to a running engine on this machine: folder, device, engine.
 *
 * @module
 */

import { readFile } from "node:fs/promises";
import { matrixKernels } from "../../kernels/matrix_self_test.ts";
import { Checkpoint } from "../checkpoint/checkpoint.ts";
import { type CompiledKernels, compileKernels } from "../engine/compile_kernels.ts";
import { Engine } from "../engine/engine.ts";
import { InvalidRequestError } from "../errors.ts";
import type { GenerationEngine } from "../generation.ts";
import type { QuantizationError } from "../layers/quantizing_upload.ts";
import { absentGroup } from "../parallel/communicator.ts";
import { chooseAttention } from "./attention_backend.ts";
import { chunkedPrefixThreshold } from "./chunked_prefix.ts";
import { describePlan, describeRequests } from "./describe_plan.ts";
import { deviceFactory, type OpenedDevice, openDevice } from "./device.ts";
import { defaultDeviceMemory } from "./device_memory.ts";
import { driverThreadsFor } from "./driver_threads.ts";
import { type FolderSource, openFolder } from "./files.ts";
import { kernelTuning } from "./kernel_tuning.ts";
import { kvCacheDtype } from "./kv_cache_dtype.ts";
import { OptionError } from "./option_parser.ts";
import { type CompileOptions, ENGINE_OPTIONS, type EngineLaunchOptions } from "./options.ts";
import { defaultModelPath } from "./package_root.ts";
import { prefixStore } from "./prefix_cache_options.ts";
import { resolveModel } from "./resolve_model.ts";
import type { StartReport } from "./start_report.ts";
import { tunedKernels } from "./tuned_kernels.ts";
import { workerGrammarService } from "./worker_grammar_service.ts";

export type StartEngine = (
  options: EngineLaunchOptions,
  report: StartReport,
) => Promise<GenerationEngine>;

/**
 * @throws {OptionError} when an option does not fit the model.
 * @throws {CheckpointError} when the folder is not a checkpoint.
 * @throws {MissingModelError} when a model from a hub is not here, or not all of it.
 * @throws {DeviceError} when there is no adapter, or not enough memory.
 */
export const startEngine: StartEngine = async (options, report) => {
  const buckets = decodeBuckets(options);
  const stored = prefixStore(options, report);
  const source = await openModel(options, report);
  const cacheDtype = await kvCacheDtype(options.kvCacheDtype, source);
  const chatTemplate = await readTemplate(options.chatTemplate);
  const prefixThreshold = chunkedPrefixThreshold(process.env);
  const tuned = tunedKernels(process.env);
  const { sentences, chunkedPrefix, ...attention } = chooseAttention(options);
  report.attention(sentences);
  const { device, adapter, openNext } = await openDeviceFor(source, options, report);
  try {
    const tuning = await kernelTuning({
      ...{ device, source, tunedKernels: tuned, quantization: options.quantization, report },
      measure: options.enableTorchCompile,
    });
    const engine: Engine = await Engine.load(source, {
      device: openNext,
      chatTemplate,
      chatFamily: options.chatFamily,
      contextLength: options.contextLength,
      maxRunningRequests: options.maxRunningRequests,
      maxTotalTokens: options.maxTotalTokens,
      pageSize: options.pageSize,
      chunkedPrefillSize: options.chunkedPrefillSize,
      maxPrefillTokens: options.maxPrefillTokens,
      mixedChunks: options.mixedChunks,
      decodeBuckets: buckets,
      maxDecodeBucket: options.maxDecodeBucket,
      grammarBackend: options.grammarBackend,
      jsonWhitespace: options.jsonWhitespace,
      jsonDialect: options.jsonDialect,
      grammarService: workerGrammarService,
      overlapSchedule: !options.disableOverlapSchedule,
      prefixCache: !options.disableRadixCache,
      prefixStore: stored,
      chunkedPrefix: chunkedPrefix && !options.disableChunkedPrefixCache,
      chunkedPrefixThreshold: prefixThreshold,
      tunedKernels: tuned,
      tuning,
      ...attention,
      schedulePolicy: options.schedulePolicy,
      scheduleConservativeness: options.scheduleConservativeness,
      retractionMemory: options.retractionMemory,
      maxQueuedRequests: options.maxQueuedRequests,
      memFractionStatic: options.memFractionStatic,
      deviceMemory: options.deviceMemory ?? defaultDeviceMemory(adapter),
      quantization: options.quantization,
      numericClass: options.numericClass,
      matrixKernels,
      cacheDtype,
      deterministicInference: options.deterministicInference,
      quantizeActivations: !options.disableActivationQuantization,
      allowAutoTruncate: options.allowAutoTruncate,
      randomSeed: options.randomSeed,
      onPlan: (plan) => {
        report.plan(describePlan(plan, options.chunkedPrefillSize));
        report.plan(describeRequests(plan.requests, options.maxRunningRequests));
      },
      onProgress: (progress) => report.progress(progress),
      onRecovery: (event) => report.recovery(event),
      onStep: report.step && ((step) => report.step?.(step, engine.status())),
    });
    report.family(engine.model.family);
    report.classes(engine.status().numericClasses);
    report.quantized(describeErrors(engine.quantizationErrors, options.quantizationReport));
    report.warnings(engine.selfTest.failures);
    return engine;
  } catch (error) {
    throw asOptionError(error);
  }
};

/**
 * @param compile What compiles.
 * @throws {OptionError} when an option does not fit the model.
 * @throws {CheckpointError} when the folder is not a checkpoint.
 * @throws {MissingModelError} when a model from a hub is not here, or not all of it.
 * @throws {DeviceError} when there is no adapter, or not enough memory.
 */
export async function compileModel(
  options: CompileOptions,
  report: StartReport,
  compile = compileKernels,
): Promise<CompiledKernels> {
  const source = await openModel(options, report);
  try {
    const cacheDtype = await kvCacheDtype(options.kvCacheDtype, source);
    const tuned = tunedKernels(process.env);
    const { sentences, chunkedPrefix: _, ...attention } = chooseAttention(options);
    report.attention(sentences);
    const checkpoint = await Checkpoint.open(source);
    const { device, adapter } = await openDeviceFor(source, options, report);
    const tuning = await kernelTuning({
      ...{ device, source, tunedKernels: tuned, quantization: options.quantization, report },
      measure: options.enableTorchCompile,
    });
    const compiled = await compile(checkpoint, {
      device,
      communicator: absentGroup(options.tpSize),
      cacheDtype,
      tunedKernels: tuned,
      tuning,
      ...attention,
      contextLength: options.contextLength,
      maxRunningRequests: options.maxRunningRequests,
      maxTotalTokens: options.maxTotalTokens,
      pageSize: options.pageSize,
      memFractionStatic: options.memFractionStatic,
      deviceMemory: options.deviceMemory ?? defaultDeviceMemory(adapter),
      quantization: options.quantization,
      numericClass: options.numericClass,
      matrixKernels,
      deterministicInference: options.deterministicInference,
      quantizeActivations: !options.disableActivationQuantization,
      onPlan: ({ requests }) => report.plan(describeRequests(requests, options.maxRunningRequests)),
      onProgress: (progress) => report.progress(progress),
    });
    report.warnings(compiled.selfTest.failures);
    device.destroy();
    return compiled;
  } catch (error) {
    throw asOptionError(error);
  } finally {
    await source.close?.();
  }
}

/** A device, and what gives it to the engine, and others when it is lost. */
async function openDeviceFor(
  source: FolderSource,
  { adapter: wanted, numericClass }: Pick<EngineLaunchOptions, "adapter" | "numericClass">,
  report: StartReport,
): Promise<OpenedDevice & { readonly openNext: () => Promise<GPUDevice> }> {
  const driverThreads = await driverThreadsFor(source);
  const subgroupMatrices = numericClass === "mma128";
  const wishes = { driverThreads, subgroupMatrices, ...(wanted && { adapter: wanted }) };
  const opened = await openDevice(wishes);
  report.adapter(opened.adapter);
  return { ...opened, openNext: deviceFactory(wishes, opened.device) };
}

async function openModel(
  { modelPath, revision }: Pick<EngineLaunchOptions, "modelPath" | "revision">,
  report: StartReport,
): Promise<FolderSource> {
  const { name, folder, commit } = await resolveModel(modelPath ?? defaultModelPath(), {
    revision,
  });
  // A model from a hub is known by its id, not by where the cache has put it.
  const source = await openFolder(folder, commit === undefined ? undefined : name);
  report.model(source.name);
  return source;
}

async function readTemplate(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  return readFile(path, "utf8").catch((cause: NodeJS.ErrnoException) => {
    const problems: Readonly<Record<string, string>> = {
      ENOENT: "there is no such file",
      EISDIR: "it is a folder",
    };
    const problem = problems[cause.code ?? ""] ?? cause.message;
    throw new OptionError(`Cannot use option --chat-template ${path}: ${problem}`, { cause });
  });
}

/** The engine names its options as the library spells them; a person at a terminal knows flags. */
function asOptionError(error: unknown): unknown {
  if (!(error instanceof InvalidRequestError) || error.field === undefined) return error;
  const row = Object.entries(ENGINE_OPTIONS).find(([key]) => key === error.field)?.[1];
  if (row === undefined) return error;
  const why = error.field === "contextLength" ? ", as the model is defined for no more" : "";
  const message = error.message.replaceAll(error.field, row.flags[0]) + why;
  return new OptionError(`Cannot start: ${message}`, { cause: error });
}

/** @throws {OptionError} when sizes are given for lists that are not to be kept. */
function decodeBuckets(options: EngineLaunchOptions): readonly number[] | false | undefined {
  const { disableCudaGraph, decodeBuckets: sizes, maxDecodeBucket } = options;
  if (!disableCudaGraph) return sizes;
  if (sizes === undefined && maxDecodeBucket === undefined) return false;
  const { flags } = ENGINE_OPTIONS[sizes === undefined ? "maxDecodeBucket" : "decodeBuckets"];
  throw new OptionError(`Cannot use option ${flags[0]} together with --disable-cuda-graph`);
}

/** Matrices named when not all of them are. */
const WORST_SHOWN = 3;

function describeErrors(errors: readonly QuantizationError[], all: boolean): readonly string[] {
  if (errors.length === 0) return [];
  const sorted = [...errors].sort((a, b) => b.relativeError - a.relativeError);
  const shown = all ? errors : sorted.slice(0, WORST_SHOWN);
  const middle = sorted[Math.floor(sorted.length / 2)]!;
  const percent = (share: number) => `${(100 * share).toFixed(2)} %`;
  return [
    `Quantized ${errors.length} matrices: half of them are off by ${percent(middle.relativeError)} or more`,
    ...shown.map(({ name, relativeError }) => `  ${name}: ${percent(relativeError)}`),
  ];
}
