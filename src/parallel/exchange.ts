/**
 * What a rank comes to an exchange with, checked and put into words.
 *
 * @module
 */
import type { Exchange, RankOf, ToAll } from "./communicator.ts";

/** The bytes that a rank brings, and where those of all go. */
export interface Coming {
  readonly part: Uint8Array;
  readonly into: Uint8Array;
  readonly exchange: Exchange | ToAll;
}

/** What is wrong with what a rank comes with, if something is. */
export function problemOf(
  { rank, size }: RankOf,
  { part, into, exchange }: Coming,
): string | undefined {
  const [own, all] = isToAll(exchange)
    ? [sumOf(exchange.sends), sumOf(exchange.receives)]
    : [exchange.counts[rank], sumOf(exchange.counts)];
  const lists = isToAll(exchange) ? [exchange.sends, exchange.receives] : [exchange.counts];
  const isOfAll = lists.every(({ length }) => length === size);
  if (isOfAll && own === part.length && all === into.length && keepsOwn(rank, exchange)) {
    return undefined;
  }
  const brought = `${part.length} bytes and room for ${into.length}`;
  return `rank ${rank} came to ${described(exchange)} with ${brought}`;
}

/** What a rank has for itself, it gets. */
function keepsOwn(rank: number, exchange: Exchange | ToAll): boolean {
  return !isToAll(exchange) || exchange.sends[rank] === exchange.receives[rank];
}

export function isToAll(exchange: Exchange | ToAll): exchange is ToAll {
  return "sends" in exchange;
}

/** Of a rank that did not wait for its exchange to end. */
export function comesTwice(rank: number, { name }: Pick<Exchange, "name">): string {
  return `rank ${rank} came to "${name}" before its last exchange ended`;
}

/** An exchange as messages name it: as all ranks have it alike. */
export function described(exchange: Exchange | ToAll): string {
  if (isToAll(exchange)) return `"${exchange.name}" of bytes for each`;
  return `"${exchange.name}" of ${exchange.counts.join(" + ")} bytes`;
}

/** Of a rank that has other bytes for another than that is to have. */
export function withOtherBytes(from: number, to: number, { name }: Pick<ToAll, "name">): string {
  return `rank ${from} has other bytes for rank ${to} at "${name}" than that is to have`;
}

/** Of a rank that came to an exchange without its part. */
export function withoutPart(rank: number, reason: string): string {
  return `Cannot go on with this step: rank ${rank} has no part of it, ${reason}`;
}

/** Of a rank that has left its group. */
export function withoutRank(rank: number, reason: string): string {
  return `Cannot go on without rank ${rank}, which has left its group: ${reason}`;
}

const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);
