/**
 * The engine's options as it runs with them: checked, with defaults.
 *
 * @module
 */
import type { CacheDtype } from "../cache/kv_cache.ts";
import { MAX_PAGE_SIZE } from "../cache/page_pool.ts";
import { JSON_JUMPS, JSON_ORDERS, JSON_UNKNOWN, type JsonJump } from "../constraint.ts";
import { InvalidRequestError } from "../errors.ts";
import { type GrammarBackend, requireBackend } from "../grammar/constraints/backend_names.ts";
import { DIALECTS, type Dialect } from "../grammar/schema/dialect.ts";
import type { JsonSchemaOptions } from "../grammar/schema/json_schema.ts";
import { IMAGE_ALPHAS, type ImageAlpha } from "../images/alpha.ts";
import {
  ATTENTION_BACKENDS,
  type AttentionBackend,
  type AttentionBackends,
} from "../layers/attention/attention_backend.ts";
import type { EngineOptions } from "./engine_options.ts";
import { resolveBuckets } from "./load/decode_buckets.ts";
import { MIN_CONTEXT } from "./load/memory_budget.ts";
import { requirePrefixStore } from "./prefix/prefix_options.ts";
import { type ResolvedDrafts, type ResolvedModel, resolveDrafts } from "./resolve_speculation.ts";
import { SCHEDULE_POLICIES, type SchedulePolicy } from "./schedule/schedule_policy.ts";

/** Every option but those that only concern loading, decided. */
export interface ResolvedOptions extends ResolvedDrafts {
  readonly contextLength: number;
  readonly maxRunningRequests: number;
  /** Generated rows of one step at most: a token of each sequence, and drafts. */
  readonly maxGeneratedRows: number;
  readonly maxQueuedRequests: number;
  readonly maxTotalTokens: number | undefined;
  readonly pageSize: number;
  readonly maxPrefillRows: number;
  readonly maxPrefillTokens: number;
  readonly mixedChunks: boolean;
  readonly overlapSchedule: boolean;
  /** Ascending; empty for none. */
  readonly decodeBuckets: readonly number[];
  readonly grammarBackend: GrammarBackend;
  readonly jsonJump: JsonJump;
  readonly json: JsonSchemaOptions;
  readonly prefixCache: boolean;
  readonly prefixStore: ReturnType<typeof requirePrefixStore> | undefined;
  readonly transfersPages: boolean;
  readonly reservedDecodeTokens: number;
  readonly chunkedPrefix: boolean;
  readonly chunkedPrefixThreshold: number;
  readonly schedulePolicy: SchedulePolicy;
  readonly scheduleConservativeness: number;
  readonly retractionMemory: number;
  readonly maxRows: number;
  readonly deviceMemory: number;
  readonly memFractionStatic: number;
  readonly cacheDtype: CacheDtype;
  readonly quantizeActivations: boolean;
  readonly deterministicInference: boolean;
  readonly attention: AttentionBackends;
  readonly imageAlpha: ImageAlpha;
  /** Bytes of images' rows that are kept for later requests. */
  readonly imageCacheMemory: number;
}

const GIB = 2 ** 30;
/** Bytes that a device is taken to have: WebGPU does not tell. */
export const DEVICE_MEMORY = 4 * GIB;
const IMAGE_CACHE_MEMORY = 64 * 2 ** 20;

/** Whole numbers that an option may be. */
interface Range {
  readonly min: number;
  readonly max: number;
}

const FROM_0: Range = { min: 0, max: Number.MAX_SAFE_INTEGER };
const FROM_1: Range = { min: 1, max: Number.MAX_SAFE_INTEGER };

/**
 * @param model Its architecture, the positions it is defined for, and whether it can draft.
 * @throws {InvalidRequestError} naming the option that is out of range.
 * @throws {UnsupportedError} naming an option of speculation that is not followed so far.
 */
