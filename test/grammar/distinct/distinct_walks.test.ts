/** Lists whose items differ, followed token by token: masks, ends, and what the texts mean. */
import Ajv2020 from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { compileGrammar } from "../../../src/grammar/library.ts";
import { randomSource } from "../../support/server/hostile_requests.ts";

/** Bytes, and pieces that end items, begin others, or hold several of them. */
const PIECES = [
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...[
    ...['","', '", "', '"]', '["', "[1", "1,", ",1", "1,1", "2,1", "11", "10", "12", "[1,2", "0]"],
    ...['"a"', '"b"', '"a","', '"a","b"', '"a","a"', '["a","b"]', '"ab', "ab", "ba", "\\u00", "61"],
    ...["\\u0061", '\\u0062"', "},{", '{"', '":', '{"a":1}', '{"a":1},{"a":', ":1", "null", "true"],
    ...["false", "e0", ".0", "0.", "1.0", "é", '\u00e9"', "]]", "],[", "],[1]", "[],", "-0", " ,"],
  ].map((piece) => new TextEncoder().encode(piece)),
];
const END = PIECES.length;
const WALKS = process.env.WISP_TEST_FULL === "1" ? 200 : 4;

const SCHEMAS: readonly (readonly [string, object])[] = [
  ["strings", { items: { type: "string", maxLength: 2 } }],
  ["strings of two letters", { items: { type: "string", pattern: "^[ab]{1,2}$" } }],
  ["as many as there are", { items: { pattern: "^[ab]{1,3}$", type: "string" }, minItems: 14 }],
  ["whole numbers", { items: { type: "integer", minimum: 0, maximum: 13 }, minItems: 10 }],
  ["numbers", { items: { type: "number", minimum: 0, maximum: 1 }, maxItems: 5 }],
  ["listed", { items: { enum: Array.from({ length: 12 }, (_, i) => `${i}`) }, minItems: 12 }],
  ["objects", { items: closed({ a: { enum: [1, 2] }, b: { type: "boolean" } }), minItems: 3 }],
  ["open objects", { items: { type: "object", properties: { a: { enum: [1] } } }, maxItems: 4 }],
  ["lists of lists", { items: { type: "array", items: { enum: [1, 2] }, maxItems: 2 } }],
  ["sets of sets", { items: { type: "array", uniqueItems: true, items: { enum: [1, 2, "a"] } } }],
  ["anything", { maxItems: 6 }],
  [
    "first items",
    { prefixItems: [{ enum: [1, 2] }, { enum: [1, 2, 3] }], items: { type: "integer" } },
  ],
  ["with contains", { items: { type: "integer" }, contains: { minimum: 10 }, maxItems: 4 }],
];

function closed(properties: object): object {
  return { type: "object", properties, additionalProperties: false };
}

const source = {
  size: PIECES.length + 1,
  bytes: (id: number) => PIECES[id] ?? new Uint8Array(0),
  isSpecial: (id: number) => id === END,
};

