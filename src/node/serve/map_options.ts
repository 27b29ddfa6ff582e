/**
 * What options of the command line are to the engine: one mapping for every command that loads a
 * model, or compiles what it would run with.
 *
 * @module
 */
import { matrixKernels } from "../../../kernels/matrix_self_test.ts";
import type { CacheDtype } from "../../cache/kv_cache.ts";
import type { EngineOptions } from "../../engine/engine_options.ts";
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import { defaultDeviceMemory } from "../device/device_memory.ts";
import { kernelTuning } from "../device/kernel_tuning.ts";
import type { DisaggregationOptions } from "../disaggregation/disaggregation_options.ts";
import type { FolderSource } from "../files.ts";
import { type ChosenAttention, chooseAttention } from "../options/attention_backend.ts";
import { tunedKernels } from "../options/engine_variables.ts";
import { kvCacheDtype } from "../options/kv_cache_dtype.ts";
import { OptionError } from "../options/option_parser.ts";
import {
  type CompileOptions,
  ENGINE_OPTIONS,
  type EngineLaunchOptions,
} from "../options/options.ts";
import { speculationOf, speculativeKey } from "../options/speculation_options.ts";
import { allToAllSentence } from "../ranks/all_to_all_options.ts";
import { expertOptions, expertWarnings } from "../ranks/expert_options.ts";
import { overlapSentence, requireOverlap } from "../ranks/overlap_options.ts";
import { workerGrammarService } from "../worker_grammar_service.ts";
import { workerImageService } from "../worker_image_service.ts";
import { workerTextService } from "../worker_text_service.ts";
import type { ReplaceableDevice } from "./open_model.ts";
import type { StartReport } from "./start_report.ts";

/** What decides which kernels a model runs with, and whether it fits. */
export type ModelLaunchOptions = Pick<
  EngineLaunchOptions,
  keyof EngineLaunchOptions & keyof CompileOptions
>;

/** What a checkpoint and the environment make of options, before a device is opened. */
export interface ModelChoices extends Pick<ChosenAttention, "chunkedPrefix"> {
  readonly cacheDtype: CacheDtype | undefined;
  readonly tunedKernels: boolean | undefined;
  readonly backends: Pick<ChosenAttention, "prefillAttentionBackend" | "decodeAttentionBackend">;
}

/** @throws {OptionError} when an option does not fit the model. */
export async function chooseForModel(
  options: ModelLaunchOptions,
  source: FolderSource,
  report: StartReport,
): Promise<ModelChoices> {
  const cacheDtype = await kvCacheDtype(options.kvCacheDtype, source);
  const tuned = tunedKernels(process.env);
  const { sentences, chunkedPrefix, ...backends } = chooseAttention(options);
  report.attention(sentences);
  report.warnings(expertWarnings(options));
  requireOverlap(options);
  const told = [allToAllSentence(options), overlapSentence(options)];
  report.sizes(told.filter((sentence) => sentence !== undefined));
  return { cacheDtype, tunedKernels: tuned, chunkedPrefix, backends };
}

/** Where a model is loaded to. */
export interface ModelSetting {
  readonly source: FolderSource;
  readonly opened: ReplaceableDevice;
  readonly choices: ModelChoices;
  /** The model that drafts. */
  readonly draftModel: FolderSource | undefined;
  readonly report: StartReport;
}

/**
 * The engine's options that decide which kernels a model runs with, and whether it fits.
 *
 * @throws {OptionError | TuningFileError} when kernels cannot be tuned as they are to be.
 */
