/**
 * Log-probabilities of tokens: which a request asks for, and what it is told.
 *
 * @module
 */

/** Which log-probabilities chunks carry; those of completion tokens always. */
export interface LogprobOptions {
  /**
   * First prompt token to tell about, by position; -1 is the last. Tokens from there on are computed
   * even where a cache has them. Default: none.
   */
  readonly promptStart?: number;
  /** How many of the likeliest tokens at each position, at most 1024. Default 0. */
  readonly topCount?: number;
  /** Tokens to tell about at each position, likely or not. Default none. */
  readonly tokenIds?: readonly number[];
  /** Adds each token's text. Default false. */
  readonly text?: boolean;
}

export interface TokenLogprob {
  readonly token: number;
  /** Natural logarithm; the least finite f32 stands for minus infinity. */
  readonly logprob: number;
  readonly text?: string;
}

/**
 * What is told about one token. Of a completion's token: after penalties, biases and temperature (a
 * greedy request's is 1). Of the prompt's: as the model has it; null for the first one.
 */
export interface TokenLogprobs {
  readonly token: number;
  readonly logprob: number | null;
  readonly text?: string;
  /** The likeliest tokens, in descending order. */
  readonly top: readonly TokenLogprob[] | null;
  /** In the order of `tokenIds`. */
  readonly given: readonly TokenLogprob[] | null;
}

/** What is told about one position of a prompt; where an embedding stands, all of it is null. */
export interface PromptLogprobs extends Omit<TokenLogprobs, "token"> {
  readonly token: number | null;
}
