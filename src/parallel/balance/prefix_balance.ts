/**
 * A request goes where prompts that begin alike were sent, unless there is much more to do than
 * elsewhere.
 *
 * @module
 */
import { PrefixTree, unitsOf } from "./prefix_tree.ts";

/** Where a request may go. */
export interface Place {
  /** Requests that run or wait there. */
  readonly load: number;
}

export interface PrefixBalanceOptions {
  /** Share of a prompt that must have been sent to a place before, from 0 to 1. */
  readonly cacheThreshold: number;
  /** Requests that one place must have more than another, */
  readonly balanceAbsThreshold: number;
  /** and how many times as many, for the loads to decide. */
  readonly balanceRelThreshold: number;
  /** UTF-16 units that are kept of the prompts of each place. */
  readonly maxTreeSize: number;
}

export interface PlaceChoice<P> {
  readonly place: P;
  /** Whether the place was sent a prompt that begins alike; absent where the loads decided. */
  readonly isHit?: boolean;
  /** Whether the loads decided, in place of the prompt. */
  readonly isBalancing?: boolean;
}

export class PrefixBalance<P extends Place> {
  readonly #options: PrefixBalanceOptions;
  readonly #tree: PrefixTree<P>;

  constructor(options: PrefixBalanceOptions) {
    this.#options = options;
    this.#tree = new PrefixTree(options.maxTreeSize);
  }

  /**
   * @param places Available ones, at least one.
   * @param prompt The text of the request; empty where it has none.
   */
  choose(places: readonly P[], prompt: string): PlaceChoice<P> {
    const text = unitsOf(prompt);
    const choice = this.#isImbalanced(places)
      ? { place: leastLoaded(places), isBalancing: true }
      : this.#byPrefix(places, text);
    this.#tree.insert(text, choice.place);
    return choice;
  }

  /** Forgets what a place was sent, in slices of time. */
  forget(place: P): Promise<void> {
    return this.#tree.forget(place);
  }

  /** What is kept of the prompts that a place was sent, in UTF-16 units. */
  sizeOf(place: P): number {
    return this.#tree.size(place);
  }

  #isImbalanced(places: readonly P[]): boolean {
    const loads = places.map(({ load }) => load);
    const most = loads.reduce((a, b) => Math.max(a, b));
    const least = loads.reduce((a, b) => Math.min(a, b));
    const { balanceAbsThreshold, balanceRelThreshold } = this.#options;
    return most - least > balanceAbsThreshold && most > least * balanceRelThreshold;
  }

  #byPrefix(places: readonly P[], text: Uint16Array): PlaceChoice<P> {
    const usable = new Set(places);
    const { length, owners } = this.#tree.match(text, (owner) => usable.has(owner));
    const isHit = length > 0 && length / text.length > this.#options.cacheThreshold;
    if (isHit) return { place: leastLoaded(owners), isHit };
    // A prompt without text says nothing of where to keep it.
    if (text.length === 0) return { place: leastLoaded(places), isHit };
    const sizes = places.map((place) => this.#tree.size(place));
    const least = sizes.reduce((a, b) => Math.min(a, b));
    return { place: leastLoaded(places.filter((_, i) => sizes[i] === least)), isHit };
  }
}

/** The one with the least load; of several the first. */
export function leastLoaded<P extends Place>(places: readonly P[]): P {
  return places.reduce((least, place) => (place.load < least.load ? place : least));
}
