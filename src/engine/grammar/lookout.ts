/**
 * Gives the time in which no sequence waits for a mask to those that will be wanted next.
 *
 * @module
 */
import type { GrammarMatcher } from "../../grammar/matcher.ts";
import { type Explored, Foresight } from "./foresight.ts";

/** Milliseconds of work before questions of sequences get a turn. */
const SLICE_MS = 1;

export class Lookout {
  readonly #othersTurn: () => Promise<void>;
  /** By who asked last, in turns. */
  readonly #watched = new Map<object, Foresight>();
  readonly #explored: Explored = new WeakMap();
  #isWorking = false;

  /** @param othersTurn Resolves when questions had a turn. */
  constructor(othersTurn: () => Promise<void>) {
    this.#othersTurn = othersTurn;
  }

  /** Prepares for what may follow, until the session leaves. */
  watch(session: object, matcher: GrammarMatcher, words: number): void {
    this.#watched.set(session, new Foresight(matcher, words, this.#explored));
    if (!this.#isWorking) void this.#work();
  }

  leave(session: object): void {
    this.#watched.delete(session);
  }

  close(): void {
    this.#watched.clear();
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    for (;;) {
      await this.#othersTurn();
      const [first] = this.#watched;
      if (first === undefined) break;
      const [session, foresight] = first;
      this.#watched.delete(session);
      if (foresight.work(performance.now() + SLICE_MS)) this.#watched.set(session, foresight);
    }
    this.#isWorking = false;
  }
}
