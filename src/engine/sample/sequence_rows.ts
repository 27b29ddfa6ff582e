/**
 * What a sequence asks of the rows of logits it samples from: its sampling parameters as the sampler
 * wants them.
 *
 * @module
 */
import type { LogitProcessor } from "./logit_processor.ts";
import type { RowPenalties, SampledRow, TokenBiases, TokenHistory } from "./sampled_row.ts";
import type { Sampling } from "./sampling_params.ts";

export interface SequenceRowsOptions {
  readonly sampling: Sampling;
  /** Cannot come before `minNewTokens`, like the request's own stop tokens. */
  readonly eosTokenIds: ReadonlySet<number>;
  readonly processors: readonly LogitProcessor[];
  /** Takes what a processor throws, or what there is no memory for; the row is sampled all the same. */
  readonly onError: (error: unknown) => void;
}

export class SequenceRows {
  readonly #options: SequenceRowsOptions;
  readonly #biases: TokenBiases | undefined;
  /** Biases until there are `minNewTokens`. */
  readonly #earlyBiases: TokenBiases | undefined;

  constructor(options: SequenceRowsOptions) {
    const { logitBias, minNewTokens, stopTokenIds } = options.sampling;
    this.#options = options;
    this.#biases = tokenBiases(logitBias);
    if (minNewTokens === 0) return;
    const early = new Map(logitBias);
    for (const id of [...options.eosTokenIds, ...stopTokenIds]) {
      early.set(id, Number.NEGATIVE_INFINITY);
    }
    this.#earlyBiases = tokenBiases(early);
  }

  /** Whether a row can only be prepared when all tokens before it are known to the host. */
  get needTokens(): boolean {
    return this.#options.processors.length > 0;
  }

  /**
   * Whether a row can only be prepared when the host knows the drafts in front of it, and so how many
   * of `length` tokens at least there are.
   */
  needDrafts(length: number, promptLength: number): boolean {
    const { penalties, minNewTokens } = this.#options.sampling;
    return penalties !== undefined || length - promptLength < minNewTokens;
  }

  /**
   * The row that the token at `position` is sampled from, `drafted` being those just before it, which
   * are drawn so many rows before.
   */
  next(
    history: TokenHistory,
    {
      position,
      drafted,
      drawnBefore,
      logprobs,
    }: Pick<SampledRow, "position" | "logprobs"> &
      Pick<RowPenalties, "drawnBefore"> & { readonly drafted: readonly number[] },
  ): SampledRow {
    const { sampling, processors } = this.#options;
    const { penalties } = sampling;
    const { tokens: known, promptLength } = history;
    const run = (logits: Float32Array) =>
      this.#run(drafted.length === 0 ? known : [...known, ...drafted], logits);
    const isEarly = position - promptLength < sampling.minNewTokens;
    return {
      sampling,
      position,
      penalties: penalties && { ...penalties, history, drafted, drawnBefore },
      biases: isEarly ? this.#earlyBiases : this.#biases,
      processor: processors.length === 0 ? undefined : run,
      logprobs,
      fail: this.#options.onError,
    };
  }

  #run(tokens: readonly number[], logits: Float32Array): void {
    try {
      for (const processor of this.#options.processors) processor({ tokens, logits });
    } catch (error) {
      this.#options.onError(error);
    }
  }
}

function tokenBiases(biases: ReadonlyMap<number, number>): TokenBiases | undefined {
  if (biases.size === 0) return undefined;
  return {
    tokens: Uint32Array.from(biases.keys()),
    values: Float32Array.from(biases.values()),
  };
}
