/**
 * How the clocks of processes stand to each other. No exchange ends on a rank before every other has
 * come to it, so each one bounds the difference of two clocks from both sides; several together bound
 * it to less than what the fastest takes.
 *
 * @module
 */
import type { Communicator } from "../../parallel/communicator.ts";

/** Exchanges of one meeting. */
const ROUNDS = 24;

/** How the clock of a rank stands to that of the first, at one time. */
export interface ClockOffset {
  /** The rank's own time of the meeting, in milliseconds of `performance.now`. */
  readonly at: number;
  /** Milliseconds that the first one's clock is ahead. */
  readonly ahead: number;
  /** Milliseconds that this may be wrong by. */
  readonly error: number;
}

/**
 * To be called by all ranks at once.
 *
 * @returns Of each rank, on every one.
 * @throws {GroupError} when a rank has left.
 */
export async function meetClocks(communicator: Communicator): Promise<readonly ClockOffset[]> {
  const { size } = communicator;
  const own = new Float64Array(2 * ROUNDS);
  const nothing = { name: "the time", counts: Array<number>(size).fill(0) };
  const none = new Uint8Array(0);
  for (let round = 0; round < ROUNDS; round++) {
    own[2 * round] = performance.now();
    await communicator.allGather(none, none, nothing);
    own[2 * round + 1] = performance.now();
  }
  const all = new Float64Array(size * own.length);
  const times = { name: "times", counts: Array<number>(size).fill(own.byteLength) };
  await communicator.allGather(new Uint8Array(own.buffer), new Uint8Array(all.buffer), times);
  const ofRank = (rank: number) => all.subarray(rank * own.length, (rank + 1) * own.length);
  return Array.from({ length: size }, (_, rank) => offsetOf(ofRank(rank), ofRank(0)));
}

/** @param own When each exchange began and ended, by turns, by the rank's clock and by the first one's. */
export function offsetOf(own: Float64Array, first: Float64Array): ClockOffset {
  let [least, most] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let i = 0; i < own.length; i += 2) {
    least = Math.max(least, first[i]! - own[i + 1]!);
    most = Math.min(most, first[i + 1]! - own[i]!);
  }
  return { at: own.at(-1)!, ahead: (least + most) / 2, error: Math.abs(most - least) / 2 };
}

/** A rank's time as the first one's, by what was found before and behind it: clocks drift apart. */
export function asFirsts(time: number, before: ClockOffset, behind: ClockOffset): number {
  const share = behind.at > before.at ? (time - before.at) / (behind.at - before.at) : 0;
  return time + before.ahead + share * (behind.ahead - before.ahead);
}
