/**
 * What a row of logits is wanted for: to sample a token from it, or to score the prompt's next one.
 *
 * @module
 */
import type { PenaltyStrengths } from "../../../kernels/sampling/adjust.ts";

/** How a row's token is drawn. */
export interface RowSampling {
  /** 0 is greedy. */
  readonly temperature: number;
  readonly topP: number;
  /** Infinity keeps every token. */
  readonly topK: number;
  /** Default 0. */
  readonly minP?: number;
  readonly seed: number;
}

/** A growing list of tokens. One object for one list: what is counted of it is kept by identity. */
export interface TokenHistory {
  readonly tokens: readonly number[];
  /** Tokens behind them that only the GPU knows so far. Default 0. */
  readonly pending?: number;
  /** Tokens before it are the prompt's, the others are generated. */
  readonly promptLength: number;
}

/** What is added to some logits; minus infinity forbids the token. No token comes twice. */
export interface TokenBiases {
  readonly tokens: Uint32Array;
  readonly values: Float32Array;
}

/** Log-probabilities of a row, gathered on the GPU. */
export interface LogprobWish {
  /** Divides the logits, above 0. */
  readonly temperature: number;
  /** How many of the likeliest tokens. */
  readonly top: number;
  /** Tokens wanted whatever their rank. */
  readonly tokenIds: readonly number[];
  /**
   * Takes the result: the row's own token, the likeliest in descending order, then `tokenIds`. The
   * least finite f32 stands for minus infinity.
   */
  readonly deliver: (tokens: Uint32Array, logprobs: Float32Array) => void;
}

/** A row that a token is sampled from. */
export interface SampledRow {
  readonly sampling: RowSampling;
  /** Position that the sampled token will have. */
  readonly position: number;
  readonly penalties?: (PenaltyStrengths & { readonly history: TokenHistory }) | undefined;
  /** Bit `t % 32` of word `t / 32` says whether token t may come. Absent: every token. */
  readonly mask?: Uint32Array | undefined;
  readonly biases?: TokenBiases | undefined;
  /** Changes the logits on the host, after everything above. The row waits for it; must not throw. */
  readonly processor?: ((logits: Float32Array) => void) | undefined;
  readonly logprobs?: LogprobWish | undefined;
}

/** A prompt's row, whose logits say how likely the prompt's next token was. */
export interface ScoredRow {
  /** The prompt's next token. */
  readonly token: number;
  readonly logprobs: LogprobWish;
}
