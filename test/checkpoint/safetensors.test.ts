import { describe, expect, test } from "vitest";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import { readSafetensorsHeader } from "../../src/checkpoint/safetensors.ts";
import type { TensorEntry, WeightSource } from "../../src/checkpoint/source.ts";
import { CheckpointError } from "../../src/errors.ts";
import { checkpointFailure } from "../support/checkpoints/checkpoint_failure.ts";
import { joinFile, safetensorsFile } from "../support/checkpoints/write_checkpoint.ts";

const FILE = "model.safetensors";

function read(bytes: Uint8Array): Promise<Map<string, TensorEntry>> {
  const source = memorySource({ [FILE]: bytes });
  return readSafetensorsHeader(source, { name: FILE, size: bytes.length });
}

async function failure(bytes: Uint8Array): Promise<CheckpointError> {
  const error = await checkpointFailure(read(bytes));
  expect(error.file).toBe(FILE);
  return error;
}

/** A file with this header text and `dataBytes` bytes of data. */
function withHeader(header: string, dataBytes: number): Uint8Array {
  return joinFile(header, [new Uint8Array(dataBytes)]);
}

function entry(dtype: string, shape: readonly number[], offsets: readonly number[]): string {
  return JSON.stringify({ dtype, shape, data_offsets: offsets });
}

describe("readSafetensorsHeader accepts", () => {
  test("tensors in any order, with metadata, odd spacing, escapes and padding", async () => {
    const header = `{ "__metadata__":{"format":"pt","":""},\n\t"b":${entry("BF16", [2, 3], [4, 16])},
      "\\u0061\\"" : ${entry("F32", [], [0, 4])} }   `;
    const tensors = await read(withHeader(header, 16));
    const dataStart = 8 + new TextEncoder().encode(header).length;
    expect([...tensors]).toEqual([
      ["b", { file: FILE, dtype: "BF16", shape: [2, 3], offset: dataStart + 4, byteLength: 12 }],
      ['a"', { file: FILE, dtype: "F32", shape: [], offset: dataStart, byteLength: 4 }],
    ]);
  });

  test("tensors without elements, and none at all", async () => {
    const empty = `{"a":${entry("F32", [0, 7], [0, 0])},"b":${entry("I8", [2], [0, 2])},"c":${entry("F16", [0], [2, 2])}}`;
    expect((await read(withHeader(empty, 2))).size).toBe(3);
    expect((await read(withHeader("{}", 0))).size).toBe(0);
  });

  test.each([
    ["I64", 8],
    ["U8", 1],
    ["BOOL", 1],
    ["F8_E5M2", 1],
    ["F64", 8],
    ["U16", 2],
  ])("element type %s, although no model wants it", async (dtype, width) => {
    const tensors = await read(withHeader(`{"a":${entry(dtype, [3], [0, 3 * width])}}`, 3 * width));
    expect(tensors.get("a")!.dtype).toBe(dtype);
  });

  test("elements of four bits that fill whole bytes", async () => {
    expect((await read(withHeader(`{"a":${entry("F4", [6], [0, 3])}}`, 3))).size).toBe(1);
    expect((await failure(withHeader(`{"a":${entry("F4", [3], [0, 2])}}`, 2))).message).toContain(
      "ends inside a byte",
    );
  });
});

