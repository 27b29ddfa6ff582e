import { createHash, webcrypto } from "node:crypto";
import { describe, expect, test } from "vitest";
import { digestFiles, FileDigest } from "../../../src/browser/download/download_digest.ts";
import { openWriter, writeAll } from "../../../src/browser/storage/opfs_file.ts";
import { holdLock, threadLocks } from "../../../src/browser/storage/opfs_locks.ts";
import {
  type Manifest,
  readManifest,
  writeManifest,
} from "../../../src/browser/storage/opfs_manifest.ts";
import { PartedFile } from "../../../src/browser/storage/opfs_parts.ts";
import { MemoryFolder } from "../../support/engines/memory_storage.ts";
import { noise } from "../../support/server/hub_model.ts";

const MANIFEST: Manifest = {
  name: "m",
  origin: { kind: "files" },
  partBytes: 8,
  files: [{ name: "config.json", size: 3, isComplete: false }],
};

const bytesOf = async (parts: readonly Blob[]) =>
  new Uint8Array(await new Blob([...parts]).arrayBuffer());

test.each([
  ["nothing", 0],
  ["the number of an error without its sign", 2 ** 32 - 8],
  ["the number of an error", -8],
])("a write in place of which a browser takes %s has no room", (_, answer) => {
  const answers = [3, answer];
  const places: number[] = [];
  const write = (_: Uint8Array, { at }: { readonly at: number }) => {
    places.push(at);
    return answers.shift()!;
  };
  const failed = expect.objectContaining({ name: "QuotaExceededError" });
  expect(() => writeAll({ write }, noise(10, 1), 5)).toThrow(failed);
  expect(places).toEqual([5, 8]);
});

describe.each(["through a copy", "in place"] as const)("storage written %s", (writes) => {
  test("holds a file in parts, from any length on", async () => {
    const bytes = noise(100, 1);
    for (let length = 0; length <= bytes.length; length += 7) {
      const folder = new MemoryFolder({ writes });
      const file = new PartedFile(folder, "f", 16);
      for (const [start, end] of [
        [0, length],
        [length, 100],
      ] as const) {
        expect(await file.length()).toBe(start);
        const appender = file.appender(start);
        for (let at = start; at < end; at += 9) {
          await appender.write(bytes.subarray(at, Math.min(at + 9, end)));
        }
        await appender.close();
      }
      expect(await bytesOf(await file.parts())).toEqual(bytes);
      expect([...folder.files.keys()].sort()).toEqual(
        [0, 1, 2, 3, 4, 5, 6].map((i) => `f.0000${i}`),
      );
      await file.remove();
      expect(folder.used).toBe(0);
    }
  });

  test("removes the parts of one file only", async () => {
    const folder = new MemoryFolder({ writes });
    for (const name of ["a", "a.b", "a.00001"]) {
      const appender = new PartedFile(folder, name, 16).appender(0);
      await appender.write(noise(20, 1));
      await appender.close();
    }
    await new PartedFile(folder, "a", 16).remove();
    expect(await new PartedFile(folder, "a.b", 16).length()).toBe(20);
    expect(await new PartedFile(folder, "a.00001", 16).length()).toBe(20);
  });

  test("has the old manifest or the new one, whenever the page is closed", async () => {
    const pictures: MemoryFolder[] = [];
    const folder: MemoryFolder = new MemoryFolder({
      writes,
      onChange: () => pictures.push(folder.copy({ writes })),
    });
    for (let size = 1; size <= 4; size++) {
      const manifest = { ...MANIFEST, files: [{ ...MANIFEST.files[0]!, size }] };
      const first = pictures.length;
      await writeManifest(folder, manifest);
      expect(await readManifest(folder)).toEqual(manifest);
      for (const picture of pictures.slice(first)) {
        const found = (await readManifest(picture))?.files[0]?.size;
        expect([size - 1 || undefined, size]).toContain(found);
      }
    }
  });

  test("cuts off what is not kept", async () => {
    const folder = new MemoryFolder({ writes });
    for (const [kept, text] of [
      [0, "abcdef"],
      [4, "xy"],
      [2, ""],
    ] as const) {
      const writer = await openWriter(await folder.getFileHandle("f", { create: true }), kept);
      if (text !== "") await writer.write(new TextEncoder().encode(text), kept);
      await writer.close();
    }
    expect(new TextDecoder().decode(folder.files.get("f"))).toBe("ab");
  });
});

