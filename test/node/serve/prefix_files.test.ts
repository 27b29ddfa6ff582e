import { chmodSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { prefixFiles } from "../../../src/node/prefix_files.ts";

const [A, B, C] = ["a", "b", "c"].map((digit) => digit.repeat(64)) as [string, string, string];
const bytes = (...values: number[]) => Uint8Array.from(values);

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wisp-prefixes-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("what one writes others read, whole and by name", async () => {
  const [one, other] = [prefixFiles(join(folder, "new")), prefixFiles(join(folder, "new"))];
  expect(await one.list()).toEqual([]);
  expect(await one.read(A)).toBeUndefined();
  await one.markUsed([A]);
  await one.delete([A]);
  expect(readdirSync(folder)).toEqual([]); // nothing is made before there is something to keep
  await one.write(A, [bytes(1, 2), bytes(), bytes(3)]);
  await other.write(B, [bytes(4)]);
  for (const any of [one, other]) {
    expect(await any.read(A)).toEqual(bytes(1, 2, 3));
    const sizes = (await any.list()).map(({ name, byteLength }) => [name, byteLength]);
    expect(sizes.sort()).toEqual([
      [A, 3],
      [B, 1],
    ]);
  }
  await other.write(A, [bytes(9)]);
  expect(await one.read(A)).toEqual(bytes(9));
  await one.delete([A, C]);
  expect(await other.read(A)).toBeUndefined();
});

test("uses are told by the files themselves, each before the one it follows", async () => {
  const one = prefixFiles(folder);
  for (const name of [C, B, A]) await one.write(name, [bytes(1)]);
  for (const name of readdirSync(folder)) utimesSync(join(folder, name), 1000, 1000);
  await one.markUsed([B, A]);
  const blobs = [...(await prefixFiles(folder).list())].sort((x, y) => y.usedAt - x.usedAt);
  expect(blobs.map(({ name }) => name)).toEqual([B, A, C]);
  expect(blobs[0]!.usedAt - blobs[1]!.usedAt).toBeCloseTo(1, 1);
  expect(Math.abs(blobs[0]!.usedAt - Date.now())).toBeLessThan(10_000);
});

test("other files of the folder are not looked at; what was left unfinished goes after a while", async () => {
  const one = prefixFiles(folder);
  await one.write(A, [bytes(1)]);
  const others = ["notes.txt", `${B}.txt`, B, "short.wisp-prefix", ".wisp-prefix"];
  for (const name of others) writeFileSync(join(folder, name), "mine");
  for (const [name, age] of [
    ["old.wisp-unfinished", 7200],
    ["new.wisp-unfinished", 60],
  ] as const) {
    writeFileSync(join(folder, name), "half");
    const time = Date.now() / 1000 - age;
    utimesSync(join(folder, name), time, time);
  }
  expect((await one.list()).map(({ name }) => name)).toEqual([A]);
  await one.delete([B]);
  const left = [`${A}.wisp-prefix`, "new.wisp-unfinished", ...others];
  expect(readdirSync(folder).sort()).toEqual(left.sort());
});

test("many that write, read and delete the same blob never see half of it", async () => {
  const stores = [prefixFiles(folder), prefixFiles(folder), prefixFiles(folder)];
  const contents = stores.map((_, i) => new Uint8Array(200_000 + i).fill(i + 1));
  const seen: (Uint8Array | undefined)[] = [];
  await Promise.all(
    stores.map(async (store, i) => {
      for (let round = 0; round < 20; round++) {
        await store.write(A, [contents[i]!.subarray(0, 99), contents[i]!.subarray(99)]);
        seen.push(await store.read(A));
        if (round % 5 === i) await store.delete([A]);
        await store.list();
      }
    }),
  );
  for (const one of seen) {
    if (one === undefined) continue;
    const wanted = contents[one[0]! - 1]!;
    expect(Buffer.compare(one, wanted)).toBe(0);
  }
  expect(readdirSync(folder).filter((name) => name.endsWith("unfinished"))).toEqual([]);
});

test.skipIf(process.getuid?.() === 0)("a folder without the right to write refuses", async () => {
  chmodSync(folder, 0o500);
  await expect(prefixFiles(folder).write(A, [bytes(1)])).rejects.toThrow("EACCES");
  chmodSync(folder, 0o700);
  expect(readdirSync(folder)).toEqual([]);
});

test("a file in the folder's place is an error of each call, and nothing is left behind", async () => {
  const path = join(folder, "file");
  writeFileSync(path, "mine");
  const one = prefixFiles(path);
  await expect(one.list()).rejects.toThrow("ENOTDIR");
  await expect(one.read(A)).rejects.toThrow("ENOTDIR");
  await expect(one.write(A, [bytes(1)])).rejects.toThrow("EEXIST");
  expect(readdirSync(folder)).toEqual(["file"]);
});