export async function modelOptions(
  options: ModelLaunchOptions,
  { source, opened, choices, draftModel, report }: ModelSetting,
): Promise<Omit<EngineOptions, "device">> {
  const { device, adapter, sharers } = opened;
  const { cacheDtype, tunedKernels: tuned, backends } = choices;
  const tuning = await kernelTuning({
    device,
    source,
    tunedKernels: tuned,
    quantization: options.quantization,
    report,
    measure: options.enableTorchCompile,
  });
  return {
    contextLength: options.contextLength,
    maxRunningRequests: options.maxRunningRequests,
    maxTotalTokens: options.maxTotalTokens,
    pageSize: options.pageSize,
    memFractionStatic: options.memFractionStatic,
    deviceMemory: Math.floor((options.deviceMemory ?? defaultDeviceMemory(adapter)) / sharers),
    speculation: speculationOf(options),
    draftModel,
    quantization: options.quantization,
    experts: await expertOptions(options),
    wholeDenseLayers: options.moeDenseTpSize === 1,
    twoBatchOverlap: options.twoBatchOverlap,
    numericClass: options.numericClass,
    matrixKernels,
    cacheDtype,
    tunedKernels: tuned,
    tuning,
    ...backends,
    deterministicInference: options.deterministicInference,
    quantizeActivations: !options.disableActivationQuantization,
    onProgress: (progress) => report.progress(progress),
  };
}

/** What a start has found of its options before it maps them. */
export interface ServingSetting {
  readonly choices: ModelChoices;
  /** The text of `--chat-template`. */
  readonly chatTemplate: string | undefined;
  readonly decodeBuckets: EngineOptions["decodeBuckets"];
  readonly prefixStore: EngineOptions["prefixStore"];
  readonly chunkedPrefixThreshold: number | undefined;
}

/** The engine's options that decide how requests are served; no kernel depends on them. */
export function servingOptions(
  options: EngineLaunchOptions & Partial<DisaggregationOptions>,
  { choices, ...found }: ServingSetting,
): Omit<EngineOptions, "device"> {
  return {
    ...found,
    tensorParallelSize: options.tpSize,
    transfersPages: (options.disaggregationMode ?? "null") !== "null",
    reservedDecodeTokens: options.numReservedDecodeTokens,
    chatFamily: options.chatFamily,
    chunkedPrefillSize: options.chunkedPrefillSize,
    maxPrefillTokens: options.maxPrefillTokens,
    mixedChunks: options.mixedChunks,
    maxDecodeBucket: options.maxDecodeBucket,
    grammarBackend: options.grammarBackend,
    jsonWhitespace: options.jsonWhitespace,
    jsonDialect: options.jsonDialect,
    jsonUnknown: options.jsonUnknown,
    jsonOrder: options.jsonOrder,
    jsonJump: options.jsonJump,
    grammarService: workerGrammarService,
    textService: workerTextService,
    imageService: workerImageService,
    imageAlpha: options.imageAlpha,
    imageCacheMemory: options.imageCacheMemory,
    overlapSchedule: !options.disableOverlapSchedule,
    prefixCache: !options.disableRadixCache,
    chunkedPrefix: choices.chunkedPrefix && !options.disableChunkedPrefixCache,
    schedulePolicy: options.schedulePolicy,
    scheduleConservativeness: options.scheduleConservativeness,
    retractionMemory: options.retractionMemory,
    maxQueuedRequests: options.maxQueuedRequests,
    allowAutoTruncate: options.allowAutoTruncate,
    randomSeed: options.randomSeed,
  };
}

/** The engine names its options as the library spells them; a person at a terminal knows flags. */
export function asOptionError(error: unknown): unknown {
  const isOurs = error instanceof InvalidRequestError || error instanceof UnsupportedError;
  if (!isOurs || error.field === undefined) return error;
  const flag = flagOf(error.field);
  if (flag === undefined) return error;
  const why = error.field === "contextLength" ? ", as the model is defined for no more" : "";
  const message = error.message
    .replace(error.field, `option ${flag}`)
    // Options of speculation are told with those beside them.
    .replaceAll(/\bspeculation\.\w+/g, (field) => flagOf(field) ?? field);
  return new OptionError(message + why, { cause: error });
}

function flagOf(field: string): string | undefined {
  const key = speculativeKey(field);
  return Object.entries(ENGINE_OPTIONS).find(([own]) => own === key)?.[1].flags[0];
}
