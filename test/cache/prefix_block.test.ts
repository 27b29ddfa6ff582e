import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { blockHead, blocksOf, openBlock, rootKey } from "../../src/cache/prefix_block.ts";
import { TransferError } from "../../src/errors.ts";

const range = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);

async function blocks(tokens: readonly number[], facts: unknown = {}, blockTokens = 4) {
  const root = await rootKey(facts);
  const all = [];
  for await (const block of blocksOf(tokens, { root, blockTokens })) all.push(block);
  return all;
}

test("blocksOf() names whole blocks by a chain of SHA-256", async () => {
  const root = createHash("sha256").update('{"model":"m"}').digest();
  const all = await blocks([...range(7, 8), 1, 2, 3], { model: "m" });
  expect(all.map(({ end }) => end)).toEqual([4, 8]);
  let parent = root;
  for (const [i, { name, parent: found, tokens }] of all.entries()) {
    expect(Buffer.from(found)).toEqual(parent);
    expect([...tokens]).toEqual(range(7 + 4 * i, 4));
    const words = Buffer.alloc(16);
    tokens.forEach((token, j) => {
      words.writeUInt32LE(token, 4 * j);
    });
    parent = createHash("sha256").update(parent).update(words).digest();
    expect(name).toBe(parent.toString("hex"));
  }
});

test("blocksOf() shares names up to where prefixes part, and no further", async () => {
  const names = async (tokens: readonly number[], facts?: unknown) =>
    (await blocks(tokens, facts)).map(({ name }) => name);
  const first = await names(range(0, 12));
  const second = await names([...range(0, 7), 99, ...range(8, 4)]);
  expect(second[0]).toBe(first[0]);
  expect(second[1]).not.toBe(first[1]);
  // The same tokens behind another beginning.
  expect(second[2]).not.toBe(first[2]);
  const others = await names(range(0, 12), { partition: "a" });
  expect(new Set([...first, ...others]).size).toBe(6);
  // A salt that looks like none.
  expect(await names(range(0, 4), { partition: null })).not.toEqual(
    await names(range(0, 4), { partition: "null" }),
  );
});

test("blocksOf() names what stands in place of tokens, wherever in a block, and of text alone nothing", async () => {
  const root = await rootKey({});
  const names = async (contents?: ReadonlyMap<number, string>) => {
    const all: string[] = [];
    const given = { root, blockTokens: 4, contents };
    for await (const { name } of blocksOf(range(0, 12), given)) all.push(name);
    return all;
  };
  const plain = await names();
  expect(await names(new Map())).toEqual(plain);
  const [a, b] = [await names(new Map([[6, "a"]])), await names(new Map([[6, "b"]]))];
  // The block in front is the same, and those behind it are not.
  expect([a[0], b[0]]).toEqual([plain[0], plain[0]]);
  const others = [await names(new Map([[7, "a"]])), await names(new Map([[4, "a"]]))];
  for (const block of [1, 2]) {
    const found = [plain, a, b, ...others].map((all) => all[block]);
    expect(new Set(found).size).toBe(5);
  }
});

test("openBlock() gives the pages back, and refuses any byte of the head that has changed", async () => {
  const [, block] = await blocks(range(70_000, 8));
  const head = blockHead(block!);
  const pages = Uint8Array.from(range(0, 40));
  const bytes = new Uint8Array([...head, ...pages]);
  expect(openBlock(bytes, block!, [40])).toEqual(pages);
  for (let at = 0; at < head.length; at++) {
    const wrong = bytes.slice();
    wrong[at]! ^= 1 << (at % 8);
    expect(() => openBlock(wrong, block!, [40])).toThrow(TransferError);
  }
  for (let length = 0; length < bytes.length; length++) {
    expect(() => openBlock(bytes.slice(0, length), block!, [40])).toThrow("length");
  }
  expect(() => openBlock(new Uint8Array([...bytes, 0]), block!, [40])).toThrow("length");
});

test("openBlock() takes pages of each length that they may have", async () => {
  const [block] = await blocks(range(3, 4));
  const bytes = (length: number) =>
    new Uint8Array([...blockHead(block!), ...new Uint8Array(length)]);
  for (const length of [40, 48]) {
    expect(openBlock(bytes(length), block!, [40, 48])).toHaveLength(length);
  }
  expect(() => openBlock(bytes(44), block!, [40, 48])).toThrow("length");
});

test("openBlock() refuses another block, and says what is wrong", async () => {
  const [first, second] = await blocks([...range(5, 4), ...range(5, 4)]);
  const [other] = await blocks(range(6, 4));
  const open = (written: typeof first, wanted: typeof first) => () =>
    openBlock(blockHead(written!), wanted!, [0]);
  expect(open(first, first)()).toHaveLength(0);
  expect(open(first, second)).toThrow("Cannot take a stored prefix (checksum)");
  expect(open(other, first)).toThrow("Cannot take a stored prefix (checksum)");
});
