/**
 * What ranks do in the tests that every kind of group has to pass: each program runs on all ranks of
 * a group, in one process or in several, and gives what became of it on this one.
 *
 * @module
 */
import { GroupError } from "../../src/errors.ts";
import { agree } from "../../src/parallel/agree.ts";
import { inAttentionGroups } from "../../src/parallel/attention_groups.ts";
import type { Communicator } from "../../src/parallel/communicator.ts";
import { RankParts } from "../../src/parallel/parts.ts";
import { seeded } from "../support/seeded.ts";

export type GroupProgram = (communicator: Communicator) => Promise<unknown>;

/** Rank r brings `counts[r]` bytes of value 10 * round + r + 1. */
async function gather(
  { rank, allGather }: Communicator,
  counts: readonly number[],
  { name = "rows", round = 0 } = {},
): Promise<number[]> {
  const part = new Uint8Array(counts[rank]!).fill(10 * round + rank + 1);
  const into = new Uint8Array(counts.reduce((sum, count) => sum + count, 0)).fill(255);
  await allGather(part, into, { name, counts });
  return [...into];
}

/** "done", or why not. */
async function outcomeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "done";
  } catch (error) {
    return error instanceof GroupError ? error.message : `no GroupError: ${error}`;
  }
}

/** The same for an exchange and one after it. */
async function outcomes(communicator: Communicator, exchange: Promise<unknown>): Promise<string[]> {
  const first = await outcomeOf(exchange);
  return [first, await outcomeOf(gather(communicator, Array(communicator.size).fill(1)))];
}

/** The part of each of four ranks: their own, the same, and those of ranks that are not the first. */
export const PARTS: readonly (readonly (number | undefined)[])[] = [
  [0, 1, 2, 3],
  [0, 0, 0, 0],
  [0, 0, 1, 1],
  [undefined, undefined, 0, 1],
  [undefined, 0, 0, undefined],
];
const PART_BYTES = 5;
export const partBytes = (part: number) =>
  Uint8Array.from({ length: PART_BYTES }, (_, i) => 50 * part + i + 1);

const random = seeded(7);
const NOISE = Uint8Array.from({ length: 2 ** 19 }, () => 256 * random());

/** Bytes that no other rank or round near this one has. */
function bytesOf(round: number, rank: number, length: number): Uint8Array {
  const begin = (7919 * round + 104_729 * rank) % (NOISE.length - length);
  return NOISE.subarray(begin, begin + length);
}

/** Exchanges of sizes that change at every round, each byte looked at. Gives the rounds. */
export async function gatherRagged(
  { rank, size, allGather, allocate, release }: Communicator,
  {
    rounds,
    most,
    seed = 1,
  }: { readonly rounds: number; readonly most: number; readonly seed?: number },
): Promise<number> {
  const random = seeded(seed);
  const room = size * most;
  const held = allocate?.(room) ?? new Uint8Array(room);
  for (let round = 0; round < rounds; round++) {
    // Some bring nothing, and sizes of every magnitude come up.
    const counts = Array.from({ length: size }, () =>
      random() < 0.2 ? 0 : Math.floor(most ** random()),
    );
    const parts = counts.map((count, other) => bytesOf(round, other, count));
    const total = counts.reduce((sum, count) => sum + count, 0);
    // By turns anywhere, in memory that exchanges use where it is, and the part where it will be.
    const into = round % 3 === 0 ? new Uint8Array(total) : held.subarray(0, total);
    into.fill(255);
    const before = counts.slice(0, rank).reduce((sum, count) => sum + count, 0);
    const place = into.subarray(before, before + counts[rank]!);
    if (round % 3 === 2) place.set(parts[rank]!);
    const part = round % 3 === 2 ? place : parts[rank]!;
    await allGather(part, into, { name: `round ${round % 7}`, counts });
    let at = 0;
    for (const [other, part] of parts.entries()) {
      if (Buffer.compare(into.subarray(at, at + part.length), part) !== 0) {
        throw new Error(`Cannot trust round ${round}: bytes of rank ${other} are wrong`);
      }
      at += part.length;
    }
    // Where the process has it: what JavaScript has moved or freed must not matter.
    if (round % 16 === 0) (globalThis as { gc?: () => void }).gc?.();
  }
  release?.(held);
  return rounds;
}

/**
 * Rank r has for rank p, in a round, so many bytes: some have nothing for any rank, some nothing for one,
 * and sizes of every magnitude come up.
 */
function raggedCounts(size: number, most: number, random: () => number): number[][] {
  return Array.from({ length: size }, () => {
    const isSilent = random() < 0.1;
    return Array.from({ length: size }, () =>
      isSilent || random() < 0.3 ? 0 : Math.floor(most ** random()),
    );
  });
}