describe.each(SCHEMAS)("%s", (_, schema) => {
  const whole = { type: "array", uniqueItems: true, ...schema };
  const either = { anyOf: [whole, { type: "array", maxItems: 2 }] };
  const inside = { type: "object", properties: { list: whole }, required: ["list"] };

  test.each([
    ["alone", whole],
    ["or a short list", either],
    ["in an object", { ...inside, additionalProperties: false }],
  ])("%s: masks are what accept says, no walk is stuck, every text fits", (_place, jsonSchema) => {
    const fits = new Ajv2020({ strict: false }).compile(jsonSchema);
    const options = { vocabulary: source, endTokens: [END], json: { maxWhitespace: 1 } };
    const grammar = compileGrammar({ jsonSchema }, options);
    const words = new Uint32Array(Math.ceil(source.size / 32));
    const texts = new Set<string>();
    for (let seed = 0; seed < WALKS; seed++) {
      const random = randomSource(seed);
      const matcher = grammar.createMatcher();
      const bytes: number[] = [];
      for (let length = 0; !matcher.isFinished; length++) {
        matcher.mask(words);
        const allowed = Array.from({ length: source.size }, (__, id) => id).filter(
          (id) => ((words[id >> 5]! >>> (id & 31)) & 1) === 1,
        );
        expect(allowed.length, new TextDecoder().decode(Uint8Array.from(bytes))).toBeGreaterThan(0);
        if (length % 4 === seed % 4) {
          const accepted = Array.from({ length: source.size }, (__, id) => id).filter((id) => {
            const isAccepted = matcher.accept(id);
            if (isAccepted) matcher.rollback(1);
            return isAccepted;
          });
          expect(allowed).toEqual(accepted);
        }
        const token = choose(allowed, { random, length, isInString: endsInString(bytes) });
        expect(matcher.accept(token)).toBe(true);
        bytes.push(...(PIECES[token] ?? []));
      }
      const text = new TextDecoder().decode(Uint8Array.from(bytes));
      expect(fits(JSON.parse(text)), text).toBe(true);
      expect(grammar.accepts(text)).toBe(true);
      texts.add(text);
    }
    expect(texts.size).toBeGreaterThan(1);
  });
});

/** Long walks come to an end: what closes is preferred there. */
function choose(
  allowed: readonly number[],
  {
    random,
    length,
    isInString,
  }: { readonly random: () => number; readonly length: number; readonly isInString: boolean },
): number {
  const any = allowed[Math.floor(random() * allowed.length)]!;
  if (length < 40 && random() < 0.7) return any;
  const closing = (isInString ? ['"'] : ["]", "}", '"', ",", ":"]).map((c) => c.charCodeAt(0));
  const ends = [END, ...closing].filter((token) => allowed.includes(token));
  return ends[0] ?? any;
}

function endsInString(bytes: readonly number[]): boolean {
  const text = String.fromCharCode(...bytes).replace(/\\./g, "");
  return text.split('"').length % 2 === 0;
}

test.each([
  ['[60, ["a", 1]', [["a", 1]]],
  ['[60, ["a", 1], ["b", [2]], []', [["a", 1], 5, ["b", [2]], []]],
])("behind %s there is no other item, however it may be laid out", (text, listed) => {
  const items = { enum: listed, type: ["boolean", "array"] };
  const jsonSchema = {
    prefixItems: [{ type: "integer" }],
    items,
    type: "array",
    uniqueItems: true,
  };
  // White space as models write it: many ways to break lines and to indent.
  const grammar = compileGrammar({ jsonSchema }, { vocabulary: source, endTokens: [END] });
  const matcher = grammar.createMatcher();
  for (const byte of new TextEncoder().encode(text)) expect(matcher.accept(byte)).toBe(true);
  const words = new Uint32Array(Math.ceil(source.size / 32));
  matcher.mask(words);
  const isAllowed = (token: string) => {
    const id = PIECES.findIndex((piece) => new TextDecoder().decode(piece) === token);
    return ((words[id >> 5]! >>> (id & 31)) & 1) === 1;
  };
  expect([",", "]", "]]"].map(isAllowed)).toEqual([false, true, false]);
  expect(grammar.accepts(`${text}]`)).toBe(true);
});

test("an object that is there is none that differs where its members are turned", () => {
  const jsonSchema = {
    type: "array",
    uniqueItems: true,
    items: closed({ a: { enum: [1, 2] }, b: { enum: [1] } }),
  };
  const grammar = compileGrammar({ jsonSchema }, { vocabulary: source, endTokens: [END] });
  const matcher = grammar.createMatcher();
  const text = '[{"a":1,"b":1},{"b":1,"a":';
  for (const byte of new TextEncoder().encode(text)) expect(matcher.accept(byte)).toBe(true);
  const [one, two] = ["1", "2"].map((digit) => digit.charCodeAt(0));
  expect([matcher.accept(one!), matcher.accept(two!)]).toEqual([false, true]);
});

