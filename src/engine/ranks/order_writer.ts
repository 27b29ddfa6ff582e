/**
 * Writes a step down for the other ranks, and reads it there.
 *
 * @module
 */
import { KernelError } from "../../errors.ts";
import type { Batch } from "../../layers/batch.ts";
import type {
  LogitRows,
  RowPenalties,
  RowSampling,
  SampledRow,
  TokenHistory,
} from "../sample/sampled_row.ts";
import type { DraftRequest } from "../step/step_drafts.ts";
import type { OrderedHistory, OrderedPenalties, OrderedRow, StepOrder } from "./rank_orders.ts";
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

  /** @param sequences That run at once: each has a page table and a history. */
  constructor(sequences: number) {
    this.#tables = new ListSender(2 * sequences);
    this.#histories = new ListSender(2 * sequences, (history) => pendingOf(history) > 0);
  }

  write({
    batch,
    rows,
    drafts,
  }: GivenStep): Omit<StepOrder, "type" | "isTimed" | "copies" | "drawn"> {
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
      scoredTokens: rows.scored.map(({ token }) => token),
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

  #row({ sampling, position, penalties, mask, biases, ...places }: SampledRow): OrderedRow {
    const { firstChild, nextSibling } = places;
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
    };
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

  read({ batch, rows, pending, scoredTokens, drafts }: StepOrder): GivenStep {
    for (const [place, count] of pending) this.#historyAt(place).pending = count;
    const fail = this.#fail;
    return {
      batch: {
        ...batch,
        sequences: batch.sequences.map(({ pages, ...sequence }) => ({
          ...sequence,
          pageTable: this.#tables.read(pages),
        })),
      },
      rows: {
        sampled: rows.map(({ penalties, ...row }) => ({
          ...row,
          penalties: penalties && { ...penalties, history: this.#history(penalties.history) },
          fail,
        })),
        scored: scoredTokens.map((token) => ({ token, logprobs: undefined, fail })),
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
