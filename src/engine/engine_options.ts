/**
 * What an engine can be told, with defaults.
 *
 * @module
 */
import type { MatrixKernels } from "../../kernels/linear/matrix_tiles.ts";
import type { CacheDtype } from "../cache/kv_cache.ts";
import { InvalidRequestError } from "../errors.ts";
import type { DeviceSource } from "../gpu/device.ts";
import type { Tuning } from "../gpu/tuning.ts";
import { type GrammarBackend, requireBackend } from "../grammar/backends.ts";
import { DIALECTS, type Dialect } from "../grammar/schema/dialect.ts";
import type { JsonSchemaOptions } from "../grammar/schema/json_schema.ts";
import {
  ATTENTION_BACKENDS,
  type AttentionBackend,
  type AttentionBackends,
} from "../layers/attention_backend.ts";
import type { NumericClass } from "../models/numeric_class.ts";
import { resolveBuckets } from "./decode_buckets.ts";
import type { CreateGrammarService } from "./grammar_service.ts";
import { type PrefixStoreOptions, requirePrefixStore } from "./prefix_options.ts";
import { SCHEDULE_POLICIES, type SchedulePolicy } from "./schedule_policy.ts";
import type { StartPlan } from "./step_limit.ts";
import type { StepReport } from "./step_report.ts";

export interface LoadingProgress {
  readonly phase: "adapter" | "weights" | "pipelines";
  /** Tests of the adapter, bytes of weights, or pipelines. */
  readonly done: number;
  readonly total: number;
}

/** What becomes of a device that is lost where another one can be had. */
export type RecoveryEvent =
  | { readonly kind: "started"; readonly reason: string }
  | ({ readonly kind: "progress" } & LoadingProgress)
  /** A try has failed; the next one begins in so many seconds. */
  | { readonly kind: "retrying"; readonly reason: string; readonly seconds: number }
  /** Requests go on. */
  | { readonly kind: "finished"; readonly seconds: number }
  /** It is given up: requests end with an error, and no others are served. */
  | { readonly kind: "failed"; readonly reason: string };

