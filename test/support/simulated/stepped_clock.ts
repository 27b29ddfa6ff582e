/**
 * Timers of the platform in a time that a test steps through itself. `vi.useFakeTimers` waits for a
 * timer of the real clock at each step, of which a campaign makes thousands.
 *
 * @module
 */

interface Timer {
  at: number;
  readonly order: number;
  readonly work: () => void;
  /** Milliseconds after which it comes again. */
  readonly every: number | undefined;
}

export class SteppedClock {
  readonly #timers = new Map<number, Timer>();
  readonly #real = { setTimeout, clearTimeout, setInterval, clearInterval };
  readonly #later = setImmediate;
  #now = 0;
  #count = 0;

  /** Takes the place of the platform's timers until `restore`. */
  install(): void {
    const add = (work: () => void, delay = 0, isRepeated = false) => {
      this.#count += 1;
      const wait = Math.max(delay, 1);
      const every = isRepeated ? wait : undefined;
      this.#timers.set(this.#count, { at: this.#now + wait, order: this.#count, work, every });
      return this.#count;
    };
    const remove = (id: number | undefined) => {
      if (id !== undefined) this.#timers.delete(id);
    };
    Object.assign(globalThis, {
      setTimeout: (work: () => void, delay?: number) => add(work, delay),
      setInterval: (work: () => void, delay?: number) => add(work, delay, true),
      clearTimeout: remove,
      clearInterval: remove,
    });
  }

  restore(): void {
    Object.assign(globalThis, this.#real);
  }

  /** Those that are set. */
  readonly timers = (): number => this.#timers.size;

  /** Lets so many milliseconds pass, and what timers resolve in them; 0: what has been resolved so far. */
  readonly advance = async (milliseconds: number): Promise<void> => {
    const end = this.#now + milliseconds;
    if (milliseconds === 0) await this.#settle();
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      const [id, timer] = next;
      this.#now = timer.at;
      if (timer.every === undefined) this.#timers.delete(id);
      else timer.at += timer.every;
      timer.work();
      await this.#settle();
    }
    this.#now = end;
  };

  #next(end: number): readonly [number, Timer] | undefined {
    let first: readonly [number, Timer] | undefined;
    for (const entry of this.#timers) {
      const [, { at, order }] = entry;
      if (at > end) continue;
      const best = first?.[1];
      if (best === undefined || at < best.at || (at === best.at && order < best.order)) {
        first = entry;
      }
    }
    return first;
  }

  /** Promises that are resolved go on before anything else of the platform does. */
  #settle(): Promise<void> {
    return new Promise((resolve) => {
      this.#later(resolve);
    });
  }
}
