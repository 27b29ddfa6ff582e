import { afterAll, expect, test } from "vitest";
import { type CacheDtype, entryBytes, KvCache } from "../../src/cache/kv_cache.ts";
import { PageCopier } from "../../src/cache/page_copier.ts";
import { device, download, seeded } from "../support/devices/gpu.ts";

const SLOTS = 40;

const destroyed: { destroy(): void }[] = [];
afterAll(() => {
  for (const one of destroyed) one.destroy();
});

test.each<{ dtype: CacheDtype; entryWidth: number; pageSize: number }>([
  { dtype: "bf16", entryWidth: 6, pageSize: 4 },
  { dtype: "f32", entryWidth: 5, pageSize: 1 },
  { dtype: "fp8_e4m3", entryWidth: 12, pageSize: 8 },
])("copy() copies all layers of pages in turn, and nothing else changes: %o", async (shape) => {
  const { pageSize } = shape;
  const cache = new KvCache(device, { ...shape, layers: 3 }, SLOTS);
  // Of a model that drafts: its entries are of another width.
  const draft = new KvCache(device, { layers: 1, entryWidth: 2, dtype: "f32" }, SLOTS);
  const copier = new PageCopier(device, [cache, draft], pageSize);
  destroyed.push(cache, draft, copier);
  const random = seeded(pageSize);
  const layers = [cache, draft].flatMap((one) => {
    const pageBytes = entryBytes(one.shape) * pageSize;
    return one.layers.map(({ buffer }) => {
      const length = (SLOTS / pageSize) * pageBytes;
      const bytes = Uint8Array.from({ length }, () => random() * 256);
      device.queue.writeBuffer(buffer, 0, bytes);
      return { buffer, bytes, pageBytes };
    });
  });
  // Page 2 is copied before it is overwritten, page 0 after.
  const copies = [
    { from: 2, to: 4 },
    { from: 1, to: 2 },
    { from: 3, to: 0 },
    { from: 0, to: 1 },
  ];
  copier.copy(copies);
  for (const { buffer, bytes: want, pageBytes } of layers) {
    for (const { from, to } of copies) {
      want.copyWithin(to * pageBytes, from * pageBytes, (from + 1) * pageBytes);
    }
    expect(new Uint8Array(await download(buffer, 0, want.length))).toEqual(want);
  }
});

test("clear() makes runs of slots zero in all layers, and nothing else", async () => {
  const cache = new KvCache(device, { layers: 2, entryWidth: 2, dtype: "f32" }, SLOTS);
  destroyed.push(cache);
  const bytes = new Uint8Array(8 * SLOTS).fill(7);
  for (const { buffer } of cache.layers) device.queue.writeBuffer(buffer, 0, bytes);
  cache.clear(device, [4, 12], 4);
  const want = bytes.fill(0, 8 * 4, 8 * 8).fill(0, 8 * 12, 8 * 16);
  for (const { buffer } of cache.layers) {
    expect(new Uint8Array(await download(buffer, 0, want.length))).toEqual(want);
  }
});
