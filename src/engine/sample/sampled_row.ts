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
  /** Tokens of it that no row was sampled for. Default 0. */
  readonly forced?: number;
}

/** Penalties of a row, by the tokens of its sequence. */
export interface RowPenalties extends PenaltyStrengths {
  readonly history: TokenHistory;
  /**
   * Drafts behind those tokens that the row stands behind, whose own rows are in front of it. Default
   * none.
   */
  readonly drafted?: readonly number[];
  /**
   * How many rows in front of this one each of them is drawn. Default: they have rows one behind the
   * other, this one the last.
   */
  readonly drawnBefore?: readonly number[] | undefined;
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
  readonly penalties?: RowPenalties | undefined;
  /** Bit `t % 32` of word `t / 32` says whether token t may come. Absent: every token. */
  readonly mask?: Uint32Array | undefined;
  readonly biases?: TokenBiases | undefined;
  /** Changes the logits on the host, after everything above. The row waits for it; must not throw. */
  readonly processor?: ((logits: Float32Array) => void) | undefined;
  readonly logprobs?: LogprobWish | undefined;
  /**
   * Of the rows that stand at drafts of the token, by their numbers among the step's sampled rows: the
   * first one. Looked at where coins accept drafts. Absent: there is none.
   */
  readonly firstChild?: number | undefined;
  /** The next row at a draft of the same token as the one that this row stands at. Absent: none. */
  readonly nextSibling?: number | undefined;
  /**
   * Takes the error of what there is no memory for: the row goes on without that. Must not throw.
   * Default: its result is of no use then, and is not looked at.
   */
  readonly fail?: ((error: unknown) => void) | undefined;
}

/** A prompt's row, whose logits say how likely the prompt's next token was. */
export interface ScoredRow extends Pick<SampledRow, "fail"> {
  /** The prompt's next token. */
  readonly token: number;
  /** Absent: its logits are not looked at. */
  readonly logprobs: LogprobWish | undefined;
}

/** The rows of a step whose logits are wanted: first those that are sampled. */
export interface LogitRows {
  readonly sampled: readonly SampledRow[];
  readonly scored: readonly ScoredRow[];
}

/** What a part of the sampler allocates only where rows ask for it. */
export interface GrowingPart {
  /** Whether there is too little for the rows. */
  isShortFor(rows: LogitRows): boolean;
  /**
   * Allocates what they need. Nothing has changed where that fails.
   *
   * @throws {DeviceError | UnsupportedError | RangeError} when there is no memory for it.
   */
  growFor(rows: LogitRows): Promise<void>;
  /** The rows that there is enough for; those that asked for most are told the error. */
  without(rows: LogitRows, error: unknown): LogitRows;
}

/**
 * Which of several items fit when those go first that ask for most.
 *
 * @returns The positions of those that do not.
 */
export function beyond(asked: readonly number[], room: number): ReadonlySet<number> {
  let sum = asked.reduce((total, one) => total + one, 0);
  const gone = new Set<number>();
  for (const i of [...asked.keys()].sort((a, b) => asked[b]! - asked[a]!)) {
    if (sum <= room) break;
    sum -= asked[i]!;
    gone.add(i);
  }
  return gone;
}
