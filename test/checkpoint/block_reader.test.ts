import { expect, test } from "vitest";
import { BlockReader } from "../../src/checkpoint/block_reader.ts";
import { seeded } from "../support/seeded.ts";

const BLOCK = 256 * 1024;
const SIZE = 40 * BLOCK + 1234;
const FILE = Uint8Array.from({ length: SIZE }, (_, i) => (i * 31 + (i >>> 9)) & 0xff);

/** A reader of one file, and every range that was asked for. */
function reader(failures = 0) {
  const ranges: string[] = [];
  let left = failures;
  const blocks = new BlockReader(async (_, offset, length) => {
    ranges.push(`${offset} ${length}`);
    if (left-- > 0) throw new Error("out of reach");
    expect(offset + length).toBeLessThanOrEqual(SIZE);
    return FILE.slice(offset, offset + length);
  });
  const read = (offset: number, length: number) =>
    blocks.read("file", { offset, length, size: SIZE });
  return { ranges, read };
}

test("reads have the file's bytes, wherever they begin and end", async () => {
  const { read } = reader();
  const random = seeded(3);
  const lengths = [1, 8, 5000, BLOCK - 1, BLOCK, 3 * BLOCK + 7];
  for (let i = 0; i < 300; i++) {
    const length = lengths[i % lengths.length]!;
    const offset = Math.floor(random() * (SIZE - length + 1));
    const wanted = FILE.subarray(offset, offset + length);
    expect(Buffer.compare(await read(offset, length), wanted)).toBe(0);
  }
  expect(await read(SIZE - 3, 3)).toEqual(FILE.slice(-3));
  expect(await read(2 * BLOCK - 2, 4)).toEqual(FILE.slice(2 * BLOCK - 2, 2 * BLOCK + 2));
});

test("neighbours come in one read, those at the same time too, and large ones by themselves", async () => {
  const { ranges, read } = reader();
  await Promise.all([read(0, 100), read(100, 100), read(BLOCK - 50, 50)]);
  await read(200, 1000);
  expect(ranges).toEqual([`0 ${BLOCK}`]);
  await read(7, BLOCK);
  expect(ranges.at(-1)).toBe(`7 ${BLOCK}`);
  await read(SIZE - 10, 10);
  expect(ranges.at(-1)).toBe(`${40 * BLOCK} 1234`);
});

test("the blocks used last are kept", async () => {
  const { ranges, read } = reader();
  for (let block = 0; block < 33; block++) {
    await read(block * BLOCK, 8);
    await read(0, 8); // used all the time
  }
  expect(ranges).toHaveLength(33);
  await read(0, 8);
  await read(2 * BLOCK, 8);
  expect(ranges).toHaveLength(33);
  await read(BLOCK, 8);
  expect(ranges).toHaveLength(34);
});

test("a block that could not be read is asked for again", async () => {
  const { ranges, read } = reader(1);
  await expect(read(5, 5)).rejects.toThrow("out of reach");
  expect(await read(5, 5)).toEqual(FILE.slice(5, 10));
  expect(ranges).toHaveLength(2);
});

test("a caller's bytes are its own", async () => {
  const { read } = reader();
  (await read(10, 10)).fill(0);
  expect(await read(10, 10)).toEqual(FILE.slice(10, 20));
});
