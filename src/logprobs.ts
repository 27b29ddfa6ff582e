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
  /** Tokens to tell about at each position, likely or not, at most 4096 of them. Default none. */
  readonly tokenIds?: readonly number[];
  /** Adds each token's text. Default false. */
  readonly text?: boolean;
}

/** The largest number of likeliest tokens that may be asked for: each takes a pass over a row. */
export const MAX_TOP_LOGPROBS = 1024;
/** The largest number of tokens that may be asked for by their ids. */
export const MAX_LOGPROB_TOKENS = 4096;
/** Bytes of log-probabilities that one completion may hold until its client has them. */
export const MAX_LOGPROB_BYTES = 2 ** 26;

/** What a position takes beside its results, and each of those: a token and an f32. */
const POSITION_BYTES = 256;
const RESULT_BYTES = 8;
/** Results of a position that completions are not counted for: the KV cache bounds their length. */
const FEW_RESULTS = 32;

/**
 * Bytes that log-probabilities take while they are held.
 *
 * @param positions Of the prompt that are told about, and tokens of the completion at most.
 */
export function logprobBytes(
  { topCount = 0, tokenIds = [] }: LogprobOptions,
  positions: { readonly prompt: number; readonly completion: number },
): number {
  const results = 1 + topCount + tokenIds.length;
  const counted = positions.prompt + (results > FEW_RESULTS ? positions.completion : 0);
  return counted * (POSITION_BYTES + RESULT_BYTES * results);
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
