/**
 * Which row of the count table on the GPU belongs to which sequence.
 *
 * The GPU counts what it samples, so that a step need not wait until the host has seen the one
 * before. A row is written by the host when a sequence first needs it, and again when what was
 * counted is not what the sequence has (after steps computed tokens that no sequence took). Rows of
 * sequences that have gone are taken over by new ones.
 *
 * @module
 */
import { IN_PROMPT } from "../../../kernels/sampling/adjust.ts";
import { KernelError } from "../../errors.ts";
import type { TokenHistory } from "./sampled_row.ts";

interface Slot {
  owner: TokenHistory | undefined;
  /** Generated tokens that the row counts once the steps given to the GPU have run: at least. */
  counted: number;
  /** How many more it may count, behind drafts: those that the owner then has. */
  maybe: number;
  /** The owner's tokens that no row was sampled for when it was last used. */
  forced: number;
  /** Number of the last step that used it. */
  usedIn: number;
}

export class PenaltySlots {
  readonly #slots: Slot[];
  readonly #bySequence = new Map<TokenHistory, number>();
  #step = 0;

  /** @param count As many as rows may be sampled in one step. */
  constructor(count: number) {
    this.#slots = Array.from({ length: count }, () => ({
      owner: undefined,
      counted: 0,
      maybe: 0,
      forced: 0,
      usedIn: 0,
    }));
  }

  /** Starts a step: from here on its slots are not given to another sequence. */
  beginStep(): void {
    this.#step += 1;
  }

  /**
   * The slot of a sequence that samples a token in this step at `position`, behind so many drafts:
   * those without any come first.
   *
   * @param write Called when the row must be written, with the tokens it has to count.
   */
  take(
    history: TokenHistory,
    { position, drafts }: { readonly position: number; readonly drafts: number },
    write: (slot: number) => void,
  ): number {
    const known = this.#bySequence.get(history);
    const index = known ?? this.#free();
    const slot = this.#slots[index]!;
    if (drafts > 0 && slot.owner === history && slot.usedIn === this.#step) {
      slot.maybe = Math.max(slot.maybe, drafts);
      return index;
    }
    const generated = position - history.promptLength;
    const { forced = 0 } = history;
    const more = generated - slot.counted;
    const isCounted = more >= 0 && more <= slot.maybe && slot.forced === forced;
    if (known === undefined || !isCounted) {
      if (history.tokens.length !== position) {
        throw new KernelError(
          "sampling/count",
          `a row for ${position} tokens is to be written from ${history.tokens.length}`,
        );
      }
      if (slot.owner !== undefined) this.#bySequence.delete(slot.owner);
      this.#bySequence.set(history, index);
      slot.owner = history;
      write(index);
    }
    slot.counted = generated + 1;
    slot.maybe = 0;
    slot.forced = forced;
    slot.usedIn = this.#step;
    return index;
  }

  /**
   * The slot that has not been used for longest. Not one whose owner has tokens in flight: the host
   * could not write it again.
   */
  #free(): number {
    let oldest: number | undefined;
    this.#slots.forEach(({ owner, usedIn }, i) => {
      if (usedIn === this.#step || (owner?.pending ?? 0) > 0) return;
      if (oldest === undefined || usedIn < this.#slots[oldest]!.usedIn) oldest = i;
    });
    if (oldest !== undefined) return oldest;
    throw new KernelError("sampling/count", `all ${this.#slots.length} rows are in use`);
  }
}

/**
 * Writes the counts of a sequence's tokens; `row` has one word for each token there is. The ids of
 * embeddings lie beyond it, where a typed array takes nothing: they have no logit to penalize.
 */
export function writeCounts(row: Uint32Array, { tokens, promptLength }: TokenHistory): void {
  row.fill(0);
  tokens.forEach((token, i) => {
    if (i < promptLength) row[token]! |= IN_PROMPT;
    else row[token]! += 1;
  });
}
