/**
 * What an engine can be told.
 *
 * @module
 */
import type { MatrixKernels } from "../../kernels/linear/matrix_class.ts";
import type { CacheDtype } from "../cache/kv_cache.ts";
import type { WeightSource } from "../checkpoint/source.ts";
import type { JsonJump, JsonOrder, JsonUnknown } from "../constraint.ts";
import type { DeviceSource } from "../gpu/device.ts";
import type { Tuning } from "../gpu/tuning.ts";
import type { GrammarBackend } from "../grammar/constraints/backend_names.ts";
import type { Dialect } from "../grammar/schema/dialect.ts";
import type { ImageAlpha } from "../images/alpha.ts";
import type { DecodeImage } from "../images/coded_image.ts";
import type { AttentionBackend } from "../layers/attention/attention_backend.ts";
import type { NumericClass } from "../models/numeric_class.ts";
import type { ExpertOptions } from "../parallel/experts/expert_options.ts";
import type { SpeculationOptions } from "../speculation/speculation_options.ts";
import type { BalanceReport } from "./experts/balance_watch.ts";
import type { RebalanceEvent } from "./experts/expert_balancer.ts";
import type { CreateGrammarService } from "./grammar/grammar_service.ts";
import type { CreateImageService } from "./images/image_service.ts";
import type { StartSizes } from "./load/start_sizes.ts";
import type { PrefixStoreOptions } from "./prefix/prefix_options.ts";
import type { SchedulePolicy } from "./schedule/schedule_policy.ts";
import type { StepReport } from "./step/step_report.ts";
import type { CreateTextService } from "./text/text_service.ts";

export interface LoadingProgress {
  readonly phase: "adapter" | "weights" | "pipelines";
  /** Tests of the adapter, bytes of weights, or pipelines. */
  readonly done: number;
  readonly total: number;
}

/** What becomes of a device that is lost where another one can be had. */
export type RecoveryEvent =
  | { readonly kind: "started"; readonly reason: string }
  /**
   * It was lost again with rows of the same requests in flight: groups of so many requests run apart,
   * and all others wait, until the engine knows whose rows lose it.
   */
  | { readonly kind: "searching"; readonly suspects: number }
  /** This request loses devices, and has ended with a `RequestLosesDeviceError`. */
  | { readonly kind: "found"; readonly requestId: string; readonly losses: number }
  /** A step has failed though the device is there: its requests are computed again. */
  | { readonly kind: "repeating"; readonly reason: string }
  | ({ readonly kind: "progress" } & LoadingProgress)
  /** A try has failed; the next one begins in so many seconds. */
  | { readonly kind: "retrying"; readonly reason: string; readonly seconds: number }
  /** Requests go on. */
  | { readonly kind: "finished"; readonly seconds: number }
  /** It is given up: requests end with an error, and the engine serves no new ones. */
  | { readonly kind: "failed"; readonly reason: string };

