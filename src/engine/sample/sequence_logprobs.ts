/**
 * The log-probabilities one sequence asks for, as they come from the GPU and as its chunks carry
 * them.
 *
 * The prompt's token at position p is scored by the row at position p - 1. The first one told about
 * has no row that was asked for, so its log-probability is null. Embeddings are no tokens,
 * so all that is told about them is that they are there.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import {
  type LogprobOptions,
  logprobBytes,
  MAX_LOGPROB_BYTES,
  MAX_LOGPROB_TOKENS,
  MAX_TOP_LOGPROBS,
  type PromptLogprobs,
  type TokenLogprobs,
} from "../../logprobs.ts";
import { HeldLogprobs } from "./held_logprobs.ts";
import type { LogprobWish, ScoredRow } from "./sampled_row.ts";

export interface SequenceLogprobsOptions {
  readonly prompt: readonly number[];
  /** Whether a position of the prompt is an embedding: tokens alone have log-probabilities. Default: none is. */
  readonly isEmbedded?: (position: number) => boolean;
  /** Divides the logits of completion tokens; those of the prompt are taken as they are. */
  readonly temperature: number;
  readonly vocabularySize: number;
  /** Completion tokens at most. */
  readonly maxNewTokens: number;
  /** Text of a token, for those who want it. */
  readonly text: (token: number) => string;
}

/** What is told about an embedding of a prompt. */
const EMBEDDING: PromptLogprobs = { token: null, logprob: null, top: null, given: null };

export class SequenceLogprobs {
  readonly #request: LogprobOptions;
  readonly #options: SequenceLogprobsOptions;
  /** First prompt position told about; the prompt's length when none is. */
  readonly #start: number;
  readonly #prompt: (PromptLogprobs | undefined)[];
  /** Where in that list the first entry is missing, and how many are. */
  #firstMissing = 0;
  #missing: number;
  #completion: TokenLogprobs[] = [];
  /** Bytes that all entries take at most. */
  readonly byteLength: number;
  #promptIsOut = false;

