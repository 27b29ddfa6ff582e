/** What is read in pieces is what `JSON.parse` makes of the whole. */
import {
  assert,
  constantFrom,
  integer,
  json,
  jsonValue,
  property,
  string,
  tuple,
} from "fast-check";
import { describe, expect, test } from "vitest";
import { JsonError, MAX_DEPTH, MAX_STRING, parseJsonPieces } from "../../src/http/json_pieces.ts";

/** Far more than a piece of text has. */
const LONG = 300_000;

interface Read {
  readonly value: unknown;
  readonly pieces: number;
  /** What the values take at most, as it was told. */
  readonly memory: number;
}

function read(text: string | Uint8Array): Read {
  let memory = 0;
  let pieces = 1;
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  const parsing = parseJsonPieces(bytes, (needed) => {
    memory = needed;
  });
  for (;;) {
    const { done, value } = parsing.next();
    if (done) return { value, pieces, memory };
    pieces++;
  }
}

/** The value, or undefined where it is none. */
function outcome(parse: () => unknown): unknown {
  try {
    return parse();
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof JsonError) return undefined;
    throw error;
  }
}

const filler = `"${"x".repeat(LONG)}"`;

/** A text around another, which is read in pieces because of what is beside it. */
const AROUND: readonly ((text: string) => string)[] = [
  (text) => text,
  (text) => `[${filler},${text}]`,
  (text) => `[ ${text} , ${filler} ]`,
  (text) => `{"a": ${text}, "b":${filler}, "__proto__": ${text}}`,
  (text) => `[[${filler},${text}],${text},{"a":[${text},${filler}] , "a" : ${text}}]`,
  (text) => `{"\\"]":{"b":[{"c":[${filler}]},${text}]}, "d" :${text} }`,
];

test("any value, however it lies in large ones, is the same", () => {
  assert(
    property(jsonValue(), constantFrom(...AROUND), integer({ min: 0, max: 3 }), (value, put, n) => {
      const text = put(JSON.stringify(value, null, n));
      expect(read(text).value).toEqual(JSON.parse(text));
    }),
    { numRuns: 60 },
  );
});

test("what is no JSON is none, wherever a character of it is lost, put in or changed", () => {
  const change = tuple(integer({ min: 0, max: 2 }), constantFrom(...'[]{},:"\\ 0-n'), integer());
  assert(
    property(json(), constantFrom(...AROUND), change, (text, put, [kind, character, place]) => {
      const whole = put(text);
      // Near either end, as what is between them is mostly the long string.
      const near = Math.abs(place) % Math.min(40, whole.length);
      const at = place < 0 ? whole.length - 1 - near : near;
      const changed =
        whole.slice(0, at) + (kind === 0 ? "" : character) + whole.slice(kind === 1 ? at : at + 1);
      expect(outcome(() => read(changed).value)).toEqual(outcome(() => JSON.parse(changed)));
    }),
    { numRuns: 200 },
  );
});

test("long strings with quotes and backslashes end where they end", () => {
  assert(
    property(string({ unit: constantFrom("\\", '"', "a", "日") }), (part) => {
      const value = [part.repeat(20), part, "x".repeat(LONG), { [part]: part }];
      expect(read(JSON.stringify(value)).value).toEqual(value);
    }),
    { numRuns: 40 },
  );
});

describe.each([
  ["empty lists", "[],"],
  ["empty objects", "{},"],
  ["objects of a name each", '{"a":0},'],
  ["numbers", "0.5,"],
  ["lists in lists", `${"[".repeat(300)}${"]".repeat(300)},`],
  ["objects in objects", `${'{"a":'.repeat(300)}0${"}".repeat(300)},`],
  ["words", '"word",'],
])("%s", (_, item) => {
  const text = `[${item.repeat(LONG / item.length)}0]`;

  test("are read in pieces", () => {
    const { value, pieces, memory } = read(text);
    expect(value).toEqual(JSON.parse(text));
    // A piece has 128 KiB of text and 384 KiB of memory at most, and at most one container begun.
    expect(pieces).toBeGreaterThanOrEqual(Math.floor(memory / (512 * 1024)));
    expect(pieces).toBeGreaterThanOrEqual(2);
  });
});

test("a text of one piece is read at once", () => {
  expect(read(JSON.stringify({ text: "x".repeat(100_000) })).pieces).toBe(1);
});

test.each([
  [[[]], 64 + 64],
  [{ a: 1 }, 128 + 32 + 24 + 2],
  [[1, 2, 3], 64 + 24 + 24],
  ["日", 24 + 2 * 3],
])("of %j no more memory is told than V8 ever takes, and no less", (value, memory) => {
  expect(read(JSON.stringify(value)).memory).toBe(memory);
});

describe("nesting", () => {
  const lists = (depth: number, inside = "") => "[".repeat(depth) + inside + "]".repeat(depth);
  const objects = (depth: number) => `${'{"a":'.repeat(depth)}0${"}".repeat(depth)}`;

  test.each([
    ["lists", lists(MAX_DEPTH), lists(MAX_DEPTH + 1)],
    ["objects", objects(MAX_DEPTH), objects(MAX_DEPTH + 1)],
    ["in pieces", lists(MAX_DEPTH, filler), lists(MAX_DEPTH + 1, filler)],
    ["without an end", lists(MAX_DEPTH), "[".repeat(1_000_000)],
    ["of a long list", `[${filler},${lists(MAX_DEPTH - 1)}]`, `[${filler},${lists(MAX_DEPTH)}]`],
  ])("%s: as deep as it may be, and deeper", (_, right, wrong) => {
    expect(read(right).value).toEqual(JSON.parse(right));
    expect(() => read(wrong)).toThrow("it is nested deeper than 512 lists and objects");
  });
});

test("the memory is told before the values are made", () => {
  const enough = new Error("enough");
  const text = `[${"[],".repeat(100_000)}0]`;
  let told = 0;
  const parsing = parseJsonPieces(new TextEncoder().encode(text), (memory) => {
    told = memory;
    if (memory > 1_000_000) throw enough;
  });
  expect(() => {
    while (!parsing.next().done);
  }).toThrow(enough);
  // One piece more than was refused, of 8 MB.
  expect(told).toBeLessThan(1_000_000 + 512 * 1024);
});

test("a string may be as long as it may, and no longer", () => {
  const longest = `["${"x".repeat(MAX_STRING)}"]`;
  expect((read(longest).value as readonly string[])[0]).toHaveLength(MAX_STRING);
  const problem = "it has a string of more than 16777216 bytes";
  expect(() => read(longest.replace("x", "xx"))).toThrow(problem);
  expect(() => read(longest.slice(0, -2).replace("x", "xx"))).toThrow(problem);
});

test("bytes that are not UTF-8 are refused, a mark before the text is not", () => {
  const bytes = new TextEncoder().encode(`[${filler},"a"]`);
  const wrong = bytes.slice();
  wrong[wrong.length - 3] = 0xff;
  expect(() => read(wrong)).toThrow("it is not UTF-8");
  const marked = new Uint8Array([0xef, 0xbb, 0xbf, ...bytes]);
  expect(read(marked).value).toEqual(JSON.parse(`[${filler},"a"]`));
  expect(() => read(`[${filler},\ufeff1]`)).toThrow(JsonError);
});
