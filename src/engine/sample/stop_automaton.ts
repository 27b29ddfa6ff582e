/**
 * Finds stop strings in a text that comes in pieces: the automaton of Aho and Corasick, which looks
 * at each character once however many strings there are.
 *
 * @module
 */

/** A transition's key: the state and the UTF-16 unit that follows. */
const UNITS = 0x10000;
const ROOT = 0;

export class StopAutomaton {
  readonly stops: readonly string[];
  /** State and unit -> state, for the transitions of the tree of strings. */
  readonly #next = new Map<number, number>();
  /** State -> that of the longest proper suffix that begins a string too. */
  readonly #shorter: number[] = [ROOT];
  /** State -> the string that ends there, by its place in the list, or -1. */
  readonly #ends: number[] = [-1];
  /** State -> characters of it. */
  readonly #depths: number[] = [0];

  /** @param stops Of two that end at the same character the first is found. None is empty. */
  constructor(stops: readonly string[]) {
    this.stops = stops;
    for (const [i, stop] of stops.entries()) this.#plant(stop, i);
    this.#link();
  }

  /** The state behind one more unit of the text; 0 is that of no text. */
  step(state: number, unit: number): number {
    for (let from = state; ; from = this.#shorter[from]!) {
      const to = this.#next.get(from * UNITS + unit);
      if (to !== undefined) return to;
      if (from === ROOT) return ROOT;
    }
  }

  /** Characters at the end of the text that may become part of a string. */
  depth(state: number): number {
    return this.#depths[state]!;
  }

  /** The string that ends here; undefined where none does. */
  found(state: number): string | undefined {
    return this.stops[this.#ends[state]!];
  }

  #plant(stop: string, place: number): void {
    let state = ROOT;
    for (let i = 0; i < stop.length; i++) {
      const key = state * UNITS + stop.charCodeAt(i);
      const known = this.#next.get(key);
      state = known ?? this.#shorter.length;
      if (known !== undefined) continue;
      this.#next.set(key, state);
      this.#shorter.push(ROOT);
      this.#ends.push(-1);
      this.#depths.push(i + 1);
    }
    if (this.#ends[state] === -1) this.#ends[state] = place;
  }

  /** By depth: what a state goes on with is found from states that are shorter. */
  #link(): void {
    const order = [...this.#next].map(([key, to]) => ({ key, to }));
    order.sort((a, b) => this.#depths[a.to]! - this.#depths[b.to]!);
    for (const { key, to } of order) {
      const from = Math.floor(key / UNITS);
      if (from === ROOT) continue;
      const shorter = this.step(this.#shorter[from]!, key % UNITS);
      this.#shorter[to] = shorter;
      const [own, inner] = [this.#ends[to]!, this.#ends[shorter]!];
      if (inner >= 0 && (own < 0 || inner < own)) this.#ends[to] = inner;
    }
  }
}

/** Automata that are kept for further sequences with the same list. */
const MAX_KEPT = 16;
const kept = new Map<string, StopAutomaton>();

/** The automaton of a list, made once for all sequences that have the same. */
export function stopAutomaton(stops: readonly string[]): StopAutomaton {
  const key = JSON.stringify(stops);
  const automaton = kept.get(key) ?? new StopAutomaton(stops);
  kept.delete(key);
  kept.set(key, automaton);
  if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value!);
  return automaton;
}
