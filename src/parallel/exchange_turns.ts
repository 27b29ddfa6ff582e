/**
 * One end of a group for several that work side by side, as micro-batches of a step do: their exchanges
 * are the group's in turns, so that every rank has them in the same order, one at a time.
 *
 * A turn is one exchange. While one waits for other ranks, the others read back what they bring to
 * theirs. One that has ended has no turns.
 *
 * @module
 */
import type { Communicator } from "./communicator.ts";

/** Who waits for its turn. */
interface Waiting {
  resolve(): void;
  reject(error: unknown): void;
}

export class ExchangeTurns {
  /** By number: whether it works. While none does, exchanges are not put in order. */
  readonly #works: boolean[];
  readonly #waiting: (Waiting | undefined)[];
  #next = 0;
  #failure: { readonly error: unknown } | undefined;

  /** @param count How many work side by side. */
  constructor(count: number) {
    this.#works = Array<boolean>(count).fill(false);
    this.#waiting = Array<undefined>(count).fill(undefined);
  }

  /** The end of the group that one of them has; of its attention group too, in the same turns. */
  end(which: number, communicator: Communicator): Communicator {
    const { rank, size, spoil, allocate, release, attention } = communicator;
    return {
      rank,
      size,
      allocate,
      release,
      attention: attention && {
        ...attention,
        communicator: this.end(which, attention.communicator),
      },
      allGather: (part, into, exchange) =>
        this.#take(which, () => communicator.allGather(part, into, exchange)),
      allToAll: (part, into, exchange) =>
        this.#take(which, () => communicator.allToAll(part, into, exchange)),
      spoil: spoil && ((reason) => this.#take(which, () => spoil(reason))),
      abort: (reason) => communicator.abort(reason),
    };
  }

  /** All of them begin; the first has the first turn. */
  open(): void {
    this.#works.fill(true);
    this.#next = 0;
    this.#failure = undefined;
  }

  /** One has ended. Where it has failed, the others fail with its error when they come to an exchange. */
  leave(which: number, failure?: { readonly error: unknown }): void {
    this.#works[which] = false;
    if (failure !== undefined) this.#fail(failure.error);
    else if (this.#next === which) this.#pass();
  }

  async #take<T>(which: number, exchange: () => Promise<T>): Promise<T> {
    if (!this.#works[which]) return exchange();
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#next !== which) {
      await new Promise<void>((resolve, reject) => {
        this.#waiting[which] = { resolve, reject };
      });
    }
    try {
      return await exchange();
    } catch (error) {
      this.#fail(error);
      throw error;
    } finally {
      this.#pass();
    }
  }

  #pass(): void {
    const count = this.#works.length;
    for (let turn = 1; turn <= count; turn++) {
      const next = (this.#next + turn) % count;
      if (!this.#works[next]) continue;
      this.#next = next;
      const waiting = this.#waiting[next];
      this.#waiting[next] = undefined;
      waiting?.resolve();
      return;
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    for (const [which, waiting] of this.#waiting.entries()) {
      this.#waiting[which] = undefined;
      waiting?.reject(this.#failure.error);
    }
  }
}
