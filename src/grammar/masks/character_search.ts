/**
 * Where characters lead from the states of a walk, of which there are many more than first bytes of them.
 *
 * @module
 */
import { bytesBehind, secondBytes } from "./utf8_bytes.ts";
import { DEAD, type WalkStates } from "./walk_states.ts";

/** States that the characters with one first byte may lead to. */
const MOST_TARGETS = 4;
/** Steps that are looked at behind one first byte. */
const MOST_STEPS = 300;

/** Where the characters with one first byte lead; null where some lead nowhere, or to too many states. */
export type Targets = readonly number[] | null;

/** What a character lacks, and the states that whole ones lead to. */
interface Rest {
  readonly from: number;
  readonly to: number;
  readonly lacking: number;
  readonly found: Set<number>;
}

export class CharacterSearch {
  readonly #states: WalkStates;
  /** By state behind a first byte, bytes that are lacking, and the second one's range. */
  readonly #behind = new Map<number, Targets>();
  #left = 0;

  constructor(states: WalkStates) {
    this.#states = states;
  }

  /** Where the characters with a first byte of several lead. */
  targets(state: number, lead: number): Targets {
    const first = this.#states.step(state, lead);
    if (first === DEAD) return null;
    const lacking = bytesBehind(lead);
    const { from, to } = secondBytes(lead);
    const key = ((first * 4 + lacking) * 256 + from) * 256 + to;
    let targets = this.#behind.get(key);
    if (targets === undefined) {
      const found = new Set<number>();
      this.#left = MOST_STEPS;
      targets = this.#collect(first, { from, to, lacking, found }) ? [...found] : null;
      this.#behind.set(key, targets);
    }
    return targets;
  }

  /** @returns Whether all characters lead on, and to few states. */
  #collect(here: number, { from, to, lacking, found }: Rest): boolean {
    // A text that ends within a character is none that a walk over characters sees.
    if (this.#states.at(here).accepting) return false;
    const inside = new Set<number>();
    const { classOf } = this.#states;
    for (let byteClass = classOf[from]!; byteClass <= classOf[to]!; byteClass++) {
      const next = this.#states.stepClass(here, byteClass);
      this.#left -= 1;
      if (next === DEAD || this.#left < 0) return false;
      (lacking > 1 ? inside : found).add(next);
      if (found.size > MOST_TARGETS) return false;
    }
    for (const next of inside) {
      if (!this.#collect(next, { from: 0x80, to: 0xbf, lacking: lacking - 1, found })) return false;
    }
    return true;
  }
}
