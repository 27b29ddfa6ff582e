/**
 * What a caller says to an engine and what comes back: plain data in, async iterables out. It can cross
 * a worker or a socket: engines, worker proxies and remote engines all implement `GenerationEngine`.
 *
 * @module
 */
import type { SharedRequest } from "./bootstrap.ts";
import type { ChatMessage } from "./chat_message.ts";
import type { Constraint, GrammarCompilation, Thinking } from "./constraint.ts";
import type { RecordsExperts } from "./expert_record.ts";
import type { ImageInput } from "./image_input.ts";
import type { LogprobOptions, PromptLogprobs, TokenLogprobs } from "./logprobs.ts";
import type {
  CacheTree,
  CacheTreeOptions,
  FlushOptions,
  PrefixStoreStatus,
} from "./prefix_cache.ts";
import type { Profile, ProfileOptions } from "./profile.ts";
import type { RanksStatus } from "./ranks_status.ts";
import type { SamplingParams } from "./sampling_params.ts";
import type { SpeculationFigures } from "./speculation_figures.ts";

export type { ChatMessage, ChatToolCall, MessageContent, MessagePart } from "./chat_message.ts";

/** One prompt, in exactly one of four forms. */
export interface GenerationRequest extends SharedRequest {
  /** Raw text. A beginning-of-sequence token is put in front when the tokenizer asks for it. */
  readonly prompt?: string;
  /** A conversation, rendered by the model's chat template. */
  readonly messages?: readonly ChatMessage[];
  /** Token ids, used as they are. */
  readonly tokens?: readonly number[];
  /**
   * Embeddings in place of tokens, a row of the model's `hiddenSize` numbers for each: used as they
   * are, in f32. Their log-probabilities are null, and they count as tokens otherwise. Rows that are f32
   * already are not copied: leave them as they are until the request has ended, others until its first chunk.
   */
  readonly inputEmbeds?: readonly (readonly number[] | Float32Array)[];
  /**
   * Images, for models that read them: one for each place of `prompt` that the model's placeholder
   * marks, or for each part "image" of `messages`, in order. Leave them as they are until the first
   * chunk. Default none.
   */
  readonly images?: readonly ImageInput[];
  /** Function tools for the chat template, in OpenAI's form. Only with `messages`. */
  readonly tools?: readonly unknown[];
  /** Further variables for the chat template. Only with `messages`. */
  readonly templateVariables?: Readonly<Record<string, unknown>>;
  /**
   * Goes on with the last of `messages`, which must be an assistant's text, in place of a new one.
   * The completion is what comes behind that text. Default false.
   */
  readonly continueFinalMessage?: boolean;
  readonly sampling?: SamplingParams;
  /**
   * What the completion must be, for what `sampling` has no field for: tool calls of a model's
   * format, answers behind thoughts. The engine's grammar backend does not limit it.
   */
  readonly constraint?: Constraint;
  /** How the model writes down thoughts, where those come before what is constrained. */
  readonly thinking?: Thinking;
  /**
   * Tokens of a thought at most: the mark that ends it then follows, whatever the model would have
   * said. A whole number; 0 ends it at once. Only with `thinking`. Default: as many as there is room for.
   */
  readonly maxThinkingTokens?: number;
  /** Asks for log-probabilities. */
  readonly logprobs?: LogprobOptions;
  /** Names the request in logs and for `abort`; the engine invents one when absent. */
  readonly requestId?: string;
  /** Whose request it is: texts of several clients are read by turns. Default: that is not known. */
  readonly client?: string;
  /** Requests of the same key that live at the same time have one prompt, which is read once for all. */
  readonly promptKey?: string;
  /** Cached prefixes are shared among requests of the same salt only. */
  readonly cacheSalt?: string;
  /**
   * Stores what the cache has of the prompt beyond the engine's life: all, or that many tokens at
   * least 64, in whole blocks of 64. Refused by engines without a store. Default false.
   */
  readonly storePrefix?: boolean | number;
  /** Whether what is counted of requests counts this one, by those who watch the engine. Default true. */
  readonly isMeasured?: boolean;
  /** A whole number; of the requests that wait, those with a higher one start first. Default 0. */
  readonly priority?: number;
  /** Tokens of a chunk, at least 1; the first token comes at once, the last chunk has what is left. Default 1. */
  readonly streamInterval?: number;
  /**
   * The replica that answers, of several behind one engine: a whole number less than the model's
   * `dataParallelSize`. Default: as they are balanced.
   */
  readonly dataParallelRank?: number;
}

