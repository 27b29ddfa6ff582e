/** Objects whose members are counted, or must differ, where the schema does not name their keys. */
import { expect, test } from "vitest";
import { compileGrammar } from "../../../src/grammar/library.ts";
import { seededRandom } from "../samples/sample_text.ts";
import { judge } from "../samples/schema_judge.ts";
import { tokensOf } from "../samples/small_vocabulary.ts";

test.each<[object, string[], string[]]>([
  [
    { minProperties: 2 },
    ['{"a":1,"b":2}', '{"a": {"a":1}, "b": [1,"a"]}', '{"":1," ":{"x":1,"x":2}}'],
    ["{}", '{"a":1}', '{"a":1,"a":2}', '{"a":1,"\\u0061":2}', '{"a":1,"b":2,"a":3}'],
  ],
  [
    { minProperties: 2, properties: { a: {}, b: {} } },
    ['{"a":1,"c":2}', '{"b":1,"a":2}', '{"c":1,"d":2}'],
    ['{"c":1,"c":2}', '{"a":1}'],
  ],
  [
    { minProperties: 2, propertyNames: { pattern: "^[ab]$" } },
    ['{"b":1,"a":2}'],
    ['{"a":1}', '{"a":1,"a":2}', '{"a":1,"c":2}'],
  ],
  [
    { not: { additionalProperties: { type: "string" } } },
    ['{"a":1,"b":"x"}', '{"b":"x","a":1}'],
    ["{}", '{"a":"x"}', '{"a":1,"a":"x"}'],
  ],
  [
    { propertyNames: { pattern: "^[ab]$" }, not: { additionalProperties: { type: "string" } } },
    ['{"a":1,"b":"x"}', '{"b":2}'],
    ['{"a":"x","b":"y"}', "{}"],
  ],
])("%j", (schema, yes, no) => judge({ type: "object", ...schema }, yes, no));

test("no walk comes to a dead end, and no key comes twice", () => {
  const member = { type: "object", propertyNames: { pattern: "^[a-c]$" }, minProperties: 2 };
  const grammar = compileGrammar({
    jsonSchema: { ...member, minProperties: 3, additionalProperties: { enum: [1, [2]] } },
  });
  const words = new Uint32Array(8);
  for (let seed = 1; seed <= 40; seed++) {
    const random = seededRandom(seed);
    const matcher = grammar.createMatcher();
    let text = "";
    while (!matcher.isAccepting) {
      matcher.mask(words);
      const allowed = tokensOf(words).filter((byte) => byte > 0x20);
      expect(allowed.length, text).toBeGreaterThan(0);
      const byte = allowed[random(allowed.length)]!;
      expect(matcher.accept(byte)).toBe(true);
      text += String.fromCharCode(byte);
    }
    expect(Object.keys(JSON.parse(text)).sort()).toEqual(["a", "b", "c"]);
  }
});

/** All bytes, tokens that go from a value into the next key, and the end. */
const JOINED = ['","', '","a', '],"', '{"b":'];
const TOKENS = [
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...JOINED.map((text) => new TextEncoder().encode(text)),
];
const END = TOKENS.length;
const vocabulary = {
  size: END + 1,
  bytes: (token: number) => TOKENS[token] ?? new Uint8Array(),
  isSpecial: (token: number) => token === END,
};

/** Every token after every step of a walk: those that the mask allows are those that are accepted. */
function walk(jsonSchema: object, seed: number): string {
  const grammar = compileGrammar({ jsonSchema }, { vocabulary, endTokens: [END] });
  const random = seededRandom(seed);
  const matcher = grammar.createMatcher();
  const words = new Uint32Array(Math.ceil(vocabulary.size / 32));
  const taken: number[] = [];
  while (taken.length < 60) {
    matcher.mask(words);
    const allowed = tokensOf(words);
    for (let token = 0x20; token <= END; token++) {
      if (token >= 0x7f && token < 256) continue;
      const other = grammar.createMatcher();
      for (const one of taken) other.accept(one);
      expect(other.accept(token), `${taken} ${token}`).toBe(allowed.includes(token));
    }
    const useful = allowed.filter((token) => token > 0x20);
    expect(useful.length, `${taken}`).toBeGreaterThan(0);
    const token = useful[random(useful.length)]!;
    matcher.accept(token);
    if (token === END) break;
    taken.push(token);
  }
  return taken.map((token) => String.fromCharCode(...TOKENS[token]!)).join("");
}

const TWO_KEYS = { type: "object", propertyNames: { enum: ["a", "b"] }, minProperties: 2 };
test.each<[string, object]>([
  ["strings", { ...TWO_KEYS, additionalProperties: { enum: ["x", "y"] } }],
  [
    "lists",
    { ...TWO_KEYS, additionalProperties: { type: "array", items: { const: 1 }, maxItems: 2 } },
  ],
  [
    "objects in a list whose items differ",
    {
      type: "array",
      uniqueItems: true,
      maxItems: 3,
      items: {
        ...TWO_KEYS,
        propertyNames: { pattern: "^[abc]$" },
        maxProperties: 2,
        additionalProperties: { enum: [1] },
      },
    },
  ],
  [
    "lists whose items differ in one",
    {
      type: "array",
      uniqueItems: true,
      maxItems: 3,
      items: {
        type: "array",
        uniqueItems: true,
        minItems: 2,
        maxItems: 2,
        items: { enum: [1, 2, 3] },
      },
    },
  ],
])("tokens over the end of a value: %s", (_, schema) => {
  for (let seed = 1; seed <= 6; seed++) walk(schema, seed);
});