/** Exchanges in which each rank has other bytes for each, every byte looked at. Gives the rounds. */
export async function allToAllRagged(
  { rank, size, allToAll, allocate, release }: Communicator,
  {
    rounds,
    most,
    seed = 1,
  }: { readonly rounds: number; readonly most: number; readonly seed?: number },
): Promise<number> {
  const random = seeded(seed);
  const room = size * most;
  const held = [0, 1].map(() => allocate?.(room) ?? new Uint8Array(room));
  for (let round = 0; round < rounds; round++) {
    const counts = raggedCounts(size, most, random);
    const [sends, receives] = [counts[rank]!, counts.map((of) => of[rank]!)];
    const bytes = (from: number, to: number) =>
      bytesOf(round, from * size + to, counts[from]![to]!);
    const sum = (list: readonly number[]) => list.reduce((all, one) => all + one, 0);
    // By turns anywhere, and in memory that exchanges use where it is, on either side.
    const memory = (side: 0 | 1, length: number) =>
      ((round >> side) & 1) === 0 ? new Uint8Array(length) : held[side]!.subarray(0, length);
    const part = memory(0, sum(sends));
    const into = memory(1, sum(receives)).fill(255);
    let at = 0;
    for (let to = 0; to < size; to++) {
      part.set(bytes(rank, to), at);
      at += sends[to]!;
    }
    await allToAll(part, into, { name: `round ${round % 7}`, sends, receives });
    at = 0;
    for (let from = 0; from < size; from++) {
      const got = into.subarray(at, at + receives[from]!);
      if (Buffer.compare(got, bytes(from, rank)) !== 0) {
        throw new Error(`Cannot trust round ${round}: bytes of rank ${from} are wrong`);
      }
      at += receives[from]!;
    }
    if (round % 16 === 0) (globalThis as { gc?: () => void }).gc?.();
  }
  for (const one of held) release?.(one);
  return rounds;
}

function unevenly(communicator: Communicator, count: number): Promise<string[]> {
  const { rank, size, allToAll } = communicator;
  const sends = Array<number>(size).fill(count);
  const receives = [...sends];
  if (rank === 1) sends[2] = count + 1;
  const total = (list: readonly number[]) => list.reduce((all, one) => all + one, 0);
  const [part, into] = [new Uint8Array(total(sends)), new Uint8Array(total(receives))];
  return outcomes(communicator, allToAll(part, into, { name: "rows", sends, receives }));
}

const facts = { model: "a", pageSize: 16, quantized: true };
const pause = (milliseconds: number) =>
  new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

/** The last to come, and ranks with nothing to bring, change nothing. */
async function inEveryOrder(communicator: Communicator): Promise<number[][]> {
  const { rank, size } = communicator;
  const counts = Array.from({ length: size }, (_, r) => (r === 1 ? 0 : r + 2));
  const rounds: number[][] = [];
  for (let round = 0; round < 3; round++) {
    await pause(((rank + round) % size) * 4);
    rounds.push(await gather(communicator, counts, { round }));
  }
  return rounds;
}

