/**
 * What exchanges take in which every rank has bytes of its own for each, and what those of a layer of
 * experts take in both of their forms.
 *
 * @module
 */
import type { Communicator } from "../../../src/parallel/communicator.ts";

/** Bytes of a rank for each other, as raw_all_to_all.c has them. */
export const TO_ALL_SIZES = [64, 16_384, 262_144, 1_048_576] as const;
/** A step's rows, experts of a row, elements of a row. */
export const LAYERS = [
  { rows: 4, chosen: 8, width: 2048 },
  { rows: 64, chosen: 8, width: 2048 },
  { rows: 512, chosen: 8, width: 2048 },
] as const;
const BYTES = 64 * 2 ** 20;

export interface ToAllTimes {
  /** Median microseconds of each size. */
  readonly sizes: readonly number[];
  /** The same of each layer: every rank gets all; one rank gets a row's, and all get the sum. */
  readonly layers: readonly { readonly gathered: number; readonly returned: number }[];
}

export async function toAllTimes(communicator: Communicator): Promise<ToAllTimes> {
  const { size } = communicator;
  const sizes: number[] = [];
  for (const bytes of TO_ALL_SIZES) {
    const toAll = toAllOf(communicator, bytes);
    sizes.push(await median(toAll, bytes * size));
  }
  const layers: { gathered: number; returned: number }[] = [];
  for (const { rows, chosen, width } of LAYERS) {
    // Experts are chosen evenly: a rank has made this many of the rows' parts.
    const made = Math.floor((rows * chosen) / size) * width * 4;
    const gather = gatherOf(communicator, made);
    const toAll = toAllOf(communicator, Math.floor(made / size / 4) * 4);
    const sums = gatherOf(communicator, Math.floor(rows / size) * width * 4);
    const gathered = await median(gather, made * size);
    const returned = await median(async () => {
      await toAll();
      await sums();
    }, made * size);
    layers.push({ gathered, returned });
  }
  return { sizes, layers };
}

function toAllOf({ size, allToAll, allocate }: Communicator, bytes: number): () => Promise<void> {
  const [part, into] = [0, 1].map(() => allocate?.(bytes * size) ?? new Uint8Array(bytes * size));
  const counts = Array<number>(size).fill(bytes);
  return () => allToAll(part!, into!, { name: "to all", sends: counts, receives: counts });
}

function gatherOf(
  { rank, size, allGather, allocate }: Communicator,
  bytes: number,
): () => Promise<void> {
  const into = allocate?.(bytes * size) ?? new Uint8Array(bytes * size);
  const part = into.subarray(rank * bytes, (rank + 1) * bytes);
  const exchange = { name: "gather", counts: Array<number>(size).fill(bytes) };
  return () => allGather(part, into, exchange);
}

async function median(exchange: () => Promise<void>, bytes: number): Promise<number> {
  const rounds = Math.max(20, Math.min(300, Math.ceil(BYTES / bytes)));
  const taken: number[] = [];
  for (let round = -5; round < rounds; round++) {
    const begun = performance.now();
    await exchange();
    if (round >= 0) taken.push(performance.now() - begun);
  }
  taken.sort((a, b) => a - b);
  return 1000 * taken[taken.length >> 1]!;
}