/** A text or a conversation to be written as tokens, in exactly one of the two forms. */
export interface TokenizeRequest
  extends Pick<
    GenerationRequest,
    | "prompt"
    | "messages"
    | "images"
    | "tools"
    | "templateVariables"
    | "continueFinalMessage"
    | "client"
  > {
  /**
   * Puts the beginning-of-sequence token in front of `prompt` when the tokenizer asks for it.
   * Default true. A chat template says itself what it begins with.
   */
  readonly addSpecialTokens?: boolean;
}

export interface DetokenizeOptions extends Pick<GenerationRequest, "client"> {
  /** Leaves special tokens out of the text. Default true. */
  readonly skipSpecialTokens?: boolean;
  /** The caller waits no more. An engine in another thread goes on. */
  readonly signal?: AbortSignal;
}

/** Why a sequence ended. */
export type FinishReason =
  /** `matched` is the token id or the stop string that ended it. */
  | { readonly type: "stop"; readonly matched: number | string }
  /** `length` is the limit that was reached, in completion tokens. */
  | { readonly type: "length"; readonly length: number }
  | { readonly type: "abort"; readonly message: string };

/** What one or more steps added to a sequence. */
export interface GenerationChunk {
  readonly requestId: string;
  /** Text that is safe to show: whole characters, never part of a stop string. May be empty. */
  readonly text: string;
  /** New completion tokens, the one that ended the sequence included. */
  readonly tokens: readonly number[];
  /** One for each of `tokens`, when they were asked for. */
  readonly logprobs?: readonly TokenLogprobs[];
  /** On the first chunk: bytes that all log-probabilities take at most while they are held. */
  readonly logprobBytes?: number;
  /** On the chunk of the first token, when they were asked for. */
  readonly promptLogprobs?: readonly PromptLogprobs[];
  readonly promptTokens: number;
  /** Those of them that are rows of images. Default 0. */
  readonly imageTokens?: number;
  /** Completion tokens so far, this chunk's included. */
  readonly completionTokens: number;
  /** Prompt tokens that were found in the prefix cache. */
  readonly cachedTokens: number;
  /** Seconds from its acceptance to its first row, on one chunk behind that. */
  readonly queueSeconds?: number;
  /** Of the constraint, on the chunk that accepts the request. */
  readonly compilation?: GrammarCompilation;
  /** On the last chunk of a constrained answer: tokens of it that took no step. */
  readonly forcedTokens?: number;
  /** The replica that answers, where there are several. */
  readonly dataParallelRank?: number;
  /** On the last chunk, where the engine speculates. */
  readonly speculation?: SpeculationFigures;
  /** Set on the last chunk only. */
  readonly finish: FinishReason | null;
}

export interface ModelDescription {
  /** Path or id the model was loaded from. */
  readonly path: string;
  /** Class name in config.json. */
  readonly architecture: string;
  /** `model_type` in config.json. */
  readonly modelType: string | undefined;
  /** Name of the family whose way to write conversations it follows, or "unknown". */
  readonly family: string;
  /**
   * Those variables of its chat template by which a request says how much to think: of "thinking",
   * "enable_thinking" and "reasoning_effort".
   */
  readonly thinkingVariables: readonly string[];
  /** Tokens a sequence may have, prompt and completion together. */
  readonly contextLength: number;
  readonly vocabularySize: number;
  /** Numbers of one embedding. */
  readonly hiddenSize: number;
  /** Whether it reads images. Default false. */
  readonly readsImages?: boolean;
  /** Whether prefixes can be stored beyond the engine's life. Default false. */
  readonly storesPrefixes?: boolean;
  /** Replicas of it behind the engine, which answer different requests. Default 1. */
  readonly dataParallelSize?: number;
  /** Sampling defaults, those of generation_config.json for one; chat requests start from them. */
  readonly defaults: {
    readonly temperature?: number;
    readonly topP?: number;
    readonly topK?: number;
    /** Completion tokens of an answer that does not say; `null` fills the context, as without it. */
    readonly maxNewTokens?: number | null;
  };
}