export interface EngineOptions {
  /**
   * With a factory, a device that is lost is replaced: the weights are read again, and requests go on
   * from the tokens they have, to the same answers. Without one, a loss ends the engine.
   */
  readonly device: DeviceSource;
  /** Tokens of one sequence. Default, and at most: what the model is defined for. */
  readonly contextLength?: number | undefined;
  /**
   * Sequences computed together: as many as `maxRowsPerStep` and the adapter's bindings allow, where
   * more are asked for. Default 32, fewer where the adapter's bindings are small.
   */
  readonly maxRunningRequests?: number | undefined;
  /** Sequences that may wait for a place. Default: no limit. */
  readonly maxQueuedRequests?: number | undefined;
  /** Slots of the KV cache. Default: what memory holds, at most `maxRunningRequests` contexts. */
  readonly maxTotalTokens?: number | undefined;
  /** Tokens of a cache page. Default 1. */
  readonly pageSize?: number | undefined;
  /** Prompt tokens of one step; -1 is no limit beyond `maxRowsPerStep`. Default -1. */
  readonly chunkedPrefillSize?: number | undefined;
  /** Prompt tokens of one step beyond its first request's. Default 16384. */
  readonly maxPrefillTokens?: number | undefined;
  /** Whether a step may compute prompts and generated tokens together. Default false: prompts first. */
  readonly mixedChunks?: boolean | undefined;
  /**
   * Whether a step is prepared and submitted while the GPU runs the one before. A request whose end
   * nobody could foresee has then cost a row too many. Never changes a token. Default true.
   */
  readonly overlapSchedule?: boolean | undefined;
  /**
   * Rows of decode steps whose launches are recorded once and replayed; a step is filled up with
   * rows of padding to the smallest that has room, and recorded anew beyond the largest. false keeps
   * none. Never changes a token. Default: all up to 8, then in growing steps up to 160.
   */
  readonly decodeBuckets?: readonly number[] | false | undefined;
  /** The largest of them; the default ones go up to it. */
  readonly maxDecodeBucket?: number | undefined;
  /** Whether prompts share what the cache has of their beginnings. Default true. */
  readonly prefixCache?: boolean | undefined;
  /**
   * Where prefixes are kept beyond the engine's life, so that the next one on the same model need not
   * compute them: the same bits. Needs `prefixCache`. Default: nowhere.
   */
  readonly prefixStore?: PrefixStoreOptions | undefined;
  /**
   * Whether models with latent attention expand long cached prefixes of prompts in chunks; else in
   * one piece, in a workspace that holds the context where an eighth of the memory that weights
   * leave, and one binding, allow it. Never changes a bit. Default true.
   */
  readonly chunkedPrefix?: boolean | undefined;
  /**
   * Cached tokens, of all prompts in a step, from which their prefixes are expanded in chunks; fewer
   * are in one piece, within the same bounds. 0 is always in chunks. Default 8192.
   */
  readonly chunkedPrefixThreshold?: number | undefined;
  /** In which order waiting requests start. Default fcfs. */
  readonly schedulePolicy?: SchedulePolicy | undefined;
  /**
   * Above 1 more cache is kept free for what running requests will still generate, below 1 less;
   * requests that find none are retracted. Default 1.
   */
  readonly scheduleConservativeness?: number | undefined;
  /**
   * Bytes of host memory for the cache of retracted requests, which go on from there. What does not
   * fit is computed again, to the same tokens. Default 0.
   */
  readonly retractionMemory?: number | undefined;
  /**
   * Rows one submit computes. Default 128: what a software adapter computes in a fraction of a
   * second.
   */
  readonly maxRowsPerStep?: number | undefined;
  /** Bytes that the device may be taken to have. Default 4 GiB: WebGPU does not tell. */
  readonly deviceMemory?: number | undefined;
  /** Share of `deviceMemory` for weights and KV cache. Default 0.88. */
  readonly memFractionStatic?: number | undefined;
  /** How the cache stores keys and values: FP8 halves it, f32 is for tests. Default BF16. */
  readonly cacheDtype?: CacheDtype | undefined;
  /**
   * Rounds the inputs of quantized linears where the checkpoint's scheme says so: E4M3 or int8
   * with scales found at run time.
   * Default true.
   */
  readonly quantizeActivations?: boolean | undefined;
  /**
   * The quantization a checkpoint has, to be checked, or what to quantize plain BF16, F16 or F32
   * weights to while they are uploaded: `int4` (in groups of 64), `int4-g32`, `int4-g64`,
   * `int4-g128`, `int8`, `fp8`. Default: weights stay as the checkpoint has them.
   */
  readonly quantization?: string | undefined;
  /**
   * Runs prompts in the form of attention that generated tokens have, so that an answer reused as
   * part of a prompt has the bits that computing it as a prompt gives. Slower prompts for models with
   * latent attention; others have one form anyway. Refused on adapters that fail the self-test.
   * Default false.
   */
  readonly deterministicInference?: boolean | undefined;
  /**
   * Whether kernels are tuned for the adapter and share loads in its subgroups; else they are the
   * plain ones that run everywhere. Never changes a bit. Default true.
   */
  readonly tunedKernels?: boolean | undefined;
  /**
   * The arithmetic of linears. `int8` adds products of int8 weights and int8 activations up as whole
   * numbers; where a model has no such linears it is `fma128`, products and sums in f32. `f16` rounds
   * weights and activations to f16 and adds eight products up in it. `mma128` computes prompts, and
   * under `deterministicInference` all rows, with the adapter's subgroup matrices, for which the device
   * was opened with `subgroupMatrices`. `auto` is the faster of the first two on this adapter. The
   * bits differ from class to class; `numericClasses` of the status says which each phase has.
   * Default auto.
   */
  readonly numericClass?: NumericClass | "auto" | undefined;
  /** The kernels of class mma128: `matrixKernels` of this package, which others need not load. */
  readonly matrixKernels?: MatrixKernels | undefined;
  /**
   * How attention kernels share what they read, for prompts and for generated tokens: `subgroup`,
   * `portable`, or `auto`, which is the first where the adapter can. Never changes a bit. Default auto.
   */
  readonly prefillAttentionBackend?: AttentionBackend | undefined;
  readonly decodeAttentionBackend?: AttentionBackend | undefined;
  /**
   * How launches over weights are shared out, as `tuneKernels` finds it. Never changes a bit.
   * Default: what the library knows of the adapter.
   */
  readonly tuning?: Tuning | undefined;
  /**
   * The kinds of constraints that requests may bring: `outlines` (JSON schema, regex, choices),
   * `xgrammar` (JSON schema, EBNF, structural tags, choices), `auto` (all of them), `none`. Default auto.
   */
  readonly grammarBackend?: GrammarBackend | undefined;
  /**
   * Where constraints are compiled and followed: `workerGrammarService` of wisp-llm/node or
   * wisp-llm/browser. Default: in this thread, in slices of 2 ms between which others have turns.
   */
  readonly grammarService?: CreateGrammarService | undefined;
  /**
   * The most characters of white space between two tokens of JSON that a schema asks for; 0 is
   * compact. Default: white space as models write it, which is none, one space, or a line break and
   * indentation where a line of its own begins.
   */
  readonly jsonWhitespace?: number | undefined;
  /** Dialect of schemas without `$schema`: draft-04, -06, -07, 2019-09 or 2020-12, the default. */
  readonly jsonDialect?: Dialect | undefined;
  /** Text of a chat template that replaces the checkpoint's. */
  readonly chatTemplate?: string | undefined;
  /**
   * Name of the family whose way to write conversations the model follows: message forms, ends of
   * turns, the template of a checkpoint without one. Default: what its template and config tell.
   */
  readonly chatFamily?: string | undefined;
  /**
   * Whether prompts that the context does not hold are cut at their end, and completion tokens to
   * what is left, instead of being refused. Default false.
   */
  readonly allowAutoTruncate?: boolean | undefined;
  /** Seeds the requests that bring no seed. Default: from the platform's random source. */
  readonly randomSeed?: number | undefined;
  /** Called once it is known where the memory goes and what a step takes, before any weight is read. */
  readonly onPlan?: ((plan: StartPlan) => void) | undefined;
  /** Called while the adapter is tested, weights are read and pipelines compiled. */
  readonly onProgress?: ((progress: LoadingProgress) => void) | undefined;
  /**
   * Seconds to wait before each try to replace a lost device. A token that a request gets begins the
   * list anew; its end is the engine's. Default 0, 1, 2, 4, 8.
   */
  readonly recoveryWaits?: readonly number[] | undefined;
  /** Called when a device is lost that a factory can replace, and as that goes on. */
  readonly onRecovery?: ((event: RecoveryEvent) => void) | undefined;
  /** Called after every step; what it throws ends the engine. */
  readonly onStep?: ((step: StepReport) => void) | undefined;
}

