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