export interface EngineStatus extends RanksStatus {
  /** False once the engine is closed, or its device is lost and cannot be replaced. */
  readonly healthy: boolean;
  /** Whether a lost device is being replaced; requests wait meanwhile. */
  readonly recovering: boolean;
  /** How often a lost device was replaced. */
  readonly recoveries: number;
  /** Whether it only answers what it has been asked, and ends then. Absent where it takes requests. */
  readonly draining?: boolean;
  /** That it has left the device for lack of requests, or is coming back. Absent while it is there. */
  readonly sleep?: "asleep" | "waking";
  readonly runningRequests: number;
  /** That may run at once. */
  readonly maxRunningRequests: number;
  readonly queuedRequests: number;
  /** That may wait; more are refused. Absent where there is no limit. */
  readonly maxQueuedRequests?: number;
  /** Tokens of requests that have not begun. */
  readonly queuedTokens: number;
  /** Slots of the KV cache, and those in use. */
  readonly totalTokens: number;
  readonly usedTokens: number;
  /** Slots whose contents no sequence uses and a prompt may find again; free when needed. */
  readonly cachedTokens: number;
  /** How often requests had to give their cache back and were computed again. */
  readonly retractions: number;
  /** Requests that had to, and have not come back yet. */
  readonly retractedRequests: number;
  /** Bytes of the devices' memory that weights and KV cache take, on all ranks. */
  readonly weightBytes: number;
  readonly cacheBytes: number;
  /** Seconds since a step has last finished while there is work; 0 when there is none. */
  readonly stalledFor: number;
  /** Whether an answer has the same bits alone and in a batch on this adapter, as its self-test found. */
  readonly batchInvariant: boolean;
  /** Of all requests since the start or the last `flushCache`; absent without speculation. */
  readonly speculation?: SpeculationFigures;
  /** What the store of prefixes has, of all models that it keeps; absent where there is none. */
  readonly prefixStore?: PrefixStoreStatus;
  /** Names of the arithmetic and the order of sums in each phase; of equal names the bits are equal. */
  readonly numericClasses: { readonly prefill: string; readonly decode: string };
  /** Of each replica, by its number: what is above is of all together. Absent where there is one. */
  readonly replicas?: readonly EngineStatus[];
}

/** 32 hexadecimal digits, as unlikely to repeat as a UUID. */
export function newRequestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export interface GenerationEngine extends Partial<RecordsExperts> {
  readonly model: ModelDescription;

  /**
   * Generates one completion. Leaving the loop or aborting the signal ends it and frees its pages.
   * Everything is checked before the first chunk: the first `next()` rejects.
   *
   * @throws {InvalidRequestError} when a field is out of range or the prompt is empty or too long.
   * @throws {CapacityError} when the queue is full.
   * @throws {DOMException} named AbortError when `signal` is aborted.
   */
  generate(
    request: GenerationRequest & { readonly signal?: AbortSignal },
  ): AsyncIterable<GenerationChunk>;

  /**
   * Ends requests early: their last chunk has the text so far and the finish reason "abort".
   * A request that has ended, or that the engine does not know, is none to end.
   *
   * @param requestId Default: all requests.
   */
  abort(requestId?: string): void;

  /**
   * The tokens that `generate` would read a prompt as.
   *
   * @throws {InvalidRequestError} when there is not exactly one prompt, or it cannot be rendered.
   * @throws {CapacityError} when too much text waits.
   * @throws {DOMException} named AbortError when `signal` is aborted, unless the engine is in another
   * thread.
   */
  tokenize(
    request: TokenizeRequest & { readonly signal?: AbortSignal },
  ): Promise<readonly number[]>;

  /**
   * The text of a whole list of tokens.
   *
   * @throws {InvalidRequestError} when one is not in the vocabulary.
   */
  detokenize(tokens: readonly number[], options?: DetokenizeOptions): Promise<string>;

  status(): EngineStatus;

  /**
   * Measures the steps that run while `work` does, on the GPU and on the host. Answers have the same
   * bits and take longer. Absent in engines that cannot be measured.
   *
   * @param work Is called once everything is ready; the profile ends when what it returns resolves.
   * @throws {InvalidRequestError} when a profile is being taken, or an option is out of range.
   * @throws {UnsupportedError} when the GPU cannot take times, naming the feature.
   */
  profile?(work: () => Promise<unknown>, options?: ProfileOptions): Promise<Profile>;

  /**
   * What the prefix cache holds, to be drawn; no use of it. Absent in engines that cannot tell.
   * @throws {InvalidRequestError} when an option is out of range.
   */
  cacheTree?(options?: CacheTreeOptions): Promise<CacheTree>;

  /**
   * Forgets what the prefix cache has, so that the next prompts are computed from their first token,
   * or from where what is stored of them ends.
   *
   * @returns Whether it could: false, and nothing has changed, while requests run or wait.
   */
  flushCache(options?: FlushOptions): Promise<boolean>;

  /** Ends running requests with an abort and frees the device's memory. */
  close(): Promise<void>;
}
