import { afterAll, expect, test } from "vitest";
import {
  type EntryMove,
  EntryMover,
  movesOfPath,
  type SequenceMoves,
} from "../../src/cache/entry_mover.ts";
import { type CacheDtype, entryBytes, KvCache } from "../../src/cache/kv_cache.ts";
import { DeviceMemory } from "../../src/gpu/memory.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { device, download, seeded } from "../support/devices/gpu.ts";

const SLOTS = 48;

const destroyed: { destroy(): void }[] = [];
afterAll(() => {
  for (const one of destroyed) one.destroy();
});

interface Shape {
  readonly dtype: CacheDtype;
  readonly entryWidth: number;
  readonly pageSize: number;
}

/** A cache of random words, and what moves its entries. */
async function filledCache({ pageSize, ...shape }: Shape, most = { sequences: 8, moves: 32 }) {
  const cache = new KvCache(device, { ...shape, layers: 3 }, SLOTS);
  const recorder = new Recorder(device);
  const memory = new DeviceMemory(device.limits, device);
  destroyed.push(cache, recorder, memory);
  const mover = new EntryMover(
    recorder,
    { memory, cache },
    { pageSize, maxSequences: most.sequences, maxMoves: most.moves },
  );
  await recorder.pipelines.ready();
  const random = seeded(pageSize);
  const bytes = entryBytes(cache.shape);
  const layers = cache.layers.map(({ buffer }) => {
    const words = Uint8Array.from({ length: SLOTS * bytes }, () => random() * 256);
    device.queue.writeBuffer(buffer, 0, words);
    return words;
  });
  const slotOf = (table: readonly number[], place: number) =>
    table[Math.floor(place / pageSize)]! * pageSize + (place % pageSize);
  /** Makes the moves on the GPU and on the host, one after another. */
  const expectMoved = async (sequences: readonly SequenceMoves[]) => {
    mover.move(sequences);
    for (const [i, { buffer }] of cache.layers.entries()) {
      for (const { pageTable, moves } of sequences) {
        for (const { from, to } of moves) {
          const source = slotOf(pageTable, from) * bytes;
          layers[i]!.copyWithin(slotOf(pageTable, to) * bytes, source, source + bytes);
        }
      }
      expect(new Uint8Array(await download(buffer, 0, SLOTS * bytes))).toEqual(layers[i]);
    }
  };
  return { mover, recorder, expectMoved };
}

const SHAPES: readonly Shape[] = [
  { dtype: "bf16", entryWidth: 6, pageSize: 4 },
  { dtype: "f32", entryWidth: 70, pageSize: 1 },
  { dtype: "fp8_e4m3", entryWidth: 12, pageSize: 16 },
  { dtype: "fp8_e5m2", entryWidth: 8, pageSize: 8 },
];

test.each(SHAPES)(
  "move() moves entries of all layers in turn, and nothing else changes: %o",
  async (shape) => {
    const { expectMoved } = await filledCache(shape);
    const pages = SLOTS / shape.pageSize;
    const table = Array.from({ length: pages }, (_, i) => pages - 1 - i);
    const half = Math.ceil(pages / 3);
    await expectMoved([
      // Node 4's entry is overwritten by one that is moved after it; node 0 stays.
      { pageTable: table.slice(0, half), moves: movesOfPath(3, [0, 2, 3, 4, 9, 11]) },
      { pageTable: table.slice(half), moves: [] },
      { pageTable: table.slice(half), moves: movesOfPath(0, [0, 5]) },
    ]);
  },
);

test("move() makes more moves than one submit has room for, in order", async () => {
  const { recorder, expectMoved } = await filledCache(SHAPES[0]!, { sequences: 1, moves: 2 });
  const before = recorder.submits;
  const pages = Array.from({ length: 6 }, (_, i) => i);
  await expectMoved([
    { pageTable: pages, moves: movesOfPath(2, [0, 2, 3, 5, 7, 8]) },
    { pageTable: pages.map((page) => page + 6), moves: movesOfPath(1, [0, 3]) },
  ]);
  expect(recorder.submits - before).toBe(4);
});

test("move() submits nothing where all entries stay", async () => {
  const { mover, recorder } = await filledCache(SHAPES[1]!);
  const before = recorder.submits;
  mover.move([{ pageTable: [0, 1, 2], moves: movesOfPath(0, [0, 1, 2]) }]);
  expect(recorder.submits).toBe(before);
});

test.each<[string, readonly EntryMove[]]>([
  ["goes up", [{ from: 3, to: 4 }]],
  [
    "is read after it was overwritten",
    [
      { from: 5, to: 3 },
      { from: 4, to: 4 },
    ],
  ],
  [
    "goes where another went",
    [
      { from: 5, to: 3 },
      { from: 6, to: 3 },
    ],
  ],
])("move() refuses an entry that %s, and moves none", async (_, moves) => {
  const { mover, recorder } = await filledCache(SHAPES[1]!);
  const pageTable = Array.from({ length: 8 }, (__, i) => i);
  const before = recorder.submits;
  const good = { pageTable: [9, 10, 11], moves: movesOfPath(0, [0, 2]) };
  expect(() => mover.move([good, { pageTable, moves }])).toThrow(/an entry is moved from/);
  expect(recorder.submits).toBe(before);
});
