/**
 * Ends a thought at its limit: from then on no token may come but those of the mark that ends it.
 *
 * Whether a model thinks is told by the text, as those tell it who read the answer: a thought stands in
 * front or nowhere.
 *
 * @module
 */
import type { Thinking } from "../../constraint.ts";
import { InvalidRequestError } from "../../errors.ts";
import type { GenerationRequest } from "../../generation.ts";

export interface ThinkingLimitOptions {
  /** Tokens between the marks at most. */
  readonly limit: number;
  readonly thinking: Thinking;
  /** Tokens that spell the mark that ends a thought. */
  readonly endTokens: readonly number[];
  readonly decode: (tokens: readonly number[]) => string;
  readonly vocabularySize: number;
}

export class ThinkingLimit {
  readonly #options: ThinkingLimitOptions;
  #state: "before" | "within" | "over";
  /** Tokens of the thought. */
  #count = 0;
  /** The newest tokens, as many as a mark may have. */
  #recent: readonly number[] = [];

  constructor(options: ThinkingLimitOptions) {
    this.#options = options;
    this.#state = options.thinking.isOpen ? "within" : "before";
  }

  /** Tokens that may come whatever they are, before the mark has to. */
  get left(): number {
    const { limit } = this.#options;
    if (this.#state === "over") return Number.POSITIVE_INFINITY;
    return this.#state === "before" ? limit + 1 : Math.max(0, limit - this.#count);
  }

  /** Allows the one token that has to come next; undefined where another one may. */
  get mask(): Uint32Array | undefined {
    if (this.left > 0) return undefined;
    const { endTokens, vocabularySize } = this.#options;
    const token = endTokens[this.#begun()]!;
    const mask = new Uint32Array(Math.ceil(vocabularySize / 32));
    mask[token >>> 5] = 2 ** (token & 31);
    return mask;
  }

  /** Takes the sequence's next token. */
  push(token: number): void {
    if (this.#state === "over") return;
    const { thinking, decode } = this.#options;
    const mark = this.#state === "before" ? thinking.begin : thinking.end;
    // No token of a mark has less than one of its characters.
    this.#recent = [...this.#recent, token].slice(-mark.length);
    const text = decode(this.#recent);
    if (this.#state === "before") this.#begin(text.trimStart());
    else {
      this.#count += 1;
      if (text.includes(mark)) this.#state = "over";
    }
  }

  /** @param text What the model has said so far, without white space in front. */
  #begin(text: string): void {
    const { begin } = this.#options.thinking;
    const isBegun = text.startsWith(begin);
    if (isBegun || text === "") this.#recent = [];
    if (isBegun) this.#state = "within";
    else if (!begin.startsWith(text)) this.#state = "over";
  }

  /** Tokens of the mark that are there already. */
  #begun(): number {
    const { endTokens } = this.#options;
    for (let count = endTokens.length - 1; count > 0; count--) {
      const last = this.#recent.slice(-count);
      if (last.length === count && last.every((token, i) => token === endTokens[i])) return count;
    }
    return 0;
  }
}

/** Spells marks, and reads them. */
export interface MarkSpelling {
  encode(text: string): readonly number[];
  decode(tokens: readonly number[]): string;
}

/**
 * The limit of a request; undefined where it has none.
 *
 * @throws {InvalidRequestError} when it is no whole number, or nothing is known of thoughts.
 */
export function thinkingLimitOf(
  { maxThinkingTokens: limit, thinking }: GenerationRequest,
  {
    tokenizer,
    vocabularySize,
  }: { readonly tokenizer: MarkSpelling; readonly vocabularySize: number },
): ThinkingLimit | undefined {
  if (limit === undefined) return undefined;
  const field = "maxThinkingTokens";
  if (!Number.isSafeInteger(limit) || limit < 0) {
    throw new InvalidRequestError(
      `${field} must be a whole number of at least 0, got ${limit}`,
      field,
    );
  }
  if (thinking === undefined) {
    throw new InvalidRequestError(
      `Cannot use ${field}: the request says nothing of thinking`,
      field,
    );
  }
  const endTokens = tokenizer.encode(thinking.end);
  const decode = (tokens: readonly number[]) => tokenizer.decode(tokens);
  if (!decode(endTokens).includes(thinking.end)) {
    const problem = `the model's tokens do not spell ${JSON.stringify(thinking.end)}`;
    throw new InvalidRequestError(`Cannot use ${field}: ${problem}`, field);
  }
  return new ThinkingLimit({ limit, thinking, endTokens, decode, vocabularySize });
}
