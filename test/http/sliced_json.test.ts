import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { JsonError, MAX_DEPTH, parseJsonPieces } from "../../src/http/json_pieces.ts";
import { MAX_CONTAINERS, MAX_ITEMS, MAX_MEMBERS, SlicedJson } from "../../src/http/sliced_json.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);

function parseSliced(text: string, sliceBytes: number): unknown {
  const reader = new SlicedJson(bytesOf(text), { sliceBytes });
  while (!reader.advance());
  return reader.value;
}

function parseJson(bytes: Uint8Array): unknown {
  const pieces = parseJsonPieces(bytes, () => {});
  for (;;) {
    const { done, value } = pieces.next();
    if (done) return value;
  }
}

function outcome(parse: (text: string) => unknown, text: string): unknown {
  try {
    return { value: parse(text) };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof JsonError) return "refused";
    throw error;
  }
}

function expectAsNative(text: string, sliceBytes: number): void {
  // Half of a surrogate pair is none in UTF-8.
  const native = outcome(
    JSON.parse,
    new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytesOf(text)),
  );
  const sliced = outcome((all) => parseSliced(all, sliceBytes), text);
  expect(isDeepStrictEqual(sliced, native), JSON.stringify(text)).toBe(true);
  // The order of names too.
  expect(JSON.stringify(sliced)).toBe(JSON.stringify(native));
}

const ALPHABET = ["[", "]", "{", "}", ",", ":", '"', "1", " ", "\\"];

const MARKS = process.env.WISP_TEST_FULL === "1" ? 6 : 4;

test(`every text of up to ${MARKS} marks has the outcome of JSON.parse, cut anywhere`, () => {
  let texts = [""];
  for (let length = 1; length <= MARKS; length++) {
    texts = texts.flatMap((text) => ALPHABET.map((mark) => text + mark));
    for (const text of texts) {
      const native = JSON.stringify(outcome(JSON.parse, text));
      const sliced = JSON.stringify(outcome((all) => parseSliced(all, 1), text));
      if (sliced !== native) expect.fail(`${text} gave ${sliced}, not ${native}`);
    }
  }
});

describe("texts of all kinds have the outcome of JSON.parse", () => {
  const names = fc.constantFrom(
    "a",
    "b",
    "__proto__",
    "10",
    "2",
    "constructor",
    "",
    "é\ud83d\ude00",
  );
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      { maxDepth: 4, depthSize: "small" },
      fc.oneof(
        fc.double().map((number) => JSON.stringify(number)),
        fc.constantFrom("true", "false", "null", "-0", "1e400", "0.1e-7", "123456789012345678901"),
        fc.string({ unit: "binary", maxLength: 30 }).map((text) => JSON.stringify(text)),
        fc.constantFrom(
          '"\\ud83d\\ude00\\u0000\\""',
          '"\\ud83d"',
          '"\u2028\ufeff"',
          `"${"x".repeat(90)}"`,
        ),
      ),
      fc.array(tie("any"), { maxLength: 6 }).map((items) => `[${items.join(",")}]`),
      fc
        .array(fc.tuple(names, tie("any")), { maxLength: 6 })
        .map(
          (all) => `{${all.map(([name, item]) => `${JSON.stringify(name)} :${item}`).join(",")}}`,
        ),
    ),
  })).any as fc.Arbitrary<string>;
  const space = fc.constantFrom("", "", " ", "\n\t", " ".repeat(2500));
  const sliceBytes = fc.integer({ min: 1, max: 40 });

  test("well-formed ones", () => {
    fc.assert(
      fc.property(value, space, space, sliceBytes, (text, before, behind, size) => {
        expectAsNative(before + text.replaceAll(",", `,${behind}`) + behind, size);
      }),
      { numRuns: 800, seed: 1 },
    );
  });

  test("ones with a mark too many, too few or another", () => {
    const marks = fc.constantFrom(
      ...ALPHABET,
      "",
      "u",
      "-",
      "e",
      ".",
      "\n",
      "\ufeff",
      "\u00a0",
      '""',
    );
    fc.assert(
      fc.property(value, fc.nat(), fc.nat(2), marks, sliceBytes, (text, at, cut, mark, size) => {
        const place = at % (text.length + 1);
        expectAsNative(text.slice(0, place) + mark + text.slice(place + cut), size);
      }),
      { numRuns: 2000, seed: 2 },
    );
  });
});

