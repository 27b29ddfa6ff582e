/**
 * What the ranks of one group say to each other. A rank is one process, or a part of one, with one
 * device.
 *
 * Bytes only: the caller adds numbers up afterwards, in an order of its own.
 *
 * @module
 */
import { GroupError } from "../errors.ts";

/** Ranks of one process that share a model, at most: more than any has heads that could be shared out. */
export const MOST_RANKS = 64;

/** Which of how many. */
export interface RankOf {
  /** 0 to `size - 1`. */
  readonly rank: number;
  readonly size: number;
}

export interface Exchange {
  /** What is exchanged; ranks that meet over different things fail. */
  readonly name: string;
  /** Bytes that each rank brings. */
  readonly counts: readonly number[];
  /** Whether this rank waits for the others for as long as it takes. Default: until a deadline. */
  readonly isPatient?: boolean;
}

/** An exchange in which every rank has bytes of its own for each. */
export interface ToAll extends Pick<Exchange, "name"> {
  /** Bytes that this rank has for each. */
  readonly sends: readonly number[];
  /** Bytes that each has for this one. */
  readonly receives: readonly number[];
}

/** The ranks of a group that have requests of their own: their attention, and its cache. */
export interface AttentionGroup {
  /** Which of how many. */
  readonly group: number;
  readonly groups: number;
  /** Among themselves. Where one leaves, all groups end. */
  readonly communicator: Communicator;
}

/** One rank's end of its group. Every rank makes the same calls in the same order, one at a time. */
export interface Communicator extends RankOf {
  /**
   * Brings what every rank has to all of them. `part` and `into` stay as they are given until the
   * promise settles.
   *
   * @param part This rank's bytes, `counts[rank]` of them; may be those of its place in `into`.
   * @param into Gets the bytes of all ranks, one behind the other.
   * @throws {GroupError} when a rank has left, or has come for something else.
   */
  allGather(part: Uint8Array, into: Uint8Array, exchange: Exchange): Promise<void>;
  /**
   * Brings to every rank what each has for it. Both stay as they are given until the promise settles,
   * and are not the same memory.
   *
   * @param part This rank's bytes for all ranks, one behind the other; for itself too.
   * @param into Gets the bytes of all ranks for this one, one behind the other.
   * @throws {GroupError} when a rank has left, has come for something else, or has other bytes for
   * another than that is to have; one that has its own may hear that at its next exchange only.
   */
  allToAll(part: Uint8Array, into: Uint8Array, exchange: ToAll): Promise<void>;
  /**
   * Comes to the exchange that the others come to now, whatever they bring, without a part of its own:
   * no rank gets anything, and all may go on to the next. Absent where a lost part ends the group.
   *
   * @throws {SpoiledError} on every rank, those that came by `allGather` included.
   * @throws {GroupError} when a rank has left.
   */
  readonly spoil?: ((reason: string) => Promise<never>) | undefined;
  /**
   * Memory that exchanges take bytes from, and bring bytes to, without copying them once more. Absent
   * where that is any memory.
   */
  readonly allocate?: ((bytes: number) => Uint8Array<ArrayBuffer>) | undefined;
  /** Takes it back; no exchange may be on its way that has it. */
  readonly release?: ((memory: Uint8Array<ArrayBuffer>) => void) | undefined;
  /**
   * Of ranks in several groups that attend to different requests; ranks in a row are one. Default: all
   * ranks attend to the same ones.
   */
  readonly attention?: AttentionGroup | undefined;
  /** Leaves the group: ranks that wait for this one, now or later, fail with the reason. */
  abort(reason: string): void;
}

/** A communicator of a group whose ranks all live in this process. */
export interface LocalCommunicator extends Communicator {
  readonly spoil: (reason: string) => Promise<never>;
  /** Has the ranks meet again after one has left. To be called while none waits. */
  renew(): void;
}

/** The ranks that attend to the same requests as this one. */
export function attentionRanks(communicator: Communicator): Communicator {
  return communicator.attention?.communicator ?? communicator;
}

/** The first rank of a group that never meets: of what ranks allocate and compile alike. */
export function absentGroup(size: number): Communicator {
  const never = () =>
    Promise.reject(new GroupError("Cannot gather from all ranks: those of this group never meet"));
  return { rank: 0, size, allGather: never, allToAll: never, abort() {} };
}

/** The group of a model that is on one device: no other rank to talk to. */
export const ONE_RANK: Communicator = {
  rank: 0,
  size: 1,
  async allGather(part, into) {
    into.set(part);
  },
  async allToAll(part, into) {
    into.set(part);
  },
  abort() {},
};
