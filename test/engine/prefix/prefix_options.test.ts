import { expect, test } from "vitest";
import manifest from "../../../package.json";
import { LIBRARY_VERSION, openPrefixStore } from "../../../src/engine/prefix/prefix_options.ts";
import { MemoryBlobs } from "../../support/engines/memory_blobs.ts";

const LAYOUT = {
  ...{ modelHash: "m", numerics: "n", dtype: "bf16", entryWidth: 8, pageSize: 16, layers: 2 },
} as const;
const ADAPTER = { vendor: "v", architecture: "a", device: "d", description: "driver 1" };

type Codec = Parameters<typeof openPrefixStore>[1]["codec"];

async function namesOf(layout: object = {}, adapter: object = {}): Promise<readonly string[]> {
  const device = { adapterInfo: { ...ADAPTER, ...adapter } } as unknown as GPUDevice;
  const codec = { layout: { ...LAYOUT, ...layout }, packedSizes: (pages: number) => [pages] };
  const store = await openPrefixStore(
    { storage: new MemoryBlobs() },
    { codec: codec as unknown as Codec, device },
  );
  const tokens = Array.from({ length: 600 }, (_, i) => i);
  const blocks = [
    ...(await store.blocks(tokens, { partition: undefined })),
    ...(await store.blocks(tokens, { partition: "salt" })),
  ];
  return blocks.map(({ name }) => name);
}

test("LIBRARY_VERSION is the package's: prefixes of another one are not found", () => {
  expect(LIBRARY_VERSION).toBe(manifest.version);
});

test("openPrefixStore() finds only what the same model computed in the same way here", async () => {
  const others = [
    { modelHash: "other" },
    { numerics: "other" },
    { dtype: "f32" },
    { entryWidth: 4 },
    { pageSize: 8 },
    { layers: 3 },
  ];
  const all = [...(await namesOf())];
  expect(await namesOf()).toEqual(all);
  for (const layout of others) all.push(...(await namesOf(layout)));
  for (const field of Object.keys(ADAPTER)) all.push(...(await namesOf({}, { [field]: "other" })));
  expect(new Set(all).size).toBe(all.length);
  expect(all).toHaveLength(11 * 2 * 9);
});

test("openPrefixStore() keeps blocks of 64 tokens, or of as many as whole pages take", async () => {
  const counts = [1, 16, 48, 64, 100, 256].map(async (pageSize) => {
    return (await namesOf({ pageSize })).length / 2;
  });
  expect(await Promise.all(counts)).toEqual([9, 9, 6, 9, 6, 2]);
});