describe("readSafetensorsHeader refuses", () => {
  const good = entry("F32", [2], [0, 8]);
  const cases: readonly [
    what: string,
    header: string,
    data: number,
    tensor: string,
    say: string,
  ][] = [
    [
      "more dimensions than there are",
      `{"a":{"dtype":"F32","shape":[${"1,".repeat(64)}1],"data_offsets":[0,4]}}`,
      4,
      "a",
      "a list has more than 64 numbers",
    ],
    ["no field dtype", '{"a":{"shape":[2],"data_offsets":[0,8]}}', 8, "a", 'no "dtype"'],
    ["no field shape", '{"a":{"dtype":"F32","data_offsets":[0,8]}}', 8, "a", 'no "shape"'],
    ["no offsets", '{"a":{"dtype":"F32","shape":[2]}}', 8, "a", 'no "data_offsets"'],
    ["an unknown field", `{"a":${good.replace("{", '{"x":1,')}}`, 8, "a", 'unknown field "x"'],
    ["a field twice", `{"a":${good.replace("{", '{"dtype":"F32",')}}`, 8, "a", "occurs twice"],
    ["a tensor twice", `{"a":${good},"a":${good}}`, 8, "", '"a" occurs twice'],
    ["a dtype that is no string", `{"a":${good.replace('"F32"', "32")}}`, 8, "a", 'instead of """'],
    ["an unknown dtype", `{"a":${entry("F31", [2], [0, 8])}}`, 8, "a", 'unknown dtype "F31"'],
    ["an inherited dtype", `{"a":${entry("toString", [2], [0, 8])}}`, 8, "a", "unknown dtype"],
    ["a negative size", `{"a":${entry("F32", [-2], [0, 8])}}`, 8, "a", "not negative"],
    ["a broken size", `{"a":${entry("F32", [1.5], [0, 8])}}`, 8, "a", 'unexpected "."'],
    ["a size with an exponent", `{"a":${good.replace("[2]", "[2e0]")}}`, 8, "a", 'unexpected "e"'],
    ["a size with a leading zero", `{"a":${good.replace("[2]", "[02]")}}`, 8, "a", "whole number"],
    [
      "a size beyond doubles",
      `{"a":${good.replace("[2]", "[9007199254740993]")}}`,
      8,
      "a",
      "too large",
    ],
    [
      "sizes whose product is too large",
      `{"a":${entry("F32", [2 ** 40, 2 ** 40], [0, 8])}}`,
      8,
      "a",
      "too large",
    ],
    ["negative offsets", `{"a":${entry("F32", [2], [-8, 0])}}`, 8, "a", "not negative"],
    ["one offset", `{"a":${entry("F32", [2], [8])}}`, 8, "a", "has 1 numbers instead of 2"],
    ["three offsets", `{"a":${entry("F32", [2], [0, 8, 9])}}`, 8, "a", "has 3 numbers"],
    ["offsets backwards", `{"a":${entry("F32", [2], [8, 0])}}`, 8, "a", "run backwards"],
    [
      "a size that is not shape x dtype",
      `{"a":${entry("F32", [3], [0, 8])}}`,
      8,
      "a",
      "needs 12 bytes, its offsets span 8",
    ],
    [
      "an overlap",
      `{"a":${good},"b":${entry("F32", [2], [4, 12])}}`,
      12,
      "b",
      'overlaps that of "a"',
    ],
    ["two tensors in one place", `{"a":${good},"b":${good}}`, 8, "b", 'overlaps that of "a"'],
    [
      "an empty tensor inside another",
      `{"a":${good},"b":${entry("I8", [0], [4, 4])}}`,
      8,
      "b",
      "overlaps",
    ],
    [
      "a hole",
      `{"a":${good},"b":${entry("F32", [1], [12, 16])}}`,
      16,
      "b",
      "4 bytes before its data",
    ],
    ["a hole in front", `{"a":${entry("F32", [1], [4, 8])}}`, 8, "a", "4 bytes before its data"],
    [
      "offsets past the end",
      `{"a":${good},"b":${entry("F32", [2], [8, 16])}}`,
      15,
      "b",
      "not fully downloaded",
    ],
    ["bytes after the last tensor", `{"a":${good}}`, 9, "", "1 bytes after the last tensor"],
    [
      "metadata that is no object",
      `{"__metadata__":[],"a":${good}}`,
      8,
      "__metadata__",
      'unexpected "["',
    ],
    [
      "metadata that is no string",
      `{"__metadata__":{"n":1},"a":${good}}`,
      8,
      "__metadata__",
      'unexpected "1"',
    ],
    ["an array for a header", "[]", 0, "", 'does not begin with "{"'],
    ["white space in front", " {}", 0, "", 'does not begin with "{"'],
    ["an empty header", "", 0, "", 'does not begin with "{"'],
    ["text after the header", "{}x", 0, "", 'unexpected "x"'],
    ["a header cut short", '{"a":{"dtype":"F32","sha', 0, "a", "ends inside a string"],
    ["a header cut after a backslash", '{"a\\', 0, "", "ends inside a string"],
    ["a comma too many", `{"a":${good},}`, 8, "", 'unexpected "}"'],
    ["a missing comma", `{"a":${good} "b":${good}}`, 8, "", 'unexpected "\\""'],
    ["a null tensor", '{"a":null}', 0, "a", 'unexpected "n"'],
    ["a bad escape", `{"\\x":${good}}`, 8, "", "header is damaged"],
    ["a line break in a name", `{"a\n":${good}}`, 8, "", "header is damaged"],
  ];
  test.each(cases)("%s", async (_, header, data, tensor, say) => {
    const error = await failure(withHeader(header, data));
    expect(error.message).toContain(say);
    expect(error.tensor ?? "").toBe(tensor);
  });

  test("a name that is not UTF-8", async () => {
    const bytes = withHeader(`{"a":${good}}`, 8);
    bytes[10] = 0xff;
    expect((await failure(bytes)).message).toContain("header is damaged");
  });

  test.each([0, 1, 7])("a file of %i bytes", async (size) => {
    const error = await failure(new Uint8Array(size));
    expect(error.message).toContain(`weights not fully downloaded: it has ${size} bytes`);
  });

  test("a header longer than the file", async () => {
    const bytes = withHeader(`{"a":${good}}`, 8).slice(0, 20);
    expect((await failure(bytes)).message).toContain(
      "weights not fully downloaded: it has 20 bytes",
    );
  });

  test("a header over 100 MB, before reading it", async () => {
    for (const length of [100_000_001n, 2n ** 63n, 2n ** 64n - 1n]) {
      const head = new Uint8Array(8);
      new DataView(head.buffer).setBigUint64(0, length, true);
      const source: WeightSource = {
        name: "sparse",
        list: async () => [],
        read: async (_, offset, size) => {
          expect([offset, size]).toEqual([0, 8]);
          return head;
        },
      };
      const opened = readSafetensorsHeader(source, { name: FILE, size: 2e12 });
      await expect(opened).rejects.toThrow(`is said to have ${length} bytes, over the limit`);
    }
  });

  test("a Git LFS pointer, by name", async () => {
    const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    const error = await failure(new TextEncoder().encode(pointer));
    expect(error.message).toContain("Git LFS pointer");
  });
});

