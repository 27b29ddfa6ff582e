/**
 * The way of orders from the first rank of a group to the others: an exchange that only the first
 * brings bytes to, between those of the steps.
 *
 * @module
 */
import type { Communicator, Exchange } from "../../parallel/communicator.ts";
import type { RankOrder } from "./rank_orders.ts";

/** How plain data becomes bytes, and data again in another process. */
export interface PlainFormat {
  pack(value: unknown): Uint8Array;
  unpack(bytes: Uint8Array): unknown;
}

/** Bytes of the exchange that every order begins with; what an order has beyond it follows in another. */
const HEAD_BYTES = 4096;
/** In front of an order: how long it is. */
const LENGTH_BYTES = 4;
const ROOM = HEAD_BYTES - LENGTH_BYTES;

export class OrderChannel {
  readonly #communicator: Communicator;
  readonly #format: PlainFormat;
  readonly #head: Exchange;
  readonly #own: Uint8Array;
  readonly #heard = new Uint8Array(HEAD_BYTES);

  constructor(communicator: Communicator, format: PlainFormat) {
    this.#communicator = communicator;
    this.#format = format;
    this.#head = { ...this.#exchange("an order", HEAD_BYTES), isPatient: communicator.rank > 0 };
    this.#own = new Uint8Array(communicator.rank === 0 ? HEAD_BYTES : 0);
  }

  /**
   * Of the first rank: resolves when all ranks have it.
   *
   * @throws {GroupError} when one of them has left.
   */
  async send(order: RankOrder): Promise<void> {
    const bytes = this.#format.pack(order);
    const own = this.#own;
    new DataView(own.buffer).setUint32(0, bytes.length, true);
    own.set(bytes.subarray(0, ROOM), LENGTH_BYTES);
    await this.#communicator.allGather(own, this.#heard, this.#head);
    if (bytes.length <= ROOM) return;
    const rest = bytes.subarray(ROOM);
    await this.#communicator.allGather(
      rest,
      new Uint8Array(rest.length),
      this.#exchange("the rest of an order", rest.length),
    );
  }

  /**
   * Of the other ranks: waits for the next one, for as long as it takes.
   *
   * @throws {GroupError} when a rank has left.
   */
  async receive(): Promise<RankOrder> {
    const heard = this.#heard;
    await this.#communicator.allGather(this.#own, heard, this.#head);
    const length = new DataView(heard.buffer).getUint32(0, true);
    const bytes = new Uint8Array(length);
    bytes.set(heard.subarray(LENGTH_BYTES, LENGTH_BYTES + Math.min(length, ROOM)));
    if (length > ROOM) {
      const exchange = this.#exchange("the rest of an order", length - ROOM);
      await this.#communicator.allGather(this.#own, bytes.subarray(ROOM), exchange);
    }
    return this.#format.unpack(bytes) as RankOrder;
  }

  #exchange(name: string, bytes: number): Exchange {
    const { size } = this.#communicator;
    return { name, counts: Array.from({ length: size }, (_, rank) => (rank === 0 ? bytes : 0)) };
  }
}