test("an escape that stands in no item may still spell a character that does", () => {
  const items = { type: "string", pattern: "^[ab]{1,3}$" };
  const jsonSchema = { type: "array", uniqueItems: true, items };
  const grammar = compileGrammar({ jsonSchema }, { vocabulary: source, endTokens: [END] });
  const matcher = grammar.createMatcher();
  for (const byte of new TextEncoder().encode('["ab","aba","abb","\\u0061')) {
    expect(matcher.accept(byte)).toBe(true);
  }
  const [a, b] = ["a", "b"].map((letter) => letter.charCodeAt(0));
  expect([matcher.accept(b!), matcher.accept(a!)]).toEqual([false, true]);
});

describe("inside one another", () => {
  const tree = {
    $ref: "#/$defs/node",
    $defs: {
      node: closedWith({
        name: { enum: ["a", "b"] },
        children: { type: "array", uniqueItems: true, items: { $ref: "#/$defs/node" } },
      }),
    },
  };

  function closedWith(properties: object): object {
    return { ...closed(properties), required: Object.keys(properties) };
  }

  test("lists deep within lists are accepted, and those that repeat an item are not", () => {
    const { accepts } = compiled(tree);
    const nested = (depth: number, inner: string): string =>
      depth === 0 ? inner : `{"name":"a","children":[${nested(depth - 1, inner)}]}`;
    const leaf = '{"name":"b","children":[]}';
    expect(accepts(nested(24, leaf))).toBe(true);
    expect(accepts(nested(24, `${leaf},{"name":"a","children":[]}`))).toBe(true);
    expect(accepts(nested(24, `${leaf},${leaf}`))).toBe(false);
  });

  test("a walk that nests as deep as it can comes to an end", () => {
    const { grammar } = compiled(tree);
    const words = new Uint32Array(Math.ceil(source.size / 32));
    const matcher = grammar.createMatcher();
    let [open, most] = [0, 0];
    let text = "";
    while (!matcher.isAccepting) {
      matcher.mask(words);
      // What opens comes first, until nothing does.
      const order = Array.from(open < most ? '}],"childrenamb:' : '{["childrenamb:,]}');
      const byte = order
        .map((character) => character.charCodeAt(0))
        .find((one) => ((words[one >>> 5]! >>> (one & 31)) & 1) === 1);
      expect(byte, text.slice(-80)).toBeDefined();
      expect(matcher.accept(byte!)).toBe(true);
      text += String.fromCharCode(byte!);
      if (byte === 0x5b) open += 1;
      if (byte === 0x5d) open -= 1;
      most = Math.max(most, open);
    }
    expect(most).toBeGreaterThan(32);
    expect(new Ajv2020({ strict: false }).compile(tree)(JSON.parse(text))).toBe(true);
  });

  const full = process.env.WISP_TEST_FULL === "1";
  test.runIf(full)(
    "a walk that opens whatever it can has a token, though few items are left",
    () => {
      const { grammar } = compiled(tree, { maxDepth: 12 });
      const words = new Uint32Array(Math.ceil(source.size / 32));
      const matcher = grammar.createMatcher();
      const order = Array.from('{["childrenamb:,]}', (character) => character.charCodeAt(0));
      let text = "";
      while (text.length < 1_900) {
        matcher.mask(words);
        const byte = order.find((one) => ((words[one >>> 5]! >>> (one & 31)) & 1) === 1);
        expect(byte, text.slice(-80)).toBeDefined();
        expect(matcher.accept(byte!)).toBe(true);
        text += String.fromCharCode(byte!);
      }
    },
  );

  function compiled(jsonSchema: object, limits = {}) {
    const options = { vocabulary: source, endTokens: [END], json: { maxWhitespace: 0 }, limits };
    const grammar = compileGrammar({ jsonSchema }, options);
    return { grammar, accepts: (text: string) => grammar.accepts(text) };
  }
});