export function resolveOptions(options: EngineOptions, model: ResolvedModel): ResolvedOptions {
  const { prefillAttentionBackend = "auto", decodeAttentionBackend = "auto" } = options;
  const attention = { prefillAttentionBackend, decodeAttentionBackend };
  const drafts = resolveDrafts(options, model, attention);
  const step = resolveStep(options, drafts);
  return {
    ...drafts,
    ...step,
    ...resolveMemory(options, model.shape.contextLength),
    ...resolveSchedule(options, step.maxRunningRequests),
    ...resolvePrefixes(options),
    ...resolveNumerics(options),
    ...resolveGrammars(options),
    ...resolveImages(options),
  };
}

/** How much one step computes, and how its launches are kept. */
function resolveStep(options: EngineOptions, { maxDrafts }: ResolvedDrafts) {
  const maxRows = whole(options, "maxRowsPerStep", 128, { min: 1, max: 8192 });
  const chunk =
    options.chunkedPrefillSize === -1
      ? maxRows
      : whole(options, "chunkedPrefillSize", maxRows, FROM_1);
  const running = whole(options, "maxRunningRequests", Math.min(32, maxRows), FROM_1);
  return {
    maxRows,
    maxGeneratedRows: Math.min(running * (1 + maxDrafts), maxRows),
    maxPrefillRows: Math.min(chunk, maxRows),
    maxRunningRequests: Math.min(running, maxRows),
    maxPrefillTokens: whole(options, "maxPrefillTokens", 16384, FROM_1),
    mixedChunks: options.mixedChunks ?? false,
    overlapSchedule: options.overlapSchedule ?? true,
    decodeBuckets: resolveBuckets(options),
  };
}

/** What memory there is, and the sizes of the cache in it. */
function resolveMemory(options: EngineOptions, modelContext: number) {
  const memFractionStatic = options.memFractionStatic ?? 0.88;
  if (!(memFractionStatic > 0 && memFractionStatic <= 1)) {
    throw new InvalidRequestError(
      `Cannot use memFractionStatic ${memFractionStatic}: it must be above 0 and at most 1`,
      "memFractionStatic",
    );
  }
  const contextRange = { min: MIN_CONTEXT, max: modelContext };
  const tokensRange = { ...FROM_1, min: MIN_CONTEXT };
  return {
    memFractionStatic,
    deviceMemory: whole(options, "deviceMemory", DEVICE_MEMORY, FROM_1),
    retractionMemory: whole(options, "retractionMemory", 0, FROM_0),
    contextLength: whole(options, "contextLength", modelContext, contextRange),
    maxTotalTokens:
      options.maxTotalTokens === undefined
        ? undefined
        : whole(options, "maxTotalTokens", MIN_CONTEXT, tokensRange),
    pageSize: whole(options, "pageSize", 1, { min: 1, max: MAX_PAGE_SIZE }),
    cacheDtype: options.cacheDtype ?? "bf16",
  };
}

/** Requests that may wait, unless an option says so: at least, and for each that may run. */
export const QUEUED_AT_LEAST = 1024;
export const QUEUED_PER_RUNNING = 4;

/** Which requests wait, and which of them run. */
function resolveSchedule(options: EngineOptions, maxRunningRequests: number) {
  const { schedulePolicy = "fcfs", scheduleConservativeness = 1 } = options;
  if (!SCHEDULE_POLICIES.includes(schedulePolicy)) {
    throw new InvalidRequestError(
      `Cannot use schedulePolicy ${schedulePolicy}: it must be one of ${SCHEDULE_POLICIES.join(", ")}`,
      "schedulePolicy",
    );
  }
  if (!(scheduleConservativeness >= 0 && Number.isFinite(scheduleConservativeness))) {
    throw new InvalidRequestError(
      `Cannot use scheduleConservativeness ${scheduleConservativeness}: it must be at least 0`,
      "scheduleConservativeness",
    );
  }
  const queued = Math.max(QUEUED_AT_LEAST, QUEUED_PER_RUNNING * maxRunningRequests);
  const maxQueuedRequests = whole(options, "maxQueuedRequests", queued, FROM_0);
  return { schedulePolicy, scheduleConservativeness, maxQueuedRequests };
}

