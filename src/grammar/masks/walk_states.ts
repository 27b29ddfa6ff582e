/**
 * The configurations that one walk meets, as numbers: a table says where each class of bytes leads.
 *
 * @module
 */
import type { Configuration, Configurations } from "../automaton/configurations.ts";

/** No text goes on so. */
export const DEAD = -1;
/** No step of this walk has looked yet. */
export const UNKNOWN = 0;

/** States that there is room for at first. */
const FIRST_STATES = 16;
/** Each walk has a number, which configurations keep. */
let walks = 0;

export class WalkStates {
  /** Where class `c` leads from state `s`: entry `s x width + c` is a state from 1, or one of the above. */
  table: Int32Array;
  /** Classes of bytes. */
  readonly width: number;
  /** Class of each byte. */
  readonly classOf: Uint8Array;
  /** By state, whether a text may end there. */
  accepting: Uint8Array;
  readonly #walk: number;
  readonly #configurations: Configurations;
  /** By state; the first one is none. */
  readonly #all: Configuration[] = [];
  readonly #numbers = new Map<Configuration, number>();
  #reach = 0;

  constructor(configurations: Configurations) {
    walks += 1;
    this.#walk = walks;
    this.#configurations = configurations;
    this.classOf = configurations.automaton.classOf;
    this.width = configurations.automaton.classes.length;
    this.table = new Int32Array(FIRST_STATES * this.width);
    this.accepting = new Uint8Array(FIRST_STATES);
    this.#all.length = 1;
  }

  /** The number of a configuration. */
  of(configuration: Configuration): number {
    if (configuration.walk === this.#walk) return configuration.place;
    const known = this.#numbers.get(configuration) ?? this.#add(configuration);
    configuration.walk = this.#walk;
    configuration.place = known;
    return known;
  }

  /** The configuration of a number. */
  at(state: number): Configuration {
    return this.#all[state]!;
  }

  #add(configuration: Configuration): number {
    const state = this.#all.push(configuration) - 1;
    this.#numbers.set(configuration, state);
    if (state === this.accepting.length) {
      const [table, accepting] = [this.table, this.accepting];
      this.table = new Int32Array(2 * table.length);
      this.table.set(table);
      this.accepting = new Uint8Array(2 * accepting.length);
      this.accepting.set(accepting);
    }
    if (configuration.accepting) this.accepting[state] = 1;
    return state;
  }

  /** Finds out where a class of bytes leads. `table` and `accepting` may be others then. */
  resolve(state: number, byteClass: number): number {
    const here = this.#all[state]!;
    const next = here.next(byteClass) ?? this.#configurations.step(here, byteClass);
    let found = DEAD;
    if (next !== null) {
      found = this.of(next);
      this.reachTo(next.reach);
    }
    this.table[state * this.width + byteClass] = found;
    return found;
  }

  /** Where a byte leads from a state. */
  step(state: number, byte: number): number {
    return this.stepClass(state, this.classOf[byte]!);
  }

  /** Where a class of bytes leads. */
  stepClass(state: number, byteClass: number): number {
    const known = this.table[state * this.width + byteClass]!;
    return known === UNKNOWN ? this.resolve(state, byteClass) : known;
  }

  /** The grammar's own: the same object for all walks. */
  get automaton(): object {
    return this.#configurations.automaton;
  }

  /** Threads that may still be followed in this operation. */
  get workLeft(): number {
    return this.#configurations.workLeft;
  }

  /** Notes how deep a stack is on a way that is not followed. */
  reachTo(depth: number): void {
    if (depth > this.#reach) this.#reach = depth;
  }

  /** Deepest stack of all configurations on the way, or above it. */
  get reach(): number {
    return this.#reach;
  }
}
