/**
 * What a step of attention groups has come to, on its way from the first rank of each group to all: the
 * first of all schedules for every group, and the other ranks of a group have to have drawn the same.
 *
 * @module
 */
import type { Communicator, Exchange } from "../../parallel/communicator.ts";
import type { PlainFormat } from "../ranks/order_channel.ts";

/** Log-probabilities of a row, by its number: those that are sampled, then those that are scored. */
export type RowLogprobs = readonly [row: number, tokens: Uint32Array, logprobs: Float32Array];

export interface GroupResult {
  readonly tokens: Uint32Array;
  readonly drafts: readonly Uint32Array[];
  readonly logprobs: readonly RowLogprobs[];
}

/** Bytes of a group in the exchange that all results begin with; what is beyond it follows in another. */
const HEAD_BYTES = 2048;
/** In front of a result: how long it is, 0 of a group that was idle. */
const LENGTH_BYTES = 4;
const ROOM = HEAD_BYTES - LENGTH_BYTES;
const NAME = "what a step has come to";

export class ResultExchange {
  readonly #communicator: Communicator;
  readonly #format: PlainFormat;
  readonly #groups: number;
  readonly #head: Exchange;
  readonly #own: Uint8Array<ArrayBuffer>;
  readonly #heads: Uint8Array<ArrayBuffer>;

  /** @param communicator Of all ranks; those of a group are in a row. */
  constructor(communicator: Communicator, format: PlainFormat, groups: number) {
    this.#communicator = communicator;
    this.#format = format;
    this.#groups = groups;
    this.#head = this.#exchange(NAME, Array<number>(groups).fill(HEAD_BYTES));
    this.#own = new Uint8Array(this.#head.counts[communicator.rank]!);
    this.#heads = new Uint8Array(HEAD_BYTES * groups);
  }

  /**
   * @param own Of this rank's group, if it is the first of its ranks; absent where the group was idle.
   * @returns That of a group; undefined where it was idle.
   * @throws {GroupError} when a rank has left.
   * @throws {SpoiledError} when one has lost what it was to bring.
   */
  async meet(own: GroupResult | undefined): Promise<(group: number) => GroupResult | undefined> {
    const packed = own === undefined ? new Uint8Array(0) : this.#format.pack(own);
    if (this.#own.length > 0) {
      new DataView(this.#own.buffer).setUint32(0, packed.length, true);
      this.#own.set(packed.subarray(0, ROOM), LENGTH_BYTES);
    }
    await this.#communicator.allGather(this.#own, this.#heads, this.#head);
    const heads = new DataView(this.#heads.buffer);
    const lengths = Array.from({ length: this.#groups }, (_, group) =>
      heads.getUint32(group * HEAD_BYTES, true),
    );
    const beyond = lengths.map((length) => Math.max(length - ROOM, 0));
    const rests = new Uint8Array(beyond.reduce((sum, bytes) => sum + bytes, 0));
    if (rests.length > 0) {
      const rest = this.#exchange(`the rest of ${NAME}`, beyond);
      await this.#communicator.allGather(packed.subarray(ROOM), rests, rest);
    }
    return (group) => {
      const length = lengths[group]!;
      if (length === 0) return undefined;
      const bytes = new Uint8Array(length);
      const at = group * HEAD_BYTES + LENGTH_BYTES;
      bytes.set(this.#heads.subarray(at, at + Math.min(length, ROOM)));
      const from = beyond.slice(0, group).reduce((sum, count) => sum + count, 0);
      bytes.set(rests.subarray(from, from + beyond[group]!), Math.min(length, ROOM));
      return this.#format.unpack(bytes) as GroupResult;
    };
  }

  /** @param bytes Of the first rank of each group. */
  #exchange(name: string, bytes: readonly number[]): Exchange {
    const { size } = this.#communicator;
    const ranksOfGroup = size / this.#groups;
    const counts = Array.from({ length: size }, (_, rank) =>
      rank % ranksOfGroup === 0 ? bytes[rank / ranksOfGroup]! : 0,
    );
    return { name, counts };
  }
}
