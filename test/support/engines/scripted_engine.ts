/**
 * A `GenerationEngine` without a model: it answers what its script says, by default the prompt
 * itself, and keeps account of what it was asked and of what still runs.
 *
 * It stands in for the engine in tests of the server, and is the null model of benches of the
 * server's own cost.
 *
 * @module
 */

import { textOf as contentText } from "../../../src/chat_message.ts";
import type { GrammarCompilation } from "../../../src/constraint.ts";
import { completionLimit } from "../../../src/engine/prompt.ts";
import { tooLong } from "../../../src/engine/text/text_jobs.ts";
import { CapacityError, InvalidRequestError } from "../../../src/errors.ts";
import type {
  DetokenizeOptions,
  EngineStatus,
  FinishReason,
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
  ModelDescription,
  TokenizeRequest,
} from "../../../src/generation.ts";
import type { FlushOptions } from "../../../src/prefix_cache.ts";

/** What one generation does. */
export interface Script {
  /** Text of each chunk; each is one token. Default: the characters of the prompt, repeated. */
  readonly pieces?: readonly string[];
  /** How it ends after the last piece. Default: a stop token when there are `pieces`. */
  readonly finish?: FinishReason;
  /** Told by the first chunk. */
  readonly compilation?: GrammarCompilation;
  /** Thrown before the chunk with this number, from 0. */
  readonly failure?: { readonly at: number; readonly error: unknown };
  /** Waited for before each chunk. */
  readonly gate?: (chunk: number) => Promise<void>;
}

export interface ScriptedEngineOptions {
  readonly script?: (request: GenerationRequest) => Script;
  readonly model?: Partial<ModelDescription>;
  /** Generations that may run at once. Default: any number. */
  readonly capacity?: number;
  /** Generations that may wait, as its status tells. Default: no limit. */
  readonly maxQueuedRequests?: number;
  readonly healthy?: boolean;
  /** Seconds without a step, as its status tells. */
  readonly stalledFor?: number;
}

export const STOP_TOKEN = 1;

export class ScriptedEngine implements GenerationEngine {
  readonly model: ModelDescription;
  /** Everything that was asked, in order. */
  readonly requests: GenerationRequest[] = [];
  /** Everything that `tokenize` was asked, in order. */
  readonly tokenized: TokenizeRequest[] = [];
  /** What each flush was to delete. */
  readonly flushes: FlushOptions[] = [];
  /** Ids of the generations that ended before their last chunk. */
  readonly cutShort: string[] = [];
  readonly #options: ScriptedEngineOptions;
  readonly #running = new Set<string>();
  readonly #aborts = new Set<{ readonly requestId: string; readonly abort: AbortController }>();

  constructor(options: ScriptedEngineOptions = {}) {
    this.#options = options;
    this.model = {
      path: "models/scripted",
      architecture: "ScriptedForCausalLM",
      modelType: "scripted",
      family: "unknown",
      thinkingVariables: [],
      contextLength: 4096,
      vocabularySize: 65536,
      hiddenSize: 4,
      defaults: {},
      ...options.model,
    };
  }

