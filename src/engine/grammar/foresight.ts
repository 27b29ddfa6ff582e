/**
 * Makes masks before they are asked for, while the model computes the token in front of them.
 *
 * What may come next is followed token by token, those with small ids first, which vocabularies give
 * to frequent texts: one token ahead, then two, and so on. Most tokens lead to a few places, the
 * inside of a string above all, so that some masks serve for all of them. Masks that are made are
 * those that any sequence of the grammar would get: only when they are made changes.
 *
 * @module
 */
import { GrammarError } from "../../grammar/grammar_error.ts";
import type { GrammarMatcher } from "../../grammar/matcher.ts";

/** Tokens ahead. */
const TOKENS_AHEAD = 3;
/** Places whose masks are made from one place on. */
const PLACES_FORESEEN = 48;
/** Allowed tokens that are tried from each place. */
const TOKENS_TRIED = 192;

/** How many tokens ahead was looked from a place. */
export type Explored = WeakMap<object, number>;

export class Foresight {
  /** Forked, so that the sequence may go on meanwhile. */
  readonly #places: { readonly matcher: GrammarMatcher; readonly ahead: number }[];
  readonly #words: Uint32Array;
  /** Of the current place: its mask is made, and these tokens are still to be tried. */
  #tried = 0;
  #nextToken = -1;
  #hasMask = false;
  #left = PLACES_FORESEEN;
  readonly #explored: Explored;

  /**
   * @param matcher Its mask is there.
   * @param explored Shared by all sequences: what was looked at once has its masks.
   */
  constructor(matcher: GrammarMatcher, words: number, explored: Explored) {
    this.#explored = explored;
    this.#places = [{ matcher: matcher.branch(), ahead: 0 }];
    this.#words = new Uint32Array(words);
  }

  /**
   * Works for a while.
   *
   * @param until When to stop, in milliseconds of `performance.now()`.
   * @returns Whether there is more to do.
   */
  work(until: number): boolean {
    while (this.#places.length > 0 && this.#left > 0) {
      try {
        if (!this.#advance(until)) return true;
      } catch (error) {
        // A place that is beyond a limit is none to prepare for: its error is that of who asks for it.
        if (!(error instanceof GrammarError)) throw error;
        this.#leave();
      }
      if (performance.now() >= until) return this.#places.length > 0 && this.#left > 0;
    }
    return false;
  }

  /** @returns Whether there is time left. */
  #advance(until: number): boolean {
    const { matcher, ahead } = this.#places[0]!;
    if (!this.#hasMask) {
      if (!matcher.prepareMask(until)) return false;
      matcher.mask(this.#words);
      this.#hasMask = true;
      this.#left -= 1;
    }
    const left = TOKENS_AHEAD - ahead;
    const isNew = (this.#explored.get(matcher.place) ?? -1) < left;
    const token = isNew && left > 0 ? this.#nextAllowed() : undefined;
    if (token === undefined) {
      if (isNew) this.#explored.set(matcher.place, left);
      this.#leave();
      return true;
    }
    if (!matcher.accept(token)) return true;
    if (!matcher.isFinished && (this.#explored.get(matcher.place) ?? -1) < left - 1) {
      if (!this.#places.some((other) => other.matcher.place === matcher.place)) {
        this.#places.push({ matcher: matcher.branch(), ahead: ahead + 1 });
      }
    }
    matcher.rollback(1);
    return true;
  }

  #nextAllowed(): number | undefined {
    if (this.#tried === TOKENS_TRIED) return undefined;
    const words = this.#words;
    for (let token = this.#nextToken + 1; token < 32 * words.length; token++) {
      const rest = words[token >>> 5]! >>> (token & 31);
      if (rest === 0) {
        token |= 31;
      } else if ((rest & 1) === 1) {
        this.#nextToken = token;
        this.#tried += 1;
        return token;
      }
    }
    return undefined;
  }

  #leave(): void {
    this.#places.shift();
    this.#tried = 0;
    this.#nextToken = -1;
    this.#hasMask = false;
  }
}