  /** @throws {InvalidRequestError} naming the field out of range. */
  constructor(request: LogprobOptions, options: SequenceLogprobsOptions) {
    const { prompt, vocabularySize, isEmbedded = () => false } = options;
    const { promptStart = prompt.length, topCount = 0, tokenIds = [] } = request;
    const refuse = (field: string, rule: string, value: unknown): never => {
      throw new InvalidRequestError(`${field} must be ${rule}, got ${String(value)}`, field);
    };
    const start = promptStart === -1 ? prompt.length - 1 : promptStart;
    const isGiven = request.promptStart !== undefined;
    if (!(Number.isSafeInteger(start) && start >= 0) || (isGiven && start >= prompt.length)) {
      const rule = `-1 or a prompt position below ${prompt.length}`;
      refuse("logprobs.promptStart", rule, promptStart);
    }
    if (!(Number.isSafeInteger(topCount) && topCount >= 0 && topCount <= MAX_TOP_LOGPROBS)) {
      refuse("logprobs.topCount", `a whole number from 0 to ${MAX_TOP_LOGPROBS}`, topCount);
    }
    if (tokenIds.length > MAX_LOGPROB_TOKENS) {
      refuse("logprobs.tokenIds", `at most ${MAX_LOGPROB_TOKENS} token ids`, tokenIds.length);
    }
    const wrong = tokenIds.find(
      (id) => !(Number.isSafeInteger(id) && id >= 0 && id < vocabularySize),
    );
    if (wrong !== undefined) {
      refuse("logprobs.tokenIds", `token ids below ${vocabularySize}`, wrong);
    }
    const positions = { prompt: prompt.length - start, completion: options.maxNewTokens };
    this.byteLength = logprobBytes(request, positions);
    if (this.byteLength > MAX_LOGPROB_BYTES) {
      const all = `${positions.prompt} positions of the prompt and ${positions.completion} tokens`;
      throw new InvalidRequestError(
        `Cannot tell the log-probabilities of ${all} with ${topCount} likeliest and ${tokenIds.length} ` +
          `given ones each: they take ${this.byteLength} bytes, and an answer may have ${MAX_LOGPROB_BYTES}`,
        "logprobs",
      );
    }
    this.#request = request;
    this.#options = options;
    this.#start = start;
    this.#prompt = Array.from({ length: prompt.length - start }, (_, i) =>
      isEmbedded(start + i) ? EMBEDDING : undefined,
    );
    if (this.#prompt.length > 0) {
      const none = { logprob: null, top: null, given: null };
      this.#prompt[0] ??= { ...this.#token(prompt[start]!), ...none };
    }
    this.#missing = this.#prompt.filter((entry) => entry === undefined).length;
  }

  /** Position of the first row that has to be computed although a cache may have its keys. */
  get firstRow(): number {
    if (this.#missing === 0) return Number.POSITIVE_INFINITY;
    while (this.#prompt[this.#firstMissing] !== undefined) this.#firstMissing += 1;
    return this.#start + this.#firstMissing - 1;
  }

  /** Results of each of its rows. */
  get resultsPerRow(): number {
    const { topCount = 0, tokenIds = [] } = this.#request;
    return 1 + topCount + tokenIds.length;
  }

  /** Whether the row at `position` scores a prompt token that is still to be told. */
  wantsRow(position: number): boolean {
    const index = position + 1 - this.#start;
    return index > 0 && index < this.#prompt.length && this.#prompt[index] === undefined;
  }

  /**
   * How many of the next `rows` rows from `position` on can be computed when at most `room` of them
   * may be scored, and how many of those are.
   */
  fit(position: number, rows: number, room: number): readonly [rows: number, scored: number] {
    let scored = 0;
    for (let i = 0; i < rows; i++) {
      if (!this.wantsRow(position + i)) continue;
      if (scored === room) return [i, scored];
      scored += 1;
    }
    return [rows, scored];
  }

  /** The prompt's row at `position`, to be scored. */
  scoredRow(position: number): ScoredRow {
    const index = position + 1 - this.#start;
    const keep = (entry: TokenLogprobs) => {
      if (this.#prompt[index] === undefined) this.#missing -= 1;
      this.#prompt[index] = entry;
    };
    return { token: this.#options.prompt[position + 1]!, logprobs: this.#wish(1, keep) };
  }

  /** What is wanted of the row that the next token is sampled from. */
  sampledRow(): LogprobWish {
    return this.#wish(this.#options.temperature, (entry) => this.#completion.push(entry));
  }

  /** The oldest completion token's entry that has not been taken. */
  takeToken(): TokenLogprobs | undefined {
    return this.#completion.shift();
  }

  /**
   * Keeps of the oldest entries those of these numbers, in this order: those of other rows are not taken.
   *
   * @param count Of the step's rows; entries behind theirs are of steps after it.
   */
  keepRows(rows: readonly number[], count: number): void {
    const own = this.#completion.splice(0, count);
    this.#completion = rows.flatMap((row) => own[row] ?? []).concat(this.#completion);
  }

  /**
   * Forgets the oldest entries of tokens that are not taken, and never are: entries of other tokens
   * come in their place.
   *
   * @param count How many. Default all.
   */
  forgetPending(count = this.#completion.length): void {
    this.#completion.splice(0, count);
  }

  /** The prompt's entries, once. */
  takePrompt(): readonly PromptLogprobs[] | undefined {
    if (this.#promptIsOut || this.#request.promptStart === undefined) return undefined;
    if (this.#missing > 0) return undefined;
    this.#promptIsOut = true;
    return this.#prompt as readonly PromptLogprobs[];
  }

  #wish(temperature: number, keep: (entry: TokenLogprobs) => void): LogprobWish {
    const { topCount: top = 0, tokenIds = [], text: wantsText } = this.#request;
    const text = wantsText === true ? this.#options.text : undefined;
    return {
      temperature,
      top,
      tokenIds,
      deliver: (tokens, logprobs) =>
        keep(new HeldLogprobs(tokens, logprobs, { givenCount: tokenIds.length, text })),
    };
  }

  #token(token: number): { readonly token: number; readonly text?: string } {
    if (this.#request.text !== true) return { token };
    return { token, text: this.#options.text(token) };
  }
}