/** What prompts take from the cache, and in which pieces. */
function resolvePrefixes(options: EngineOptions) {
  const { prefixCache = true, prefixStore } = options;
  return {
    prefixCache,
    prefixStore: prefixStore && requirePrefixStore(prefixStore, { prefixCache }),
    transfersPages: options.transfersPages ?? false,
    reservedDecodeTokens: whole(options, "reservedDecodeTokens", 512, FROM_0),
    chunkedPrefix: options.chunkedPrefix ?? true,
    chunkedPrefixThreshold: whole(options, "chunkedPrefixThreshold", 8192, FROM_0),
  };
}

/** How numbers are computed. */
function resolveNumerics(options: EngineOptions) {
  return {
    quantizeActivations: options.quantizeActivations ?? true,
    deterministicInference: options.deterministicInference ?? false,
    attention: {
      prefill: requireAttentionBackend("prefillAttentionBackend", options),
      decode: requireAttentionBackend("decodeAttentionBackend", options),
    },
  };
}

/** What requests may constrain their answers by. */
function resolveGrammars(options: EngineOptions) {
  return {
    grammarBackend: requireBackend(options.grammarBackend),
    jsonJump: requireName("jsonJump", options.jsonJump ?? "forced", JSON_JUMPS),
    json: {
      maxWhitespace:
        options.jsonWhitespace === undefined
          ? undefined
          : whole(options, "jsonWhitespace", 0, { min: 0, max: 1000 }),
      dialect: requireDialect(options.jsonDialect),
      unknown: requireName("jsonUnknown", options.jsonUnknown ?? "ignore", JSON_UNKNOWN),
      order: requireName("jsonOrder", options.jsonOrder ?? "any", JSON_ORDERS),
    },
  };
}

/** What a model sees of images. */
function resolveImages(options: EngineOptions) {
  const { decodeImage, imageService } = options;
  if (decodeImage !== undefined && imageService !== undefined) {
    const problem = "imageService decodes images itself";
    throw new InvalidRequestError(`Cannot use decodeImage: ${problem}`, "decodeImage");
  }
  return {
    imageAlpha: requireName("imageAlpha", options.imageAlpha ?? "drop", IMAGE_ALPHAS),
    imageCacheMemory: whole(options, "imageCacheMemory", IMAGE_CACHE_MEMORY, FROM_0),
  };
}

function whole(
  options: EngineOptions,
  name: keyof EngineOptions,
  fallback: number,
  { min, max }: Range,
): number {
  const value = options[name] ?? fallback;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max) {
    return value;
  }
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  throw new InvalidRequestError(
    `Cannot use ${name} ${value}: it must be a whole number ${range}`,
    name,
  );
}

function requireAttentionBackend(
  field: "prefillAttentionBackend" | "decodeAttentionBackend",
  { [field]: name = "auto" }: EngineOptions,
): AttentionBackend {
  if (ATTENTION_BACKENDS.includes(name)) return name;
  const known = ATTENTION_BACKENDS.join(", ");
  throw new InvalidRequestError(`Cannot use ${field} ${name}: it must be one of ${known}`, field);
}

function requireName<Name extends string>(
  field: keyof EngineOptions,
  name: string,
  names: readonly Name[],
): Name {
  const value = names.find((known) => known === name);
  if (value !== undefined) return value;
  throw new InvalidRequestError(
    `Cannot use ${field} ${name}: it must be one of ${names.join(", ")}`,
    field,
  );
}

function requireDialect(name: string = "2020-12"): Dialect {
  const dialect = DIALECTS.find((known) => known === name);
  if (dialect !== undefined) return dialect;
  throw new InvalidRequestError(
    `Cannot use jsonDialect ${name}: it must be one of ${DIALECTS.join(", ")}`,
    "jsonDialect",
  );
}