export const PROGRAMS = {
  async gathers(communicator) {
    const { rank, size } = communicator;
    return {
      place: [rank, size],
      rounds: await inEveryOrder(communicator),
      nothing: await gather(communicator, Array(size).fill(0)),
      something: await gather(communicator, Array(size).fill(1)),
      ragged: await gatherRagged(communicator, { rounds: 80, most: 200_000 }),
      toAll: await allToAllRagged(communicator, { rounds: 120, most: 100_000 }),
      agree: await outcomeOf(agree(communicator, "what they load", facts)),
    };
  },

  /** Each of two has bytes, and sizes, of its own. */
  async "attention groups"(communicator) {
    const { group, communicator: own } = inAttentionGroups(communicator, 2).attention!;
    const seed = group + 1;
    const { rank, size } = own;
    const lost = communicator.rank === communicator.size - 1;
    return {
      place: [group, rank, size],
      ragged: await gatherRagged(own, { rounds: 60, most: 100_000, seed }),
      toAll: await allToAllRagged(own, { rounds: 60, most: 100_000, seed }),
      spoiled: await outcomeOf(lost ? own.spoil!("it is lost") : gather(own, Array(size).fill(1))),
      behind: await gather(own, Array(size).fill(seed)),
    };
  },

  async "other name"(communicator) {
    const { rank, size } = communicator;
    const name = rank === 0 ? "logits" : "rows";
    return outcomes(communicator, gather(communicator, Array(size).fill(2), { name }));
  },

  async "other sizes"(communicator) {
    const { rank, size } = communicator;
    const counts = Array<number>(size).fill(2);
    if (rank === 0) counts[1] = 1;
    return outcomes(communicator, gather(communicator, counts));
  },

  /** One says that its bytes are few, and others that they are many. */
  async "other large sizes"(communicator) {
    const { rank, size } = communicator;
    const counts = Array<number>(size).fill(2);
    counts[1] = rank === 1 ? 300_000 : 100;
    return outcomes(communicator, gather(communicator, counts));
  },

  /** Rank 1 has more for rank 2 than that is to have: few bytes, or so many that they go apart. */
  "other bytes for one": (communicator) => unevenly(communicator, 30),
  "many other bytes for one": (communicator) => unevenly(communicator, 30_000),

  /** One gathers, while the others have bytes for each. */
  async "other kind"(communicator) {
    const { rank, size, allToAll } = communicator;
    const counts = Array<number>(size).fill(1);
    if (rank === 0) return outcomes(communicator, gather(communicator, counts));
    const exchange = { name: "rows", sends: counts, receives: counts };
    const coming = allToAll(new Uint8Array(size), new Uint8Array(size), exchange);
    return outcomes(communicator, coming);
  },

  /** A rank without its part leaves exchanges of both kinds, and then all meet. */
  async "spoils those for each"(communicator) {
    const { rank, size, allToAll } = communicator;
    const said: unknown[] = [];
    for (const count of [100, 300_000]) {
      const counts = Array<number>(size).fill(count);
      const [part, into] = [0, 1].map(() => new Uint8Array(size * count));
      const exchange = { name: "rows", sends: counts, receives: counts };
      const coming =
        rank === 1 ? communicator.spoil!("it is lost") : allToAll(part!, into!, exchange);
      said.push(await outcomeOf(coming));
    }
    said.push(await allToAllRagged(communicator, { rounds: 9, most: 20_000 }));
    return said;
  },

  /** With few bytes and with many, whichever rank comes first; then all of them meet again. */
  async spoils(communicator) {
    const { rank, size } = communicator;
    const said: unknown[] = [];
    for (const [round, count] of [100, 300_000, 100].entries()) {
      const counts = Array.from({ length: size }, (_, r) => (r === 0 ? 50 : count));
      await pause(((rank + round) % size) * 10);
      const coming =
        rank === 1 || (rank === 2 && round === 2)
          ? communicator.spoil!("as its device is lost")
          : gather(communicator, counts);
      said.push(await outcomeOf(coming));
      said.push((await gather(communicator, counts, { round })).length);
    }
    return said;
  },

  /** One exchange right behind the other, with and without all parts; those with all are looked at. */
  async "spoils often"(communicator) {
    const { rank, size } = communicator;
    const wrong: unknown[] = [];
    for (let round = 0; round < 100; round++) {
      const spoiler = (7 * round) % (size + 2);
      const counts = Array.from({ length: size }, (_, r) => 9000 + 40_000 * ((round + r) % 3));
      if (spoiler >= size) {
        await gatherRagged(communicator, { rounds: 1, most: 100_000, seed: round });
        continue;
      }
      const told = await outcomeOf(
        rank === spoiler ? communicator.spoil!(`in round ${round}`) : gather(communicator, counts),
      );
      if (!told.includes(`rank ${spoiler} has no part of it, in round ${round}`)) wrong.push(told);
    }
    return wrong;
  },

  async "leaves late"(communicator) {
    if (communicator.rank !== 1) {
      return outcomes(communicator, gather(communicator, Array(communicator.size).fill(1)));
    }
    await pause(20);
    communicator.abort("it is out of memory");
    communicator.abort("another reason");
    return outcomes(communicator, gather(communicator, Array(communicator.size).fill(1)));
  },

  async "leaves early"(communicator) {
    if (communicator.rank === 1) communicator.abort("it is out of memory");
    else await pause(20);
    return outcomes(communicator, gather(communicator, Array(communicator.size).fill(1)));
  },

  async "comes twice"(communicator) {
    const { rank, size } = communicator;
    const counts = Array<number>(size).fill(1);
    // Its exchange has ended where the others were there before it: then they all come again.
    for (;;) {
      if (rank !== 0) await pause(20);
      const first = outcomeOf(gather(communicator, counts));
      const second = rank === 0 ? outcomeOf(gather(communicator, counts)) : first;
      if ((await second) !== "done") return [await second, await first];
    }
  },

  async "other bytes than it says"(communicator) {
    const { rank, size, allGather } = communicator;
    const counts = Array<number>(size).fill(1);
    if (rank !== 0)
      return outcomes(
        communicator,
        pause(20).then(() => gather(communicator, counts)),
      );
    const coming = allGather(new Uint8Array(2), new Uint8Array(size), { name: "rows", counts });
    return outcomes(communicator, coming);
  },

  async parts(communicator) {
    const said: unknown[] = [];
    for (const ofRanks of PARTS) {
      const partOf = (rank: number) => ofRanks[rank];
      const owners = ofRanks.flatMap((part, rank) =>
        part !== undefined && ofRanks.indexOf(part) === rank ? [rank] : [],
      );
      const given = { communicator, partOf, owners };
      const parts = new RankParts({ ...given, name: "parts" });
      const own = parts.isOwner ? partBytes(partOf(communicator.rank)!) : new Uint8Array(0);
      const all = await parts.gather(own, PART_BYTES);
      said.push([...all], [...(await parts.spread(all, PART_BYTES))]);
    }
    return said;
  },

  disagree: (communicator) =>
    outcomeOf(
      agree(communicator, "what they load", {
        ...facts,
        pageSize: communicator.rank === 2 ? 8 : 16,
      }),
    ),

  "more to say": (communicator) =>
    outcomeOf(
      agree(communicator, "what they load", {
        model: "a",
        ...(communicator.rank === 0 ? {} : { rows: 3 }),
      }),
    ),
} satisfies Readonly<Record<string, GroupProgram>>;

export type ProgramName = keyof typeof PROGRAMS;
