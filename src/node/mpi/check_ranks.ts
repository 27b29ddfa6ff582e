/**
 * What `wisp check_ranks` has each rank do: exchange bytes of every kind of size, look at each of
 * them, and take the time.
 *
 * @module
 */
import { GroupError } from "../../errors.ts";
import type { Communicator, Exchange } from "../../parallel/communicator.ts";

/** Bytes of a rank, from less than a message's head to more than any hidden state. */
const SIZES = [64, 16 * 2 ** 10, 256 * 2 ** 10, 2 * 2 ** 20] as const;
/** How often each is exchanged, at least and at most; the smaller, the more. */
const ROUNDS = { least: 20, most: 500, bytes: 64 * 2 ** 20 } as const;
/** Exchanges in which every rank brings another number of bytes, some of them none. */
const RAGGED_ROUNDS = 100;
const RAGGED_BYTES = 20_000;

export interface ExchangeTime {
  /** Of each rank. */
  readonly bytes: number;
  /** Median, from the call to the last byte. */
  readonly microseconds: number;
}

/**
 * @returns What exchanges take on this rank.
 * @throws {GroupError} when a byte is another than its rank has brought.
 */
export async function checkRanks(communicator: Communicator): Promise<readonly ExchangeTime[]> {
  const { size } = communicator;
  for (let round = 0; round < RAGGED_ROUNDS; round++) {
    const counts = Array.from({ length: size }, (_, rank) => raggedBytes(round, rank));
    await checkedExchange(communicator, { name: "check", counts }, round);
  }
  const times: ExchangeTime[] = [];
  for (const [round, bytes] of SIZES.entries()) {
    const exchange = { name: "check", counts: Array<number>(size).fill(bytes) };
    await checkedExchange(communicator, exchange, round);
    times.push({ bytes, microseconds: await timeOf(communicator, exchange) });
  }
  return times;
}

async function checkedExchange(
  communicator: Communicator,
  exchange: Exchange,
  round: number,
): Promise<void> {
  const { rank } = communicator;
  const { counts } = exchange;
  const total = counts.reduce((sum, count) => sum + count, 0);
  const { memory, free } = memoryFor(communicator, total);
  const into = memory.fill(255);
  // Every other round begins with the part where it will be.
  const before = counts.slice(0, rank).reduce((sum, count) => sum + count, 0);
  const own = into.subarray(before, before + counts[rank]!).fill(byteOf(round, rank));
  const part = round % 2 === 0 ? own : own.slice();
  await communicator.allGather(part, into, exchange);
  let at = 0;
  for (const [other, count] of counts.entries()) {
    const wrong = into.subarray(at, at + count).findIndex((byte) => byte !== byteOf(round, other));
    if (wrong >= 0) {
      const state = `byte ${wrong} of ${count} of rank ${other} is ${into[at + wrong]} on rank ${rank}`;
      throw new GroupError(`Cannot trust the transport of ranks: ${state}`);
    }
    at += count;
  }
  free();
}

/** As layers have it for what they exchange. */
function memoryFor({ allocate, release }: Communicator, bytes: number) {
  const memory = allocate?.(bytes) ?? new Uint8Array(bytes);
  return { memory, free: () => release?.(memory) };
}

/** Median in microseconds. */
async function timeOf(communicator: Communicator, exchange: Exchange): Promise<number> {
  const { rank, size } = communicator;
  const bytes = exchange.counts[rank]!;
  const { memory: into, free } = memoryFor(communicator, bytes * size);
  const part = into.subarray(rank * bytes, (rank + 1) * bytes);
  const rounds = Math.ceil(ROUNDS.bytes / (bytes * size));
  const taken: number[] = [];
  for (let i = Math.max(ROUNDS.least, Math.min(ROUNDS.most, rounds)); i > 0; i--) {
    const begun = performance.now();
    await communicator.allGather(part, into, exchange);
    taken.push(performance.now() - begun);
  }
  free();
  taken.sort((a, b) => a - b);
  return 1000 * taken[taken.length >> 1]!;
}

const byteOf = (round: number, rank: number) => (31 * round + 7 * rank + 1) % 256;

/** Every fourth is none. */
const raggedBytes = (round: number, rank: number) =>
  (round + rank) % 4 === 0 ? 0 : (7919 * (round + 1) * (rank + 3)) % RAGGED_BYTES;
