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

/** The same as plain data, for another thread. */
export interface PackedLogprobs {
  /** The position's own token first, then the likeliest, then those asked for. */
  readonly held: Uint32Array;
  /** In the same order. */
  readonly values: Float32Array;
  readonly givenCount: number;
  /** In the same order, where texts are wanted. */
  readonly texts: readonly string[] | undefined;
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

  /** Plain data that is the same once it is unpacked. */
  pack(): PackedLogprobs {
    const count = this.#count;
    const held = new Uint32Array(1 + count);
    held[0] = this.token;
    held.set(this.#words.subarray(0, count), 1);
    const values = new Float32Array(1 + count);
    values[0] = this.logprob;
    values.set(this.#values, 1);
    const { givenCount, text } = this.#options;
    return { held, values, givenCount, texts: text && Array.from(held, text) };
  }

  static unpack({ held, values, givenCount, texts }: PackedLogprobs): HeldLogprobs {
    if (texts === undefined) return new HeldLogprobs(held, values, { givenCount, text: undefined });
    let byToken: ReadonlyMap<number, string> | undefined;
    const text = (token: number): string => {
      if (token === held[0]) return texts[0]!;
      byToken ??= new Map(texts.map((one, i) => [held[i]!, one]));
      return byToken.get(token)!;
    };
    return new HeldLogprobs(held, values, { givenCount, text });
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
