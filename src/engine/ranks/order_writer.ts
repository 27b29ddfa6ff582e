/**
 * Writes a step down for the other ranks, and reads it there.
 *
 * @module
 */
import { KernelError } from "../../errors.ts";
import type { Batch } from "../../layers/batch.ts";
import type {
  LogitRows,
  LogprobWish,
  RowPenalties,
  RowSampling,
  SampledRow,
  TokenHistory,
} from "../sample/sampled_row.ts";
import type { DraftRequest } from "../step/step_drafts.ts";
import type {
  OrderedHistory,
  OrderedPenalties,
  OrderedRow,
  OrderedStep,
  OrderedWish,
} from "./rank_orders.ts";
import { ListReceiver, ListSender } from "./shared_lists.ts";

/** What a step is given to a runner as. */
export interface GivenStep {
  readonly batch: Batch;
  readonly rows: LogitRows;
  readonly drafts: DraftRequest | undefined;
}

/** The first rank's side. */
export class OrderWriter {
  readonly #tables: ListSender<readonly number[]>;
  readonly #histories: ListSender<TokenHistory>;
  /** What the others know to be pending of a history. */
  readonly #pending = new WeakMap<TokenHistory, number>();

  readonly #sendsWishes: boolean;

  /**
   * @param sequences That run at once: each has a page table and a history.
   * @param sendsWishes Whether another rank gathers log-probabilities. Default: this one does.
   */
  constructor(sequences: number, sendsWishes = false) {
    this.#sendsWishes = sendsWishes;
    this.#tables = new ListSender(2 * sequences);
    this.#histories = new ListSender(2 * sequences, (history) => pendingOf(history) > 0);
  }

  write({ batch, rows, drafts }: GivenStep): OrderedStep {
    this.#tables.beginStep();
    this.#histories.beginStep();
    const pending = this.#changedPending();
    return {
      batch: {
        ...batch,
        sequences: batch.sequences.map(({ pageTable, ...sequence }) => ({
          ...sequence,
          pages: this.#tables.write(pageTable, pageTable),
        })),
      },
      rows: rows.sampled.map((row) => this.#row(row)),
      pending,
      scored: rows.scored.map(({ token, logprobs }) => ({ token, logprobs: this.#wish(logprobs) })),
      drafts: drafts && { steps: drafts.steps, sequences: drafts.sequences },
    };
  }

  #changedPending(): (readonly [number, number])[] {
    const changed: (readonly [number, number])[] = [];
    for (const [history, place] of this.#histories.known()) {
      const pending = pendingOf(history);
      if (pending === this.#pending.get(history)) continue;
      this.#pending.set(history, pending);
      changed.push([place, pending]);
    }
    return changed;
  }

  #row({ sampling, position, penalties, mask, biases, ...others }: SampledRow): OrderedRow {
    const { firstChild, nextSibling, logprobs } = others;
    const { temperature, topP, topK, minP, seed } = sampling;
    const drawn: RowSampling = {
      temperature,
      topP,
      topK,
      seed,
      ...(minP !== undefined && { minP }),
    };
    return {
      sampling: drawn,
      position,
      penalties: penalties && this.#penalties(penalties),
      mask,
      biases,
      firstChild,
      nextSibling,
      logprobs: this.#wish(logprobs),
    };
  }

  #wish(wish: LogprobWish | undefined): OrderedWish | undefined {
    if (wish === undefined || !this.#sendsWishes) return undefined;
    const { temperature, top, tokenIds } = wish;
    return { temperature, top, tokenIds };
  }

  #penalties(penalties: RowPenalties): OrderedPenalties {
    const { repetition, frequency, presence, history, drafted = [], drawnBefore } = penalties;
    return {
      repetition,
      frequency,
      presence,
      drafted,
      drawnBefore,
      history: this.#history(history),
    };
  }

  #history(history: TokenHistory): OrderedHistory {
    const { tokens, promptLength, forced = 0 } = history;
    const pending = pendingOf(history);
    this.#pending.set(history, pending);
    return { tokens: this.#histories.write(history, tokens), pending, promptLength, forced };
  }
}

interface KnownHistory extends TokenHistory {
  pending: number;
  forced: number;
}

/** Takes what was gathered of a row: those that are sampled, then those that are scored. */
export type TakeLogprobs = (row: number, tokens: Uint32Array, logprobs: Float32Array) => void;

/** The other ranks' side. */
export class OrderReader {
  readonly #tables = new ListReceiver();
  readonly #tokens = new ListReceiver();
  readonly #histories: KnownHistory[] = [];
  readonly #fail: (error: unknown) => void;

  /** @param fail Takes the error of what this rank has no memory for. */
  constructor(fail: (error: unknown) => void) {
    this.#fail = fail;
  }

  /** @param take Gets log-probabilities that this rank is to gather, by rows. Default: it is not to. */
  read({ batch, rows, pending, scored, drafts }: OrderedStep, take?: TakeLogprobs): GivenStep {
    for (const [place, count] of pending) this.#historyAt(place).pending = count;
    const fail = this.#fail;
    const wish = (row: number, logprobs: OrderedWish | undefined): LogprobWish | undefined =>
      take && logprobs && { ...logprobs, deliver: (ids, values) => take(row, ids, values) };
    return {
      batch: {
        ...batch,
        sequences: batch.sequences.map(({ pages, ...sequence }) => ({
          ...sequence,
          pageTable: this.#tables.read(pages),
        })),
      },
      rows: {
        sampled: rows.map(({ penalties, logprobs, ...row }, i) => ({
          ...row,
          penalties: penalties && { ...penalties, history: this.#history(penalties.history) },
          logprobs: wish(i, logprobs),
          fail,
        })),
        scored: scored.map(({ token, logprobs }, i) => ({
          token,
          logprobs: wish(rows.length + i, logprobs),
          fail,
        })),
      },
      drafts,
    };
  }

  #history({ tokens, pending, promptLength, forced }: OrderedHistory): TokenHistory {
    const { place, from } = tokens;
    const list = this.#tokens.read(tokens);
    if (from === 0) {
      const fresh: KnownHistory = { tokens: list, pending, promptLength, forced };
      this.#histories[place] = fresh;
      return fresh;
    }
    return Object.assign(this.#historyAt(place), { pending, forced });
  }

  #historyAt(place: number): KnownHistory {
    const known = this.#histories[place];
    if (known === undefined) throw new KernelError("ranks", `no history has place ${place}`);
    return known;
  }
}

const pendingOf = ({ pending = 0 }: TokenHistory): number => pending;
