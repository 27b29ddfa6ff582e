/**
 * Memory that is larger than what is always there only as long as steps need it.
 *
 * Requests say how much a step needs, so what was allocated for one that has gone is given back. A
 * step in flight may still use what another one has replaced, which is freed when that cannot be.
 *
 * @module
 */
import { MOST_IN_FLIGHT } from "../schedule/lookahead.ts";

/** Steps without a need after which the memory is given back. */
export const IDLE_STEPS = 256;

export interface Freeable {
  free(): void;
}

export class GrownMemory<T extends Freeable> {
  readonly #least: T;
  #current: T;
  #replaced: { readonly memory: T; readonly step: number }[] = [];
  #step = 0;
  /** The last step that needed more than the least. */
  #neededIn = 0;

  /** @param least What is always there. */
  constructor(least: T) {
    this.#least = least;
    this.#current = least;
  }

  get current(): T {
    return this.#current;
  }

  /** Whether there is no more than the least. */
  get isLeast(): boolean {
    return this.#current === this.#least;
  }

  /** Takes larger memory in the place of the current one. */
  grow(memory: T): void {
    this.#neededIn = this.#step;
    this.#replace(memory);
  }

  /**
   * Begins a step, which may give memory back.
   *
   * @param needsMore Whether the least would not do.
   */
  beginStep(needsMore: boolean): void {
    this.#step += 1;
    if (needsMore) this.#neededIn = this.#step;
    const isIdle = this.#step - this.#neededIn >= IDLE_STEPS;
    if (!this.isLeast && isIdle) this.#replace(this.#least);
    while ((this.#replaced[0]?.step ?? this.#step) + MOST_IN_FLIGHT < this.#step) {
      this.#replaced.shift()!.memory.free();
    }
  }

  /** Frees all but the least, once no step is in flight. */
  destroy(): void {
    if (!this.isLeast) this.#replace(this.#least);
    for (const { memory } of this.#replaced) memory.free();
    this.#replaced = [];
  }

  #replace(memory: T): void {
    const replaced = this.#current;
    this.#current = memory;
    if (replaced !== this.#least) this.#replaced.push({ memory: replaced, step: this.#step });
  }
}

/** What is allocated one after another, to be freed together: also where one of it fails. */
export class Allocations {
  readonly #frees: (() => void)[] = [];

  /** Takes one more, and how it is freed. */
  add<T>(one: T, free: (one: T) => void): T {
    this.#frees.push(() => free(one));
    return one;
  }

  free(): void {
    for (const free of this.#frees.splice(0)) free();
  }
}

/**
 * Allocates several things, or none.
 *
 * @throws what `work` throws.
 */
export function allocateAll<T>(work: (allocations: Allocations) => T): T {
  const allocations = new Allocations();
  try {
    return work(allocations);
  } catch (error) {
    allocations.free();
    throw error;
  }
}
