/**
 * Whether ranks are about to do the same.
 *
 * @module
 */
import { GroupError } from "../errors.ts";
import type { Communicator } from "./communicator.ts";

/** What ranks compare, by name. */
export type Facts = Readonly<Record<string, string | number | boolean>>;

/**
 * Waits until every rank has come here with the same facts.
 *
 * @throws {GroupError} on every rank, naming the first fact that two of them have differently.
 */
export async function agree(communicator: Communicator, name: string, facts: Facts): Promise<void> {
  const { size } = communicator;
  if (size === 1) return;
  const own = new TextEncoder().encode(JSON.stringify(facts));
  const lengths = new Uint32Array(size);
  const length = new Uint8Array(Uint32Array.of(own.length).buffer);
  const fixed = { name: `${name}: lengths`, counts: Array<number>(size).fill(4) };
  await communicator.allGather(length, new Uint8Array(lengths.buffer), fixed);
  const counts = [...lengths];
  const all = new Uint8Array(counts.reduce((sum, count) => sum + count, 0));
  await communicator.allGather(own, all, { name, counts });
  let at = 0;
  const said = counts.map((count) => {
    const text = new TextDecoder().decode(all.subarray(at, at + count));
    at += count;
    return JSON.parse(text) as Facts;
  });
  for (const [rank, other] of said.entries()) compare(name, said[0]!, other, rank);
}

function compare(name: string, first: Facts, other: Facts, rank: number): void {
  const fact = firstDifference(first, other);
  if (fact === undefined) return;
  throw new GroupError(
    `Cannot go on with ranks that disagree about ${name}: ${fact} is ${first[fact]} on rank 0, ${other[fact]} on rank ${rank}`,
  );
}

/** The first name under which two have something else, in the order of the first's. */
export function firstDifference(first: Facts, other: Facts): string | undefined {
  const names = new Set([...Object.keys(first), ...Object.keys(other)]);
  return [...names].find((name) => first[name] !== other[name]);
}