test("a manifest of another version is refused and named", async () => {
  const folder = new MemoryFolder({ writes: "in place" });
  folder.files.set("manifest.0.json", new TextEncoder().encode('{"format": 2}'));
  await expect(readManifest(folder)).rejects.toThrow("another version of this library stored it");
});

test("a page of a browser that writes in workers only is refused", async () => {
  const file = { getFile: async () => new File([], "f") };
  await expect(openWriter(file, 0)).rejects.toThrow("this browser writes it in workers only");
});

describe("FileDigest", () => {
  test.each([0, 1, 55, 64, 5_000_001])("of %i bytes is WebCrypto's", async (length) => {
    const bytes = new Uint8Array(noise(length, 3));
    const digest = new FileDigest(length);
    const cut = Math.floor(length / 3);
    const told: number[] = [];
    const parts = [new Blob([bytes.subarray(0, cut)]), new Blob([bytes.subarray(cut)])];
    await digestFiles(digest, parts, { onLength: (count) => told.push(count) });
    expect(digest.length).toBe(length);
    if (length > 0) expect(told.at(-1)).toBe(length);
    const expected = await webcrypto.subtle.digest("SHA-256", bytes);
    expect(digest.finish()).toBe(Buffer.from(expected).toString("hex"));
  });

  test("is that of a git blob where one is expected", () => {
    const bytes = noise(1000, 4);
    const digest = new FileDigest(bytes.length, "0".repeat(40));
    digest.update(bytes);
    const expected = createHash("sha1").update("blob 1000\0").update(bytes).digest("hex");
    expect(digest.finish()).toBe(expected);
  });

  test("ends with the signal", async () => {
    const signal = AbortSignal.abort(new Error("enough"));
    const work = digestFiles(new FileDigest(1), [new Blob(["x"])], { signal });
    await expect(work).rejects.toThrow("enough");
  });
});

describe("threadLocks", () => {
  test("lets many read, or one write, in order", async () => {
    const locks = threadLocks();
    const seen: string[] = [];
    const hold = async (label: string, mode: "shared" | "exclusive") => {
      const release = await holdLock(locks, "m", { mode });
      seen.push(`+${label}`);
      return () => {
        seen.push(`-${label}`);
        release();
      };
    };
    const turn = () => new Promise((resolve) => setTimeout(resolve, 1));
    const [a, b] = await Promise.all([hold("a", "shared"), hold("b", "shared")]);
    const writing = hold("c", "exclusive");
    const reading = hold("d", "shared");
    await turn();
    expect(seen).toEqual(["+a", "+b"]);
    const other = await locks.request(
      "other",
      { mode: "exclusive", ifAvailable: true },
      async (l) => l,
    );
    expect(other).not.toBeNull();
    const taken = await locks.request("m", { mode: "shared", ifAvailable: true }, async (l) => l);
    expect(taken).toBeNull();
    a();
    b();
    (await writing)();
    (await reading)();
    expect(seen).toEqual(["+a", "+b", "-a", "-b", "+c", "-c", "+d", "-d"]);
  });

  test("frees the lock of work that fails, and of a wait that is aborted", async () => {
    const locks = threadLocks();
    const failing = locks.request("m", { mode: "exclusive" }, async () => {
      throw new Error("no");
    });
    await expect(failing).rejects.toThrow("no");
    const release = await holdLock(locks, "m", { mode: "exclusive" });
    const ending = new AbortController();
    const waiting = holdLock(locks, "m", { mode: "exclusive", signal: ending.signal });
    const next = holdLock(locks, "m", { mode: "shared" });
    ending.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    release();
    (await next)();
  });
});