/** Every option but those that only concern loading, decided. */
export interface ResolvedOptions {
  readonly contextLength: number;
  readonly maxRunningRequests: number;
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
  readonly json: JsonSchemaOptions;
  readonly prefixCache: boolean;
  readonly prefixStore: ReturnType<typeof requirePrefixStore> | undefined;
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
}

const GIB = 2 ** 30;
const MAX_PAGE_SIZE = 256;
/** Tokens of the shortest sequence: one of a prompt and one of a completion. */
export const MIN_CONTEXT = 2;

/**
 * @param modelContext Positions the model is defined for.
 * @throws {InvalidRequestError} naming the option that is out of range.
 */
export function resolveOptions(options: EngineOptions, modelContext: number): ResolvedOptions {
  const whole = (
    name: keyof EngineOptions,
    fallback: number,
    { min, max }: { readonly min: number; readonly max: number },
  ) => {
    const value = options[name] ?? fallback;
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max) {
      return value;
    }
    const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
    throw new InvalidRequestError(`${name} must be a whole number ${range}, got ${value}`, name);
  };
  const any = { min: 1, max: Number.MAX_SAFE_INTEGER };
  const maxRows = whole("maxRowsPerStep", 128, { min: 1, max: 8192 });
  const chunk =
    options.chunkedPrefillSize === -1 ? maxRows : whole("chunkedPrefillSize", maxRows, any);
  const running = whole("maxRunningRequests", Math.min(32, maxRows), any);
  const fraction = options.memFractionStatic ?? 0.88;
  if (!(fraction > 0 && fraction <= 1)) {
    throw new InvalidRequestError(
      `memFractionStatic must be above 0 and at most 1, got ${fraction}`,
      "memFractionStatic",
    );
  }
  const { prefixCache = true, schedulePolicy = "fcfs", scheduleConservativeness = 1 } = options;
  if (!SCHEDULE_POLICIES.includes(schedulePolicy)) {
    throw new InvalidRequestError(
      `schedulePolicy must be one of ${SCHEDULE_POLICIES.join(", ")}, got ${schedulePolicy}`,
      "schedulePolicy",
    );
  }
  if (!(scheduleConservativeness >= 0 && Number.isFinite(scheduleConservativeness))) {
    throw new InvalidRequestError(
      `scheduleConservativeness must be at least 0, got ${scheduleConservativeness}`,
      "scheduleConservativeness",
    );
  }
  return {
    schedulePolicy,
    scheduleConservativeness,
    retractionMemory: whole("retractionMemory", 0, { ...any, min: 0 }),
    maxPrefillTokens: whole("maxPrefillTokens", 16384, any),
    mixedChunks: options.mixedChunks ?? false,
    overlapSchedule: options.overlapSchedule ?? true,
    decodeBuckets: resolveBuckets(options),
    grammarBackend: requireBackend(options.grammarBackend),
    json: {
      maxWhitespace:
        options.jsonWhitespace === undefined
          ? undefined
          : whole("jsonWhitespace", 0, { min: 0, max: 1000 }),
      dialect: requireDialect(options.jsonDialect),
    },
    prefixCache,
    prefixStore: options.prefixStore && requirePrefixStore(options.prefixStore, { prefixCache }),
    chunkedPrefix: options.chunkedPrefix ?? true,
    chunkedPrefixThreshold: whole("chunkedPrefixThreshold", 8192, { ...any, min: 0 }),
    contextLength: whole("contextLength", modelContext, { min: MIN_CONTEXT, max: modelContext }),
    maxRunningRequests: Math.min(running, maxRows),
    maxQueuedRequests: whole("maxQueuedRequests", Number.MAX_SAFE_INTEGER, { ...any, min: 0 }),
    maxTotalTokens:
      options.maxTotalTokens === undefined
        ? undefined
        : whole("maxTotalTokens", MIN_CONTEXT, { ...any, min: MIN_CONTEXT }),
    pageSize: whole("pageSize", 1, { min: 1, max: MAX_PAGE_SIZE }),
    maxPrefillRows: Math.min(chunk, maxRows),
    maxRows,
    deviceMemory: whole("deviceMemory", 4 * GIB, any),
    memFractionStatic: fraction,
    cacheDtype: options.cacheDtype ?? "bf16",
    quantizeActivations: options.quantizeActivations ?? true,
    deterministicInference: options.deterministicInference ?? false,
    attention: {
      prefill: requireAttentionBackend("prefillAttentionBackend", options),
      decode: requireAttentionBackend("decodeAttentionBackend", options),
    },
  };
}

function requireAttentionBackend(
  field: "prefillAttentionBackend" | "decodeAttentionBackend",
  { [field]: name = "auto" }: EngineOptions,
): AttentionBackend {
  if (ATTENTION_BACKENDS.includes(name)) return name;
  const known = ATTENTION_BACKENDS.join(", ");
  throw new InvalidRequestError(`${field} must be one of ${known}, got ${name}`, field);
}

function requireDialect(name: string = "2020-12"): Dialect {
  const dialect = DIALECTS.find((known) => known === name);
  if (dialect !== undefined) return dialect;
  throw new InvalidRequestError(
    `jsonDialect must be one of ${DIALECTS.join(", ")}, got ${name}`,
    "jsonDialect",
  );
}
