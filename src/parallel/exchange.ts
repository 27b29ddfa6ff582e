/**
 * What a rank comes to an exchange with, checked and put into words.
 *
 * @module
 */
import type { Exchange, RankOf } from "./communicator.ts";

/** The bytes that a rank brings, and where those of all go. */
export interface Coming {
  readonly part: Uint8Array;
  readonly into: Uint8Array;
  readonly exchange: Exchange;
}

/** What is wrong with what a rank comes with, if something is. */
export function problemOf(
  { rank, size }: RankOf,
  { part, into, exchange }: Coming,
): string | undefined {
  const { counts } = exchange;
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (counts.length === size && counts[rank] === part.length && total === into.length) {
    return undefined;
  }
  const brought = `${part.length} bytes and room for ${into.length}`;
  return `rank ${rank} came to ${described(exchange)} with ${brought}`;
}

/** Of a rank that did not wait for its exchange to end. */
export function comesTwice(rank: number, { name }: Exchange): string {
  return `rank ${rank} came to "${name}" before its last exchange ended`;
}

/** An exchange as messages name it. */
export function described({ name, counts }: Exchange): string {
  return `"${name}" of ${counts.join(" + ")} bytes`;
}

/** Of a rank that came to an exchange without its part. */
export function withoutPart(rank: number, reason: string): string {
  return `Cannot go on with this step: rank ${rank} has no part of it, ${reason}`;
}

/** Of a rank that has left its group. */
export function withoutRank(rank: number, reason: string): string {
  return `Cannot go on without rank ${rank}, which has left its group: ${reason}`;
}