export interface EngineOptions {
  /**
   * With a factory, a device that is lost is replaced: the weights are read again, and requests go on
   * from the tokens they have, to the same answers. Without one, a loss ends the engine.
   */
  readonly device: DeviceSource;
  /** Ranks that split every layer, all in this process: the bits of one. Default 1. */
  readonly tensorParallelSize?: number | undefined;
  /**
   * Groups of those ranks that attend to different requests, each with a cache and batches of its own:
   * a divisor of `tensorParallelSize`. More than one are loaded by `loadAttentionGroups`. Default 1.
   */
  readonly attentionGroups?: number | undefined;
  /**
   * Whether the ranks of each attention group share the output head, in place of all ranks: it takes
   * more memory and exchanges less. Never changes a bit. Default false.
   */
  readonly headByGroup?: boolean | undefined;
  /**
   * Whether every rank has dense feed-forward layers whole, in place of a part: they take more memory,
   * and exchange nothing. Never changes a bit. Default false.
   */
  readonly wholeDenseLayers?: boolean | undefined;
  /**
   * Whether a step with several sequences is cut into two micro-batches, so that ranks compute one of
   * them while they exchange rows of the other. Never changes a bit. For several ranks that attend to
   * the same requests. Default false.
   */
  readonly twoBatchOverlap?: boolean | undefined;
  /** How a model's experts lie on its ranks. Never changes a bit, but where choices are made up. */
  readonly experts?: ExpertOptions | undefined;
  /**
   * The device of each rank, as a number that the factory of `device` is called with; each is opened
   * once. Default: all ranks share one device, where steps take longer than those of one rank.
   */
  readonly rankDevices?: readonly number[] | undefined;
  /** Tokens of one sequence. Default, and at most: what the model is defined for. */
  readonly contextLength?: number | undefined;
  /**
   * Sequences computed together: as many as `maxRowsPerStep` and the adapter's bindings allow, where
   * more are asked for. Default 32, fewer where the adapter's bindings are small.
   */
  readonly maxRunningRequests?: number | undefined;
  /**
   * Sequences that may wait for a place; more are refused before anything is done for them. Default:
   * four times `maxRunningRequests`, at least 1024.
   */
  readonly maxQueuedRequests?: number | undefined;
  /**
   * Drafts of tokens that a step verifies beside a sequence's next one: several tokens a step, the same
   * answers. Default: none.
   */
  readonly speculation?: SpeculationOptions | undefined;
  /**
   * The opened model or head that drafts: the engine opens none by
   * `speculation.draftModelPath`, which is its name here. It is closed with the model's own source, and
   * read again with it when a device is lost.
   */
  readonly draftModel?: WeightSource | undefined;
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
   * the scheduler could not foresee has then cost a row too many. Never changes a token. Default
   * true.
   */
  readonly overlapSchedule?: boolean | undefined;
  /**
   * Rows of decode steps whose launches are recorded once and replayed; a step is filled up with
   * rows of padding to the smallest that has room, and recorded anew beyond the largest. false keeps
   * none. Never changes a token. Default: all up to 8, then at growing distances up to 160.
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
   * Whether pages of prompts come from other engines or go there, by `pageSource` and `pageTaker` of
   * requests. Default false.
   */
  readonly transfersPages?: boolean | undefined;
  /** Tokens kept free for each running request before a prompt from elsewhere gets a place. Default 512. */
  readonly reservedDecodeTokens?: number | undefined;
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
   * latent attention; other models have one form anyway. Refused on adapters that fail the
   * self-test. Default false.
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
   * was opened with `subgroupMatrices`. `auto` is the faster of the first two on this adapter, and for
   * prompts `mma128` where `matrixKernels` are given, the device has matrices that are found right,
   * tokens may differ from prompts in bits, pages stay in this engine and no linear is `int8`. The bits differ from class to
   * class; `numericClasses` of the status says which each phase has. Default auto.
   */
  readonly numericClass?: NumericClass | "auto" | undefined;
  /**
   * The kernels of class mma128: `matrixKernels` of this package, which a page without them need
   * not load.
   */
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
   * wisp-llm/browser. Default: in this thread, in slices of 2 ms between which other work has its
   * turns.
   */
  readonly grammarService?: CreateGrammarService | undefined;
  /**
   * Where prompts are rendered and tokenized, and long lists of tokens become text:
   * `workerTextService` of wisp-llm/node, to which messages, tools and template variables go as plain
   * data. Default: in this thread, where nothing bounds the time of a text, of a checkpoint's patterns
   * or of its templates.
   */
  readonly textService?: CreateTextService | undefined;
  /**
   * Where images are decoded, resampled and hashed: `workerImageService` of wisp-llm/node or
   * wisp-llm/browser, which decode JPEG, WebP and GIF too. Default: in this thread, in slices between
   * which other work has its turns, where nothing bounds the time of an image.
   */
  readonly imageService?: CreateImageService | undefined;
  /**
   * Decodes images that are no PNG, without `imageService`: `sharpDecoder` of wisp-llm/node,
   * `browserDecoder` of wisp-llm/browser. Default: only PNG is decoded.
   */
  readonly decodeImage?: DecodeImage | undefined;
  /**
   * What becomes of an image's alpha: "drop" shows the colours that it hides, "white" lays the picture
   * on white. Default "drop".
   */
  readonly imageAlpha?: ImageAlpha | undefined;
  /** Bytes of what the vision tower made of images that are kept for later requests. Default 64 MiB. */
  readonly imageCacheMemory?: number | undefined;
  /**
   * The most characters of white space between two tokens of JSON that a schema asks for; 0 is
   * compact. Default: white space as models write it, which is none, one space, or a line break and
   * indentation where a line of its own begins.
   */
  readonly jsonWhitespace?: number | undefined;
  /** Dialect of schemas without `$schema`: draft-03, -04, -06, -07, 2019-09 or 2020-12, the default. */
  readonly jsonDialect?: Dialect | undefined;
  /**
   * What becomes of keywords that a schema's dialect does not have, and of unknown formats,
   * where a request does not say: "ignore" takes them as annotations and warns, "refuse" refuses the
   * schema. Default "ignore".
   */
  readonly jsonUnknown?: JsonUnknown | undefined;
  /**
   * Of members that a JSON schema names, where a request does not say: "any", or "schema" for the
   * order of `properties`, all others behind them. Default "any".
   */
  readonly jsonOrder?: JsonOrder | undefined;
  /**
   * What constrained answers take without a step: "forced" tokens that are the only allowed ones,
   * which are the same as those of steps; "retokenize" all text that must follow, in the tokenizer's
   * tokens; "off" none. Answers with log-probabilities or logit processors take none. Default "forced".
   */
  readonly jsonJump?: JsonJump | undefined;
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
  readonly onPlan?: ((sizes: StartSizes) => void) | undefined;
  /** Called while the adapter is tested, weights are read and pipelines compiled. */
  readonly onProgress?: ((progress: LoadingProgress) => void) | undefined;
  /**
   * Seconds to wait before each try to replace a lost device. A token that a request gets begins the
   * list anew, and so does a loss that tells more of the request that causes it; the list's end is
   * the engine's. Default 0, 1, 2, 4, 8.
   */
  readonly recoveryWaits?: readonly number[] | undefined;
  /** Called when a device is lost that a factory can replace, and as that goes on. */
  readonly onRecovery?: ((event: RecoveryEvent) => void) | undefined;
  /** Called when experts were moved, or were to be. */
  readonly onRebalance?: ((event: RebalanceEvent) => void) | undefined;
  /**
   * Called after every step of a model with experts, with how even the work of its ranks is. Without it
   * nothing is counted for that.
   */
  readonly onExpertBalance?: ((report: BalanceReport) => void) | undefined;
  /** Called after every step; what it throws ends the engine. */
  readonly onStep?: ((step: StepReport) => void) | undefined;
}
