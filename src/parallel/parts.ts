/**
 * Parts of something that ranks have, several of them perhaps the same one: to the first of all ranks,
 * and from it to those that have them.
 *
 * @module
 */
import type { Communicator, ToAll } from "./communicator.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const NOTHING = new Uint8Array(0);

export interface RankPartsOptions {
  /** Of all ranks. */
  readonly communicator: Communicator;
  /** The rank that brings each part, one after the other. */
  readonly owners: readonly number[];
  /** Which part a rank has; undefined where it has none. */
  readonly partOf: (rank: number) => number | undefined;
  /** What is exchanged. */
  readonly name: string;
}

export class RankParts {
  readonly #options: RankPartsOptions;
  /** Whether several ranks have the same. */
  readonly #isShared: boolean;

  constructor(options: RankPartsOptions) {
    this.#options = options;
    const { communicator, owners, partOf } = options;
    const ranks = Array.from({ length: communicator.size }, (_, rank) => rank);
    this.#isShared = ranks.filter((rank) => partOf(rank) !== undefined).length > owners.length;
  }

  get count(): number {
    return this.#options.owners.length;
  }

  /** Whether this rank brings a part. */
  get isOwner(): boolean {
    const { communicator, owners } = this.#options;
    return owners.includes(communicator.rank);
  }

  /** Whether the first rank brings all there is. */
  get areFirsts(): boolean {
    return this.#options.owners.every((owner) => owner === 0);
  }

  /**
   * Brings all parts to the first rank.
   *
   * @param part This rank's; nothing where it brings none.
   * @param length Bytes of each.
   * @returns On the first rank all parts, one behind the other; on others nothing.
   * @throws {GroupError} when a rank has left.
   */
  async gather(part: Bytes, length: number): Promise<Bytes> {
    const { rank, allToAll } = this.#options.communicator;
    if (rank > 0) {
      const sends = this.#counts((to) => (to === 0 ? part.length : 0));
      await allToAll(part, NOTHING, this.#exchange({ sends, receives: this.#counts(() => 0) }));
      return NOTHING;
    }
    const all = new Uint8Array(length * this.count);
    all.set(part);
    const receives = this.#owned(length);
    const exchange = this.#exchange({ sends: this.#counts(() => 0), receives });
    await allToAll(NOTHING, all.subarray(part.length), exchange);
    return all;
  }

  /**
   * Brings to each rank its part from the first one.
   *
   * @param all On the first rank all parts, one behind the other.
   * @param length Bytes of each.
   * @returns This rank's part; nothing where it has none.
   * @throws {GroupError} when a rank has left.
   */
  async spread(all: Bytes, length: number): Promise<Bytes> {
    return this.#isShared ? this.#share(all, length) : this.#divide(all, length);
  }

  async #divide(all: Bytes, length: number): Promise<Bytes> {
    const { communicator, owners } = this.#options;
    const { rank, allToAll } = communicator;
    if (rank > 0) {
      const part = new Uint8Array(this.isOwner ? length : 0);
      const receives = this.#counts((from) => (from === 0 ? part.length : 0));
      await allToAll(NOTHING, part, this.#exchange({ sends: this.#counts(() => 0), receives }));
      return part;
    }
    const own = all.subarray(0, owners[0] === 0 ? length : 0);
    const exchange = this.#exchange({
      sends: this.#owned(length),
      receives: this.#counts(() => 0),
    });
    await allToAll(all.subarray(own.length), NOTHING, exchange);
    return own;
  }

  /** All ranks get all parts. */
  async #share(all: Bytes, length: number): Promise<Bytes> {
    const { communicator, partOf, name } = this.#options;
    const { rank, allGather } = communicator;
    const size = length * this.count;
    const into = rank === 0 ? all : new Uint8Array(size);
    const exchange = { name, counts: this.#counts((from) => (from === 0 ? size : 0)) };
    await allGather(rank === 0 ? all : NOTHING, into, exchange);
    const part = partOf(rank);
    return part === undefined ? NOTHING : into.slice(part * length, (part + 1) * length);
  }

  #counts(of: (rank: number) => number): readonly number[] {
    return Array.from({ length: this.#options.communicator.size }, (_, rank) => of(rank));
  }

  /** Bytes that others than the first rank bring, or have. */
  #owned(length: number): readonly number[] {
    const { owners } = this.#options;
    return this.#counts((rank) => (rank > 0 && owners.includes(rank) ? length : 0));
  }

  #exchange(counts: Pick<ToAll, "sends" | "receives">): ToAll {
    return { name: this.#options.name, ...counts };
  }
}
