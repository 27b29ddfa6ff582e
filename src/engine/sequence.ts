/**
 * One growing list of tokens: the only mutable state of a request.
 *
 * | range of `tokens` | what it is |
 * |---|---|
 * | `[0, promptLength)` | the prompt |
 * | `[promptLength, length)` | completion tokens |
 * | `[0, computed)` | tokens whose keys and values are in the cache |
 * | `[computed, length)` | tokens still to be computed; decoding leaves exactly one |
 *
 * @module
 */
import type { FinishReason, GenerationChunk } from "../generation.ts";
import type { Detokenizer } from "../text/detokenizer.ts";
import type { Sampling } from "./sampling_params.ts";
import { StopStrings } from "./stop.ts";

export interface SequenceOptions {
  readonly requestId: string;
  readonly prompt: readonly number[];
  readonly sampling: Sampling;
  /** Completion tokens at most, context and cache considered. */
  readonly maxNewTokens: number;
  /** Ids that end the sequence unless `ignoreEos`. */
  readonly eosTokenIds: ReadonlySet<number>;
  readonly detokenizer: Detokenizer;
  /** Takes each chunk as it comes. */
  readonly onChunk: (chunk: GenerationChunk) => void;
  /** Takes the error that ended the sequence instead of a last chunk. */
  readonly onError: (error: unknown) => void;
}

export class Sequence {
  readonly requestId: string;
  readonly sampling: Sampling;
  readonly promptLength: number;
  readonly maxNewTokens: number;
  readonly tokens: number[];
  /** Tokens whose keys and values are in the cache. */
  computed = 0;
  /** Pages that hold them, in order. */
  pageTable: number[] = [];
  /** Pages set aside for it, those of `pageTable` included. */
  reservedPages = 0;
  finish: FinishReason | null = null;
  readonly #options: SequenceOptions;
  readonly #stop: StopStrings;

  constructor(options: SequenceOptions) {
    this.requestId = options.requestId;
    this.sampling = options.sampling;
    this.promptLength = options.prompt.length;
    this.maxNewTokens = options.maxNewTokens;
    this.tokens = [...options.prompt];
    this.#options = options;
    this.#stop = new StopStrings(options.sampling.stop);
  }

  get completionLength(): number {
    return this.tokens.length - this.promptLength;
  }

  /** Tokens that may ever be in the cache: the last one sampled never is. */
  get maxCachedTokens(): number {
    return this.promptLength + Math.max(this.maxNewTokens, 1) - 1;
  }

  /** Says that the request is accepted, before its first token. */
  announce(): void {
    this.#emit("", []);
  }

  /** Appends a sampled token, decides whether the sequence ends, and passes on its text. */
  append(token: number): void {
    const { detokenizer } = this.#options;
    this.tokens.push(token);
    this.finish = this.#finishAt(token);
    // A token that ends the sequence has no text of its own; one at the length limit does.
    const endsByToken = this.finish?.type === "stop";
    let text = endsByToken ? "" : this.#stop.push(detokenizer.push([token]));
    if (this.finish !== null && this.#stop.matched === undefined) {
      text += this.#stop.push(detokenizer.flush());
    }
    const { matched } = this.#stop;
    if (matched !== undefined && this.finish?.type !== "length") {
      this.finish = { type: "stop", matched };
    } else if (this.finish !== null) {
      text += this.#stop.flush();
    }
    this.#emit(text, [token]);
  }

  /** Ends the sequence early with the text so far. */
  abort(message: string): void {
    if (this.finish !== null) return;
    this.finish = { type: "abort", message };
    this.#emit("", []);
  }

  fail(error: unknown): void {
    this.finish = { type: "abort", message: "the engine failed" };
    this.#options.onError(error);
  }

  /** The limit comes first: a token that is both the last allowed and EOS reports `length`. */
  #finishAt(token: number): FinishReason | null {
    const { sampling, eosTokenIds } = this.#options;
    if (this.completionLength >= this.maxNewTokens) {
      return { type: "length", length: this.maxNewTokens };
    }
    if (sampling.ignoreEos) return null;
    if (eosTokenIds.has(token) || sampling.stopTokenIds.has(token)) {
      return { type: "stop", matched: token };
    }
    return null;
  }

  #emit(text: string, tokens: readonly number[]): void {
    this.#options.onChunk({
      requestId: this.requestId,
      text,
      tokens,
      promptTokens: this.promptLength,
      completionTokens: this.completionLength,
      cachedTokens: 0,
      finish: this.finish,
    });
  }
}