  /** Ids of the generations that hold resources now. */
  get running(): readonly string[] {
    return [...this.#running];
  }

  async *generate(
    request: GenerationRequest & { readonly signal?: AbortSignal },
  ): AsyncGenerator<GenerationChunk, void> {
    const { signal, ...asked } = request;
    this.requests.push(asked);
    const requestId = asked.requestId ?? `scripted-${this.requests.length}`;
    const prompt = this.#check(asked);
    const script = this.#options.script?.(asked) ?? {};
    const { pieces, finish } = plan(script, prompt, asked, this.model);

    // A limit ends with the last piece's own chunk; a stop token is one more.
    const lastChunk = finish.type === "stop" ? pieces.length : Math.max(0, pieces.length - 1);

    this.#running.add(requestId);
    const live = { requestId, abort: new AbortController() };
    this.#aborts.add(live);
    const ends = AbortSignal.any([live.abort.signal, ...(signal ? [signal] : [])]);
    let over = false;
    try {
      for (let i = 0; i <= lastChunk; i++) {
        signal?.throwIfAborted();
        if (script.gate) await untilAborted(script.gate(i), ends);
        signal?.throwIfAborted();
        if (live.abort.signal.aborted) {
          over = true;
          yield {
            requestId,
            text: "",
            tokens: [],
            promptTokens: prompt.length,
            completionTokens: i,
            cachedTokens: 0,
            finish: { type: "abort", message: "Aborted" },
          };
          return;
        }
        over = i === lastChunk || script.failure?.at === i;
        if (script.failure?.at === i) throw script.failure.error;
        const text = pieces[i] ?? "";
        const token = text === "" ? STOP_TOKEN : text.charCodeAt(0);
        yield {
          requestId,
          text,
          tokens: text === "" && finish.type !== "stop" ? [] : [token],
          promptTokens: prompt.length,
          completionTokens: i + 1,
          cachedTokens: 0,
          ...(i === 0 && script.compilation && { compilation: script.compilation }),
          finish: i === lastChunk ? finish : null,
        };
      }
    } finally {
      this.#running.delete(requestId);
      this.#aborts.delete(live);
      if (!over) this.cutShort.push(requestId);
    }
  }

  abort(requestId?: string): void {
    for (const live of this.#aborts) {
      if (requestId === undefined || live.requestId === requestId) live.abort.abort();
    }
  }

  /** One token a character. */
  async tokenize({
    signal: _,
    ...request
  }: TokenizeRequest & { readonly signal?: AbortSignal }): Promise<readonly number[]> {
    this.tokenized.push(request);
    return Array.from(textOf(request), (character) => character.charCodeAt(0));
  }

  async detokenize(
    tokens: readonly number[],
    { skipSpecialTokens = true }: DetokenizeOptions = {},
  ): Promise<string> {
    const shown = tokens.filter((token) => token !== STOP_TOKEN || !skipSpecialTokens);
    return String.fromCharCode(...shown);
  }

  status(): EngineStatus {
    const { maxQueuedRequests } = this.#options;
    return {
      ...(maxQueuedRequests !== undefined && { maxQueuedRequests }),
      healthy: this.#options.healthy ?? true,
      runningRequests: this.#running.size,
      maxRunningRequests: 32,
      queuedRequests: 0,
      queuedTokens: 0,
      totalTokens: 65536,
      usedTokens: 0,
      cachedTokens: 0,
      recovering: false,
      recoveries: 0,
      retractions: 0,
      retractedRequests: 0,
      stalledFor: this.#options.stalledFor ?? 0,
      weightBytes: 2 ** 30,
      cacheBytes: 2 ** 29,
      batchInvariant: true,
      numericClasses: { prefill: "fma128", decode: "fma128" },
    };
  }

  async flushCache(options: FlushOptions = {}): Promise<boolean> {
    this.flushes.push(options);
    return this.#running.size === 0;
  }

  async close(): Promise<void> {}

  /** The checks that every engine makes, on a prompt of one token a character. */
  #check(request: GenerationRequest): string {
    const { capacity = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#running.size >= capacity)
      throw new CapacityError("places in the request queue", capacity, `all ${capacity} are taken`);
    const prompt =
      textOf(request) ||
      request.inputEmbeds?.map(() => "e").join("") ||
      String.fromCharCode(...(request.tokens ?? []));
    if (prompt === "") throw new InvalidRequestError("The prompt is empty");
    const beyond = request.tokens?.find((id) => id >= this.model.vocabularySize);
    if (beyond !== undefined) {
      throw new InvalidRequestError(`Cannot use token ${beyond}: it is not in the vocabulary`);
    }
    const { contextLength } = this.model;
    if (prompt.length >= contextLength) throw tooLong(prompt.length, contextLength);
    const room = { contextLength, fallback: 128 };
    completionLimit(prompt.length, request.sampling?.maxNewTokens, room);
    return prompt;
  }
}

function textOf({ prompt, messages }: TokenizeRequest): string {
  return prompt ?? contentText(messages?.at(-1)?.content ?? null);
}

function plan(
  script: Script,
  prompt: string,
  { sampling = {} }: GenerationRequest,
  { contextLength }: ModelDescription,
): { pieces: readonly string[]; finish: FinishReason } {
  const stop: FinishReason = { type: "stop", matched: STOP_TOKEN };
  if (script.pieces) return { pieces: script.pieces, finish: script.finish ?? stop };
  const wanted = sampling.maxNewTokens === undefined ? 128 : sampling.maxNewTokens;
  const limit = Math.max(1, wanted ?? contextLength - prompt.length);
  const long = sampling.ignoreEos === true || limit <= prompt.length;
  const count = long ? limit : prompt.length;
  const pieces = Array.from({ length: count }, (_, i) => prompt[i % prompt.length]!);
  const length: FinishReason = { type: "length", length: wanted ?? limit };
  return { pieces, finish: script.finish ?? (long ? length : stop) };
}

/** Waits until the one or the other. */
function untilAborted(wait: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve();
    if (signal.aborted) resolve();
    signal.addEventListener("abort", onAbort, { once: true });
    wait.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
