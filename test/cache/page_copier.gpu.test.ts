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
  const copier = new PageCopier(device, cache, pageSize);
  destroyed.push(cache, copier);
  const random = seeded(pageSize);
  const pageBytes = entryBytes(cache.shape) * pageSize;
  const size = (SLOTS / pageSize) * pageBytes;
  const layers = cache.layers.map(({ buffer }) => {
    const bytes = Uint8Array.from({ length: size }, () => random() * 256);
    device.queue.writeBuffer(buffer, 0, bytes);
    return bytes;
  });
  // Page 2 is copied before it is overwritten, page 0 after.
  const copies = [
    { from: 2, to: 4 },
    { from: 1, to: 2 },
    { from: 3, to: 0 },
    { from: 0, to: 1 },
  ];
  copier.copy(copies);
  for (const [i, { buffer }] of cache.layers.entries()) {
    const want = layers[i]!;
    for (const { from, to } of copies) {
      want.copyWithin(to * pageBytes, from * pageBytes, (from + 1) * pageBytes);
    }
    expect(new Uint8Array(await download(buffer, 0, size))).toEqual(want);
  }
});
