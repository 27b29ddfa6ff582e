/**
 * A group whose ranks live in one process.
 *
 * @module
 */
import { GroupError, SpoiledError } from "../errors.ts";
import type { Exchange, LocalCommunicator, RankOf, ToAll } from "./communicator.ts";
import {
  type Coming,
  comesTwice,
  described,
  isToAll,
  problemOf,
  withOtherBytes,
  withoutPart,
  withoutRank,
} from "./exchange.ts";

/** One rank that has come to an exchange: with its part, or with the reason why it has none. */
interface Arrival {
  readonly coming: Coming | undefined;
  readonly reason?: string;
  resolve(): void;
  reject(error: GroupError): void;
}

/**
 * A communicator for each of `size` ranks, in order.
 *
 * @param groups That attend to different requests; a divisor of `size`. Default: one.
 */
export function localGroup(size: number, groups = 1): readonly LocalCommunicator[] {
  const own = size / groups;
  const meeting = new Meeting(size);
  const ofGroups = groups === 1 ? [] : Array.from({ length: groups }, () => new Meeting(own));
  const meetings = [meeting, ...ofGroups];
  const link = (rank: number, at: Meeting, of: RankOf): LocalCommunicator => ({
    ...of,
    allGather: (part, into, exchange) => at.join(of.rank, { part, into, exchange }),
    allToAll: (part, into, exchange) => at.join(of.rank, { part, into, exchange }),
    spoil: (reason) => at.spoil(of.rank, reason),
    abort: (reason) => {
      for (const one of meetings) one.fail(new GroupError(withoutRank(rank, reason)));
    },
    renew: () => {
      for (const one of meetings) one.renew();
    },
  });
  return Array.from({ length: size }, (_, rank) => {
    const all = link(rank, meeting, { rank, size });
    if (groups === 1) return all;
    const group = Math.floor(rank / own);
    const communicator = link(rank, ofGroups[group]!, { rank: rank % own, size: own });
    return { ...all, attention: { group, groups, communicator } };
  });
}

/** Where ranks wait for each other. */
class Meeting {
  readonly #size: number;
  readonly #arrivals = new Map<number, Arrival>();
  #failure: GroupError | undefined;

  constructor(size: number) {
    this.#size = size;
  }

  join(rank: number, coming: Coming): Promise<void> {
    const problem = this.#problemOf(rank, coming);
    if (problem !== undefined)
      this.fail(new GroupError(`Cannot gather from all ranks: ${problem}`));
    return this.#arrive(rank, { coming });
  }

  spoil(rank: number, reason: string): Promise<never> {
    return this.#arrive(rank, { coming: undefined, reason }) as Promise<never>;
  }

  #arrive(rank: number, arrival: Omit<Arrival, "resolve" | "reject">): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#arrivals.set(rank, { ...arrival, resolve, reject });
      if (this.#arrivals.size === this.#size) this.#deliver();
    });
  }

  /** Ends the group. All ranks get the first reason. */
  fail(error: GroupError): void {
    this.#failure ??= error;
    for (const { reject } of this.#arrivals.values()) reject(this.#failure);
    this.#arrivals.clear();
  }

  renew(): void {
    this.#failure = undefined;
  }

  #problemOf(rank: number, coming: Coming): string | undefined {
    const { exchange } = coming;
    const wrong = problemOf({ rank, size: this.#size }, coming);
    if (wrong !== undefined) return wrong;
    if (this.#arrivals.has(rank)) return comesTwice(rank, exchange);
    for (const [other, { coming: others }] of this.#arrivals) {
      if (others === undefined) continue;
      if (alike(others.exchange, exchange)) {
        const uneven = unevenness([rank, exchange], [other, others.exchange]);
        if (uneven !== undefined) return uneven;
        continue;
      }
      return `rank ${other} is at ${described(others.exchange)}, rank ${rank} at ${described(exchange)}`;
    }
    return undefined;
  }

  #deliver(): void {
    const arrivals = [...this.#arrivals].sort(([a], [b]) => a - b).map(([, arrival]) => arrival);
    this.#arrivals.clear();
    const spoiler = arrivals.findIndex(({ coming }) => coming === undefined);
    if (spoiler >= 0) {
      const error = new SpoiledError(withoutPart(spoiler, arrivals[spoiler]!.reason!));
      for (const { reject } of arrivals) reject(error);
      return;
    }
    const all = arrivals.map(({ coming }) => coming!);
    for (const [rank, { into }] of all.entries()) {
      let at = 0;
      for (const { part, exchange } of all) {
        const own = isToAll(exchange) ? partFor(rank, part, exchange) : part;
        into.set(own, at);
        at += own.length;
      }
    }
    for (const { resolve } of arrivals) resolve();
  }
}

/** What a rank has for another, of what it has for all. */
function partFor(rank: number, part: Uint8Array, { sends }: ToAll): Uint8Array {
  const before = sends.slice(0, rank).reduce((sum, count) => sum + count, 0);
  return part.subarray(before, before + sends[rank]!);
}

function alike(a: Exchange | ToAll, b: Exchange | ToAll): boolean {
  if (a.name !== b.name || isToAll(a) !== isToAll(b)) return false;
  return isToAll(a) || isToAll(b) || a.counts.every((count, i) => count === b.counts[i]);
}

/** Of two ranks one of which has other bytes for the other than that is to have. */
function unevenness(
  [rank, own]: readonly [number, Exchange | ToAll],
  [other, its]: readonly [number, Exchange | ToAll],
): string | undefined {
  if (!isToAll(own) || !isToAll(its)) return undefined;
  if (own.sends[other] !== its.receives[rank]) return withOtherBytes(rank, other, own);
  return its.sends[rank] === own.receives[other] ? undefined : withOtherBytes(other, rank, own);
}
