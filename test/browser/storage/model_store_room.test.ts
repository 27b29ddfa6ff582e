/** Models and the room that a browser has for them: what it says, and what it does. */
import { afterEach, expect, test } from "vitest";
import type { ModelStore } from "../../../src/browser/storage/model_store.ts";
import { threadLocks } from "../../../src/browser/storage/opfs_locks.ts";
import { openModelStore } from "../../../src/browser/storage/storage.ts";
import { StorageFullError } from "../../../src/browser/storage/storage_error.ts";
import { MemoryFolder, type MemoryStorageOptions } from "../../support/engines/memory_storage.ts";
import { type FileServer, serveFiles } from "../../support/server/file_server.ts";
import { noise, SHARDS, WANTED } from "../../support/server/hub_model.ts";

const PART = 65_536;
const COPY: MemoryStorageOptions = { writes: "through a copy" };
const QUICK = { retryPolicy: { retries: 3, backoff: 1, longestWait: 20, progressBytes: 1e6 } };

let server: FileServer | undefined;

afterEach(async () => {
  await server?.close();
  server = undefined;
});

async function serving() {
  server = await serveFiles(WANTED);
  return { origin: { kind: "url", url: server.url } as const };
}

function quotaOf(estimate: () => Promise<StorageEstimate>) {
  return { estimate, persisted: async () => false, persist: async () => true };
}

/** What Chromium tells of a storage, so that no page learns how large the disk is. */
function inventedQuota(folder: MemoryFolder, gibibytes: number) {
  return quotaOf(async () => ({ usage: folder.used, quota: folder.used + gibibytes * 2 ** 30 }));
}

/** A store on this storage, of which a browser tells by default how it is. */
function storeOn(
  folder: MemoryFolder,
  quota = quotaOf(async () => ({ usage: folder.used, quota: folder.quota })),
): Promise<ModelStore> {
  return openModelStore({ folder, quota, locks: threadLocks(), partBytes: PART });
}

async function expectStored(store: ModelStore, name: string): Promise<void> {
  const source = await store.open(name);
  const read = await source.read(SHARDS[0], 0, WANTED.get(SHARDS[0])!.length);
  expect(Buffer.compare(read, WANTED.get(SHARDS[0])!)).toBe(0);
  await source.close?.();
  expect(await store.verify(name)).toEqual([]);
}

test("a model that does not fit is refused by what is needed, free and could go", async () => {
  const server = await serving();
  const folder = new MemoryFolder(COPY);
  const store = await storeOn(folder);
  await store.add(server.origin, { ...QUICK, name: "old" });
  folder.quota = folder.used + 200_000;
  const adding = store.add(server.origin, { ...QUICK, name: "new" });
  await expect(adding).rejects.toThrow(StorageFullError);
  await expect(adding).rejects.toThrow(
    /^Cannot store new: .* 0\.5 MB more are needed, 0\.2 MB are free; could be deleted: old \(0\.5 MB\)$/,
  );
  await store.delete("old");
  await store.add(server.origin, { ...QUICK, name: "new" });
  await expectStored(store, "new");
});

test("a quota that ends during a download leaves what came", async () => {
  const server = await serving();
  const folder = new MemoryFolder(COPY);
  // What a browser estimates is no promise.
  const quota = quotaOf(async () => ({ usage: 0, quota: 1e9 }));
  const store = await storeOn(folder, quota);
  folder.quota = 250_000;
  const adding = store.add(server.origin, { ...QUICK, name: "m", transfers: 1 });
  await expect(adding).rejects.toThrow(StorageFullError);
  expect(folder.used).toBeGreaterThan(150_000);
  folder.quota = 1e9;
  await store.add(server.origin, { ...QUICK, name: "m" });
  await expectStored(store, "m");
});

test("a write that fails is believed, not an estimate with room for it", async () => {
  const server = await serving();
  for (const gibibytes of [1, 10]) {
    const folder = new MemoryFolder(COPY);
    const quota = inventedQuota(folder, gibibytes);
    const store = await storeOn(folder, quota);
    await store.add(server.origin, { ...QUICK, name: "old" });
    expect(await store.usage()).toEqual({
      ...{ used: folder.used, quota: undefined, persisted: false },
    });
    folder.quota = folder.used + 200_000;
    const adding = store.add(server.origin, { ...QUICK, name: "new", transfers: 1 });
    await expect(adding).rejects.toThrow(
      /^Cannot store new: .* 0\.3 MB more are needed, it takes no more; could be deleted: old \(0\.5 MB\)$/,
    );
    await expect(adding).rejects.toMatchObject({ code: "storage_full", free: undefined });
    await store.delete("old");
    await store.add(server.origin, { ...QUICK, name: "new" });
    await expectStored(store, "new");
  }
});

test("a storage without room for a first byte says what the model needs", async () => {
  const server = await serving();
  const folder = new MemoryFolder(COPY);
  folder.quota = 0;
  const adding = (await storeOn(folder)).add(server.origin, { ...QUICK, name: "new" });
  await expect(adding).rejects.toThrow(
    "Cannot store new: the browser has no room for it: 0.5 MB more are needed, 0.0 MB are free",
  );
});

test("a model larger than what a browser invents is not refused for it", async () => {
  const folder = new MemoryFolder(COPY);
  folder.quota = 200_000;
  const quota = inventedQuota(folder, 10);
  const store = await storeOn(folder, quota);
  const text = [...WANTED].filter(([name]) => !name.endsWith(".safetensors"));
  const large = new File([noise(400_000, 1)], "model.safetensors");
  Object.defineProperty(large, "size", { value: 12 * 2 ** 30 });
  const files = [
    ...text.map(([name, bytes]) => new File([bytes as Uint8Array<ArrayBuffer>], name)),
    large,
  ];
  const adding = store.add({ kind: "files", files }, { ...QUICK, name: "large", transfers: 1 });
  await expect(adding).rejects.toThrow(
    "Cannot store large: the browser has no room for it: 12885 MB more are needed, it takes no more",
  );
  // It has begun.
  expect(folder.used).toBeGreaterThan(100_000);
});
