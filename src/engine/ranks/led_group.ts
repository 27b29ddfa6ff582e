/**
 * What the first rank keeps of its group for as long as it is there, whichever device its model is on:
 * orders go out one at a time, and other ranks keep pages under numbers that it gives.
 *
 * @module
 */
import { OrderChannel } from "./order_channel.ts";
import type { RankLink } from "./rank_link.ts";
import type { RankOrder } from "./rank_orders.ts";

export class LedGroup {
  readonly link: RankLink;
  readonly #channel: OrderChannel;
  #turn: Promise<unknown> = Promise.resolve();
  /** Whether the ranks have loaded: another load replaces a device. */
  isLoaded = false;
  readonly #kept = new WeakMap<Uint8Array, number>();
  #nextKept = 0;
  #released: number[] = [];

  constructor(link: RankLink) {
    this.link = link;
    this.#channel = new OrderChannel(link.communicator, link.format);
  }

  /** Begins once everything that took its turn before is done: ranks do one thing at a time. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  /** As `OrderChannel.send`; to be called in a turn. */
  send(order: RankOrder): Promise<void> {
    return this.#channel.send(order);
  }

  /** A number for pages that every rank is to keep. */
  nextKept(): number {
    this.#nextKept += 1;
    return this.#nextKept;
  }

  /** Every rank has kept its part under the number; this one's is `bytes`. */
  keeps(bytes: Uint8Array, id: number): void {
    this.#kept.set(bytes, id);
  }

  keptAs(bytes: Uint8Array): number | undefined {
    return this.#kept.get(bytes);
  }

  /** What is not wanted any more, or not every rank has, the others forget with their next order of pages. */
  release(id: number | undefined): void {
    if (id !== undefined) this.#released.push(id);
  }

  takeReleased(): readonly number[] {
    return this.#released.splice(0);
  }
}