test("readSafetensorsHeader answers every cut of a file with a CheckpointError", async () => {
  const whole = sample();
  await read(whole);
  for (let size = 0; size < whole.length; size++) await failure(whole.slice(0, size));
});

// Each of the seeds makes 500 files.
test.each([1, 2, 3, 4])(
  "readSafetensorsHeader survives mutations of a header (seed %i)",
  async (seed) => {
    const random = mulberry32(seed);
    let refused = 0;
    for (let round = 0; round < 500; round++) {
      const bytes = mutate(sample(), random);
      const source: WeightSource = {
        name: "fuzz",
        list: async () => [{ name: FILE, size: bytes.length }],
        read: async (file, offset, length) => {
          if (file !== FILE || !(offset >= 0 && length >= 0 && offset + length <= bytes.length)) {
            throw new Error(`read out of range: ${file} ${offset} ${length}`);
          }
          return bytes.slice(offset, offset + length);
        },
      };
      try {
        const tensors = await readSafetensorsHeader(source, { name: FILE, size: bytes.length });
        for (const { offset, byteLength } of tensors.values()) {
          await source.read(FILE, offset, byteLength);
        }
      } catch (error) {
        expect(error, `round ${round}`).toBeInstanceOf(CheckpointError);
        refused++;
      }
    }
    // Most mutations break something; a few only rename a tensor.
    expect(refused).toBeGreaterThan(250);
  },
);

function sample(): Uint8Array {
  const values = new Float32Array(12);
  return safetensorsFile([
    { name: "model.embed_tokens.weight", shape: [4, 3], dtype: "BF16", values },
    { name: "lm_head.weight", shape: [3, 4], dtype: "F32", values },
    { name: "model.layers.0.mlp.up_proj.weight", shape: [2, 6], dtype: "F8_E4M3", values },
    { name: "empty", shape: [0, 5], dtype: "I32", values: [] },
  ]);
}

const PIECES = [
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  '"',
  "\\",
  "-",
  "9",
  "0",
  "e9",
  "null",
  "F32",
  "\u0000",
  "é",
];

/** One to three edits, mostly inside the header. */
function mutate(file: Uint8Array, random: () => number): Uint8Array {
  let bytes = [...file];
  const headerEnd = 8 + Number(new DataView(file.buffer).getBigUint64(0, true));
  const edits = 1 + Math.floor(random() * 3);
  for (let i = 0; i < edits; i++) {
    const at =
      random() < 0.1 ? Math.floor(random() * 8) : 8 + Math.floor(random() * (headerEnd - 8));
    const piece = [...new TextEncoder().encode(PIECES[Math.floor(random() * PIECES.length)]!)];
    switch (Math.floor(random() * 5)) {
      case 0: // one byte
        bytes[at] = Math.floor(random() * 256);
        break;
      case 1: // a digit, in the place of a digit where there is one
        for (let j = at; j < headerEnd; j++) {
          if (bytes[j]! >= 0x30 && bytes[j]! <= 0x39) {
            bytes[j] = 0x30 + Math.floor(random() * 10);
            break;
          }
        }
        break;
      case 2: // overwrite, so that the header's length still holds
        bytes.splice(at, piece.length, ...piece);
        break;
      case 3: // insert, and say so in the length
        bytes.splice(at, 0, ...piece);
        if (at >= 8) bytes = withLength(bytes, headerEnd - 8 + piece.length);
        break;
      default: // cut the end off
        bytes = bytes.slice(0, Math.max(1, bytes.length - Math.floor(random() * 64)));
    }
  }
  return Uint8Array.from(bytes);
}

function withLength(bytes: readonly number[], length: number): number[] {
  return [length & 0xff, (length >> 8) & 0xff, 0, 0, 0, 0, 0, 0, ...bytes.slice(8)];
}

/** A small seeded generator of numbers in [0, 1). */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
