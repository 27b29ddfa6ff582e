import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CheckpointError } from "../../../src/errors.ts";
import { type FolderSource, openFolder } from "../../../src/node/files.ts";

let folder: string;
let source: FolderSource;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "wisp-files-"));
  writeFileSync(
    join(folder, "b.bin"),
    Uint8Array.from({ length: 100 }, (_, i) => i),
  );
  writeFileSync(join(folder, "a.txt"), "");
  mkdirSync(join(folder, "inner"));
  symlinkSync(join(folder, "b.bin"), join(folder, "link.bin"));
  symlinkSync(join(folder, "nowhere"), join(folder, "dangling.bin"));
  source = await openFolder(folder);
});

afterAll(async () => {
  await source.close();
  rmSync(folder, { recursive: true });
});

test("list names the files, what links point to included, and no folders", async () => {
  expect(await source.list()).toEqual([
    { name: "a.txt", size: 0 },
    { name: "b.bin", size: 100 },
    { name: "link.bin", size: 100 },
  ]);
});

test("read gives exactly the bytes asked for, also many at once", async () => {
  const offsets = [0, 7, 50, 99];
  const pieces = await Promise.all(offsets.map((offset) => source.read("b.bin", offset, 1)));
  expect(pieces.map((piece) => [...piece])).toEqual(offsets.map((offset) => [offset]));
  expect((await source.read("b.bin", 100, 0)).length).toBe(0);
  expect((await source.read("link.bin", 10, 3)).buffer.byteLength).toBe(3);
});

test.each([
  ["b.bin", 90, 11, "Cannot load b.bin: it ends at byte 100, bytes 90 to 101 are needed"],
  ["b.bin", 200, 1, "Cannot load b.bin: it ends at byte 200, bytes 200 to 201 are needed"],
  ["none.bin", 0, 1, "Cannot load none.bin: there is no such file"],
  ["../b.bin", 0, 1, "Cannot load ../b.bin: its name is not a plain file name"],
  ["inner", 0, 1, "Cannot load inner: "],
])("read refuses %s from %i, %i bytes", async (file, offset, length, message) => {
  const error = await source.read(file, offset, length).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(CheckpointError);
  expect((error as Error).message).toContain(message);
});

test("read works again after close", async () => {
  await source.close();
  expect([...(await source.read("b.bin", 5, 2))]).toEqual([5, 6]);
});

test("openFolder names a folder that is not there", async () => {
  await expect(openFolder("/no/such/folder")).rejects.toThrow(
    "Cannot load /no/such/folder: there is no such folder on this machine",
  );
  await expect(openFolder(join(folder, "b.bin"))).rejects.toThrow("it is not a folder");
});
