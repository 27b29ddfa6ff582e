/**
 * What it takes to bring the cache pages of all ranks to the first one, as one rank would have them, and
 * from there to all.
 *
 * @module
 */
import { type EntryShares, PageForm, rankFields } from "../../../src/cache/page_form.ts";
import { allocatePacked, seal } from "../../../src/cache/page_header.ts";
import type { Communicator } from "../../../src/parallel/communicator.ts";

/** Pages that travel in one message, of all ranks. */
export const PAGE_BYTES = 4 * 2 ** 20;
const VECTOR = 128;
const HEADS = 8;
const PAGE_SIZE = 64;
const ROUNDS = 40;

/** Median milliseconds. */
export interface PageTimes {
  /** Every rank's part to the first. */
  readonly gathered: number;
  /** The same to every rank. */
  readonly gatheredByAll: number;
  readonly joined: number;
  readonly cut: number;
  /** A part from the first to each. */
  readonly spread: number;
  /** All parts from the first to each. */
  readonly spreadToAll: number;
}

/** Keys and values of eight heads, shared out. */
export async function pageTimes(communicator: Communicator): Promise<PageTimes> {
  const { rank, size, allGather, allToAll } = communicator;
  const bytes = PAGE_BYTES / size;
  const part = new Uint8Array(bytes).fill(rank + 1);
  const nothing = new Uint8Array(0);
  const counts = (of: (rank: number) => boolean) =>
    Array.from({ length: size }, (_, one) => (of(one) ? bytes : 0));
  const [none, others] = [counts(() => false), counts((one) => one > 0)];
  const isFirst = rank === 0;
  const whole = new Uint8Array(PAGE_BYTES);
  const behind = () => whole.subarray(bytes);
  const own = counts((one) => one === 0);
  const gathered = await median(() => {
    const sends = isFirst ? none : own;
    const exchange = { name: "to the first", sends, receives: isFirst ? others : none };
    return allToAll(isFirst ? nothing : part, isFirst ? behind() : nothing, exchange);
  });
  const gatheredByAll = await median(() =>
    allGather(isFirst ? nothing : part, behind(), { name: "to all", counts: others }),
  );
  const spread = await median(() => {
    const receives = isFirst ? none : own;
    const exchange = { name: "from the first", sends: isFirst ? others : none, receives };
    return allToAll(isFirst ? behind() : nothing, isFirst ? nothing : part, exchange);
  });
  const spreadToAll = await median(() => {
    const all = Array.from({ length: size }, (_, one) => (one === 0 ? PAGE_BYTES - bytes : 0));
    const into = new Uint8Array(PAGE_BYTES - bytes);
    return allGather(isFirst ? behind() : nothing, into, { name: "all of the first", counts: all });
  });
  const [joined, cut] = isFirst ? await formTimes(size) : [0, 0];
  return { gathered, gatheredByAll, joined, cut, spread, spreadToAll };
}

async function formTimes(ranks: number): Promise<readonly [joined: number, cut: number]> {
  const shares: EntryShares = { ranks, heads: HEADS, parts: 2 };
  const own = HEADS / ranks;
  const entryWidth = 2 * own * VECTOR;
  const layers = Math.floor(PAGE_BYTES / ranks / (2 * entryWidth * PAGE_SIZE));
  const layoutOf = (rank: number) => ({
    ...{ modelHash: "m", dtype: "bf16" as const, entryWidth, pageSize: PAGE_SIZE, layers },
    numerics: JSON.stringify(rankFields(shares, rank)),
  });
  const parts = Array.from({ length: ranks }, (_, rank) => {
    const counts = { firstLayer: 0, layerCount: layers, pageCount: 1 };
    const { bytes } = allocatePacked({ ...layoutOf(rank), ...counts });
    seal(bytes);
    return bytes;
  });
  const all = Buffer.concat(parts);
  const form = new PageForm({ ...layoutOf(0), shares });
  const bytes = new Uint8Array(all);
  const whole = form.join(bytes);
  const joined = await median(async () => void form.join(bytes));
  return [joined, await median(async () => void form.cut(whole))];
}

async function median(work: () => Promise<void>): Promise<number> {
  const taken: number[] = [];
  for (let round = -5; round < ROUNDS; round++) {
    const begun = performance.now();
    await work();
    if (round >= 0) taken.push(performance.now() - begun);
  }
  return taken.sort((a, b) => a - b)[taken.length >> 1]!;
}
