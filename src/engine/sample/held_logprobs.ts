/**
 * Log-probabilities at one position while they are held: in 8 bytes each, and objects only when they
 * are looked at.
 *
 * @module
 */
import type { TokenLogprob, TokenLogprobs } from "../../logprobs.ts";

export interface HeldOptions {
  /** How many of the results, from the last one back, are of tokens that were asked for. */
  readonly givenCount: number;
  /** Text of a token, where it is wanted. */
  readonly text: ((token: number) => string) | undefined;
}

const NOTHING = new Uint32Array(0);

/** `top` and `given` are lists made anew at each look. */
export class HeldLogprobs implements TokenLogprobs {
  readonly token: number;
  readonly logprob: number;
  declare readonly text?: string;
  declare readonly top: readonly TokenLogprob[];
  declare readonly given: readonly TokenLogprob[];
  /** The results but the first: their tokens, and behind them the bits of their values. */
  readonly #words: Uint32Array;
  readonly #options: HeldOptions;

  /** One of each, and not one of every position: then all positions have one shape. */
  static readonly #LISTS: PropertyDescriptorMap & ThisType<HeldLogprobs> = {
    top: {
      enumerable: true,
      get() {
        return this.#list(0, this.#count - this.#options.givenCount);
      },
    },
    given: {
      enumerable: true,
      get() {
        return this.#list(this.#count - this.#options.givenCount, this.#count);
      },
    },
  };

  /** @param tokens The position's own first, then the likeliest, then those asked for; copied. */
  constructor(tokens: Uint32Array, logprobs: Float32Array, options: HeldOptions) {
    this.token = tokens[0]!;
    this.logprob = logprobs[0]!;
    if (options.text !== undefined) this.text = options.text(this.token);
    const count = tokens.length - 1;
    this.#options = options;
    this.#words = count === 0 ? NOTHING : new Uint32Array(2 * count);
    this.#words.set(tokens.subarray(1));
    this.#values.set(logprobs.subarray(1));
    Object.defineProperties(this, HeldLogprobs.#LISTS);
  }

  get #count(): number {
    return this.#words.length / 2;
  }

  get #values(): Float32Array {
    return new Float32Array(this.#words.buffer, 4 * this.#count, this.#count);
  }

  #list(first: number, end: number): readonly TokenLogprob[] {
    const values = this.#values;
    const { text } = this.#options;
    return Array.from({ length: end - first }, (_, i) => {
      const token = this.#words[first + i]!;
      const one = { token, logprob: values[first + i]! };
      return text === undefined ? one : { ...one, text: text(token) };
    });
  }
}
