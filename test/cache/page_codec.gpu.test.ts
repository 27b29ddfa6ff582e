import { afterAll, describe, expect, test } from "vitest";
import { entryBytes, KvCache, type KvCacheShape } from "../../src/cache/kv_cache.ts";
import { PageCodec, type PageCodecOptions } from "../../src/cache/page_codec.ts";
import { KernelError, TransferError } from "../../src/errors.ts";
import { device, download, seeded } from "../support/devices/gpu.ts";

const SHAPE: KvCacheShape = { layers: 3, entryWidth: 6, dtype: "bf16" };
const SLOTS = 40;
const PAGE_SIZE = 4;
const PAGE_BYTES = entryBytes(SHAPE) * PAGE_SIZE;
/** Two runs, not in the order of their numbers. */
const PAGES = [7, 2, 3, 8, 0];

const destroyed: { destroy(): void }[] = [];
afterAll(() => {
  for (const one of destroyed) one.destroy();
});

/** A cache with random bytes everywhere, and what they are by layer. */
function filled(seed: number, shape = SHAPE) {
  const cache = new KvCache(device, shape, SLOTS);
  const random = seeded(seed);
  const layers = cache.layers.map(({ buffer }) => {
    const bytes = Uint8Array.from({ length: entryBytes(shape) * SLOTS }, () => random() * 256);
    device.queue.writeBuffer(buffer, 0, bytes);
    return bytes;
  });
  destroyed.push(cache);
  return { cache, layers };
}

function codecOf(cache: KvCache, changes: Partial<PageCodecOptions> = {}) {
  const options = { cache, pageSize: PAGE_SIZE, modelHash: "m", numerics: "n", ...changes };
  const codec = new PageCodec(device, options);
  destroyed.push(codec);
  return codec;
}

async function contents(cache: KvCache): Promise<Uint8Array[]> {
  const size = entryBytes(cache.shape) * SLOTS;
  const all = [];
  for (const { buffer } of cache.layers) all.push(new Uint8Array(await download(buffer, 0, size)));
  return all;
}

const page = (layer: Uint8Array, number: number) =>
  layer.slice(number * PAGE_BYTES, (number + 1) * PAGE_BYTES);

describe("PageCodec", () => {
  // Everything at once, a page at a time, and portions that end inside a layer.
  test.each([undefined, 1, 2 * PAGE_BYTES, 7 * PAGE_BYTES])(
    "pages come back elsewhere in another cache, and nothing else changes (staging of %s)",
    async (stagingBytes) => {
      const from = filled(1);
      const to = filled(2);
      const bytes = await codecOf(from.cache, { stagingBytes: stagingBytes! }).readPages(PAGES);
      const codec = codecOf(to.cache, { stagingBytes: stagingBytes! });
      expect(bytes).toHaveLength(codec.packedBytes(PAGES.length));
      const places = [1, 9, 4, 5, 6];
      await codec.writePages(bytes, places);
      const want = to.layers.map((layer, i) => {
        const expected = layer.slice();
        places.forEach((place, j) => {
          expected.set(page(from.layers[i]!, PAGES[j]!), place * PAGE_BYTES);
        });
        return expected;
      });
      expect(await contents(to.cache)).toEqual(want);
    },
  );

  test("a range of layers, written without its first pages", async () => {
    const { cache, layers } = filled(3);
    const other = filled(4);
    const bytes = await codecOf(cache).readPages(PAGES, { firstLayer: 1, layerCount: 1 });
    await codecOf(other.cache).writePages(bytes, [5, 4, 6], { skip: 2 });
    const written = await contents(other.cache);
    expect([written[0], written[2]]).toEqual([other.layers[0], other.layers[2]]);
    expect([5, 4, 6].map((number) => page(written[1]!, number))).toEqual(
      PAGES.slice(2).map((number) => page(layers[1]!, number)),
    );
  });

  test("pages go between caches with and without a draft module's layer, which is zero then", async () => {
    const wide = filled(9, { ...SHAPE, layers: 4 });
    const narrow = filled(10);
    const drafting = codecOf(wide.cache, { draftLayers: 1 });
    const plain = codecOf(narrow.cache);
    expect(drafting.layout).toEqual(plain.layout);
    const [withDrafts, without] = [await drafting.readPages([4, 1]), await plain.readPages([2])];
    const lengths = [plain, drafting].map((codec) => codec.packedBytes(2));
    expect(plain.packedSizes(2)).toEqual(lengths);
    expect(drafting.packedSizes(2)).toEqual(lengths);

    await plain.writePages(withDrafts, [7], { skip: 1 });
    narrow.layers.forEach((layer, i) => {
      layer.set(page(wide.layers[i]!, 1), 7 * PAGE_BYTES);
    });
    expect(await contents(narrow.cache)).toEqual(narrow.layers);

    await drafting.writePages(without, [5]);
    wide.layers.forEach((layer, i) => {
      const from = narrow.layers[i];
      layer.set(from ? page(from, 2) : new Uint8Array(PAGE_BYTES), 5 * PAGE_BYTES);
    });
    // A range of the model's layers that does not end with its last one changes no other.
    const range = { firstLayer: 1, layerCount: 1 };
    await drafting.writePages(await plain.readPages([3], range), [6]);
    wide.layers[1]!.set(page(narrow.layers[1]!, 3), 6 * PAGE_BYTES);
    // Between drafting caches everything travels.
    await drafting.writePages(withDrafts, [8, 9]);
    for (const layer of wide.layers) {
      layer.set(page(layer, 4), 8 * PAGE_BYTES);
      layer.set(page(layer, 1), 9 * PAGE_BYTES);
    }
    expect(await contents(wide.cache)).toEqual(wide.layers);
  });

  test("reads that overlap give each its own pages", async () => {
    const { cache, layers } = filled(5);
    const codec = codecOf(cache, { stagingBytes: PAGE_BYTES });
    const one = { firstLayer: 2, layerCount: 1 };
    const read = await Promise.all([1, 6, 3].map((number) => codec.readPages([number], one)));
    expect(read.map((bytes) => bytes.slice(-PAGE_BYTES))).toEqual(
      [1, 6, 3].map((number) => page(layers[2]!, number)),
    );
  });

  test("bytes of another model or with a changed bit are refused before any is written", async () => {
    const { cache, layers } = filled(6);
    const codec = codecOf(cache);
    const bytes = await codec.readPages([1, 2]);
    const refusal = (taken: Uint8Array<ArrayBuffer>, by = codec) =>
      expect(by.writePages(taken, [3, 4])).rejects;
    await refusal(bytes, codecOf(cache, { modelHash: "other" })).toMatchObject({
      name: TransferError.name,
      field: "modelHash",
    });
    const wide = filled(7, { ...SHAPE, entryWidth: 8 });
    await refusal(bytes, codecOf(wide.cache)).toMatchObject({ field: "entryWidth" });
    const changed = bytes.slice();
    changed[changed.length - 1]! ^= 1;
    await refusal(changed).toMatchObject({ field: "checksum" });
    expect(await contents(cache)).toEqual(layers);
  });

  test("pages and layers that are not there are the caller's mistake", async () => {
    const { cache } = filled(8);
    const codec = codecOf(cache);
    expect(() => codec.readPages([SLOTS / PAGE_SIZE])).toThrow(KernelError);
    expect(() => codec.readPages([0], { firstLayer: 2, layerCount: 2 })).toThrow(KernelError);
    const bytes = await codec.readPages([0, 1]);
    await expect(codec.writePages(bytes, [0])).rejects.toThrow(/2 pages do not go to 1/);
  });
});