test.each([
  ["items", `[${"12345,".repeat(200_000)}1]`],
  ["objects", `[${'{"role":"user","content":"hello"},'.repeat(30_000)}1]`],
  ["a text", `{"prompt":"${'some \\"text\\" \\ud83d\\ude00 €\u0800'.repeat(150_000)}"}`],
  ["a name", `{"${"é".repeat(500_000)}":[1]}`],
  ["white space", `{${" ".repeat(3_000_000)}"a"${"\n".repeat(900_000)}:${" ".repeat(900_000)}1 }`],
])("a long body is parsed in parts that are short: %s", (_, text) => {
  const native = JSON.parse(text);
  const parse = vi.spyOn(JSON, "parse");
  try {
    expect(parseJson(bytesOf(text))).toStrictEqual(native);
    const longest = Math.max(...parse.mock.calls.map(([part]) => part.length));
    expect(longest).toBeLessThan(256 * 1024);
  } finally {
    parse.mockRestore();
  }
});

describe("limits of a body", () => {
  const deep = (depth: number, filler = "") => `${"[".repeat(depth)}${filler}${"]".repeat(depth)}`;
  const refused = (text: string): unknown => {
    try {
      parseJson(bytesOf(text));
      return "taken";
    } catch (error) {
      return error instanceof JsonError ? error.problem : error;
    }
  };

  test.each([MAX_DEPTH + 1, 10 * MAX_DEPTH, 100_000, 1_000_000])(
    "nesting of %i levels is refused",
    (depth) => {
      const message = `it is nested deeper than ${MAX_DEPTH} lists and objects`;
      expect(refused(deep(depth))).toBe(message);
      expect(refused(`{"a":${"[".repeat(depth)}`)).toBe(message);
      expect(refused(deep(depth, `"${"x".repeat(300_000)}"`))).toBe(message);
    },
  );

  test("brackets in texts are no nesting", () => {
    expect(parseJson(bytesOf(deep(MAX_DEPTH)))).toEqual(JSON.parse(deep(MAX_DEPTH)));
    const text = JSON.stringify(`\\"${"[{".repeat(200_000)}`);
    expect(parseJson(bytesOf(text))).toBe(JSON.parse(text));
  });

  test("containers, items and members of a long body are counted", () => {
    expect(refused(`[${"[],".repeat(MAX_CONTAINERS)}1]`)).toMatch(/^it has more than 262144/);
    expect(refused(`[${"1,".repeat(MAX_ITEMS)}1]`)).toMatch(/an array of more than 1048576/);
    const members = Array.from({ length: MAX_MEMBERS + 1 }, (_, i) => `"${i}":1`);
    expect(refused(`{${members.join(",")}}`)).toMatch(/an object of more than 65536/);
  });

  test("what is not UTF-8 or no JSON is refused wherever it stands", () => {
    const text = `["${"a".repeat(600_000)}",1]`;
    const bytes = bytesOf(text);
    bytes[400_000] = 0xff;
    expect(() => parseJson(bytes)).toThrow("it is not UTF-8");
    expect(refused(text.replace(",1", ",x"))).toMatch(/^it is not JSON: .*from byte 6000/);
    expect(refused(`"${"a".repeat(600_000)}`)).toMatch(/^it is not JSON: it ends early/);
    expect(refused(`[${"1".repeat(2_000_000)}]`)).toMatch(
      /^it has a number or a word that is too long/,
    );
    expect(refused(`\ufeff${text}`)).toBe("taken");
    expect(refused(`\ufeff\ufeff${text}`)).toMatch(/^it is not JSON/);
  });
});
