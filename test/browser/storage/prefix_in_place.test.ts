/** Stored prefixes where a browser writes files in place only, as some do in their workers. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { openPrefixStorage } from "../../../src/browser/storage/prefix_storage.ts";
import { MemoryFolder } from "../../support/engines/memory_storage.ts";
import { noise } from "../../support/server/hub_model.ts";

const A = "a".repeat(64);

/** Its files can be renamed; each write takes half of what it is given. */
class RenamingFolder extends MemoryFolder {
  override async getFileHandle(name: string, options?: { create?: boolean }) {
    const handle = await super.getFileHandle(name, options);
    const move = async (to: string) => {
      this.files.set(to, this.files.get(name)!);
      this.files.delete(name);
    };
    return { ...handle, move };
  }
}

let folder: RenamingFolder;

beforeEach(() => {
  folder = new RenamingFolder({ writes: "in place" });
  const root = { getDirectoryHandle: async () => folder };
  vi.stubGlobal("navigator", { storage: { getDirectory: async () => root } });
  vi.stubGlobal("FileSystemFileHandle", class {});
});

afterEach(() => vi.unstubAllGlobals());

test("a blob is whole though each write takes a part of it", async () => {
  const storage = await openPrefixStorage();
  const parts = [noise(1000, 1), noise(1, 2), noise(777, 3)];
  await storage.write(A, parts);
  expect(await storage.read(A)).toEqual(new Uint8Array(Buffer.concat(parts)));
  expect([...folder.files.keys()]).toEqual([A]);
});

test("without room a blob leaves nothing of itself, and the one of its name stays", async () => {
  const storage = await openPrefixStorage();
  await storage.write(A, [noise(100, 1)]);
  folder.quota = 500;
  const error: unknown = await storage.write(A, [noise(300, 2), noise(300, 3)]).catch((e) => e);
  expect(error).toMatchObject({ name: "QuotaExceededError" });
  expect(storage.isFull!(error)).toBe(true);
  expect([...folder.files.keys()]).toEqual([A]);
  expect(await storage.read(A)).toEqual(noise(100, 1));
});
