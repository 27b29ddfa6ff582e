/** Values that no grammar asks for: they are left out and told of, and nothing invalid takes their place. */
import { expect, test } from "vitest";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { judge } from "../samples/schema_judge.ts";

const WARNED = "no grammar asks for them";
const strings = { type: "array", items: { type: "string" } };

test.each<[object, string[], string[]]>([
  [
    {
      oneOf: [
        { ...strings, uniqueItems: true },
        { type: "array", items: { enum: ["a", "b"] } },
      ],
    },
    ['["c"]', '["a","c"]'],
    // The last of them fits the second schema alone.
    ["[]", '["a"]', '["a","b"]', '["c","c"]', '["a","c","c"]', '["a","a"]'],
  ],
  [
    {
      oneOf: [
        { type: "object", properties: { a: { ...strings, uniqueItems: true } }, required: ["a"] },
        { type: "object", properties: { a: { ...strings, minItems: 2 } }, required: ["a"] },
      ],
    },
    ['{"a":["x"]}', '{"a":[]}'],
    ['{"a":["x","y"]}', '{"a":["x","x"]}', '{"a":1}'],
  ],
  [
    { not: { type: "object", properties: { a: {} }, unevaluatedProperties: false } },
    ["1", "[]"],
    ["{}", '{"a":1}', '{"b":1}'],
  ],
  [
    { anyOf: [{ type: "string", not: { format: "regex" } }, { const: "a" }] },
    ['"a"'],
    ['"b"', '"("'],
  ],
])("%j", (schema, yes, no) => {
  judge(schema, yes, no);
  expect(jsonSchemaGrammar(schema).warnings!.join()).toContain(WARNED);
});

test("what excludes two equal items takes nothing else out", () => {
  const schema = {
    oneOf: [
      { type: "array", maxItems: 1, uniqueItems: true },
      { type: "array", minItems: 2, uniqueItems: true },
    ],
  };
  judge(schema, ["[]", "[1]", "[1,2]"], ["[1,1]"]);
  expect(jsonSchemaGrammar(schema).warnings).toEqual([]);
});
