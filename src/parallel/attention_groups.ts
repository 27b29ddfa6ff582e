/**
 * Attention groups of ranks that meet in one place only: what ranks of a group exchange among themselves
 * is an exchange of all ranks, to which those of other groups bring nothing.
 *
 * So ranks of all groups have to come to the exchanges of each group, in the same order: those of a step
 * do, as all of them run the plan of the step, an idle group's too.
 *
 * @module
 */
import type { Communicator, Exchange, ToAll } from "./communicator.ts";

/**
 * The same ranks, in groups that attend to different requests; ranks in a row are one.
 *
 * @param groups A divisor of how many ranks there are. With 1, all ranks attend to the same requests.
 */
export function inAttentionGroups(all: Communicator, groups: number): Communicator {
  if (groups === 1) return all;
  const { rank, allGather, allToAll, spoil, allocate, release, abort } = all;
  const common = { spoil, allocate, release, abort };
  const size = all.size / groups;
  const group = Math.floor(rank / size);
  const own = new GroupExchanges(all, { first: group * size, size });
  const communicator: Communicator = {
    ...common,
    rank: rank - group * size,
    size,
    allGather: (part, into, exchange) => own.allGather(part, into, exchange),
    allToAll: (part, into, exchange) => own.allToAll(part, into, exchange),
  };
  const attention = { group, groups, communicator };
  return { ...common, rank, size: all.size, allGather, allToAll, attention };
}

class GroupExchanges {
  readonly #all: Communicator;
  readonly #first: number;
  readonly #size: number;
  /** Holds a part once for each rank of the group; as large as the largest so far took. */
  #copies = new Uint8Array(0);

  constructor(
    all: Communicator,
    { first, size }: { readonly first: number; readonly size: number },
  ) {
    this.#all = all;
    this.#first = first;
    this.#size = size;
  }

  allGather(part: Uint8Array, into: Uint8Array, { name, counts }: Exchange): Promise<void> {
    const bytes = this.#size * part.length;
    if (this.#copies.length < bytes) this.#copies = new Uint8Array(bytes);
    const copies = this.#copies.subarray(0, bytes);
    for (let i = 0; i < this.#size; i++) copies.set(part, i * part.length);
    const sends = this.#ofAll(Array<number>(this.#size).fill(part.length));
    return this.#all.allToAll(copies, into, { name, sends, receives: this.#ofAll(counts) });
  }

  allToAll(part: Uint8Array, into: Uint8Array, { name, sends, receives }: ToAll): Promise<void> {
    const spread = { name, sends: this.#ofAll(sends), receives: this.#ofAll(receives) };
    return this.#all.allToAll(part, into, spread);
  }

  /** Counts of the group's ranks as those of all ranks. */
  #ofAll(counts: readonly number[]): readonly number[] {
    const all = Array<number>(this.#all.size).fill(0);
    counts.forEach((count, i) => {
      all[this.#first + i] = count;
    });
    return all;
  }
}
