import { describe, expect, test } from "vitest";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { MAX_DISTINCT_DEPTH } from "../../../src/grammar/distinct/item_memory.ts";
import { compileGrammar } from "../../../src/grammar/library.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { acceptorOfSchema } from "../samples/schema_acceptance.ts";
import { judge } from "../samples/schema_judge.ts";

describe("objects", () => {
  const open = { properties: { a: { type: "boolean" }, b: {} }, required: ["b"], type: "object" };

  test("keys stand in any order, those that the schema names once each", () => {
    judge(
      open,
      ['{"a":true,"b":1}', '{"b":1,"a":true}', '{"c":2,"b":1}', '{"c":2,"b":1,"d":1,"a":true}'],
      ['{"a":true}', '{"b":1,"b":1}', '{"b":1,"c":2,"b":1}', '{"c":2,"d":1}', "{}"],
    );
    const properties = Object.fromEntries(["a", "b", "c", "d"].map((key) => [key, {}]));
    const bounds = { required: ["c"], minProperties: 2, maxProperties: 3 };
    judge(
      { type: "object", properties, additionalProperties: false, ...bounds },
      ['{"a":1,"c":1}', '{"c":1,"a":1,"b":2}', '{"d":1,"b":1,"c":1}'],
      ["{}", '{"c":1}', '{"a":1,"b":1}', '{"a":1,"b":1,"d":1}', '{"a":1,"b":1,"c":1,"d":1}'],
    );
  });

  test("keys stand in the order of the schema, others behind them, where that is asked for", () => {
    const inOrder = { order: "schema" } as const;
    judge(
      open,
      ['{"a":true,"b":1}', '{"b":1}', '{"b":1,"c":2}'],
      ['{"b":1,"a":true}', '{"c":2,"b":1}', '{"a":true}'],
      inOrder,
    );
    const numbers =
      '{"type":"object","properties":{"b":{},"10":{},"2":{}},"additionalProperties":false}';
    judge(
      numbers,
      ['{"b":1,"10":1,"2":1}', '{"10":1,"2":1}'],
      ['{"2":1,"10":1,"b":1}', '{"2":1,"10":1}'],
      inOrder,
    );
  });

  test("an undeclared key never equals a declared one, in no spelling", () => {
    judge(
      open,
      ['{"b":1,"aa":7}', '{"b":1,"":7}'],
      ['{"b":1,"a":7}', '{"b":1,"\\u0061":7}', '{"b":1,"b":2}'],
    );
    judge(
      { type: "object", properties: { é: { const: 1 } } },
      ['{"é":1}', '{"\\u00e9":1}', '{"è":2}'],
      ['{"é":2}', '{"\\u00E9":2}'],
    );
  });

  test("keys are spelled without escapes that programs do not write", () => {
    judge(
      open,
      ['{"b":1,"\\u00fc":2}', '{"b":1,"\\n\\"":2}', '{"b":1,"ü":2}'],
      ['{"\\u0062":1}', '{"b":1,"\\u0063":2}'],
    );
  });

  test("keys with quotes, backslashes, control characters and keys of prototypes", () => {
    const keys = ['"', "\\", "\n", "__proto__", "constructor", "a/b~c", ""];
    const properties = JSON.parse(
      `{${keys.map((key) => `${JSON.stringify(key)}:{"const":1}`).join()}}`,
    );
    const text = (value: number) =>
      `{${keys.map((key) => `${JSON.stringify(key)}:${value}`).join()}}`;
    judge({ properties, required: keys, additionalProperties: false }, [text(1)], [text(2), "{}"]);
  });

  test("optional keys and commas, in every combination", () => {
    const keys = ["a", "b", "c", "d", "e"];
    const properties = Object.fromEntries(keys.map((key) => [key, { const: 1 }]));
    const accept = acceptorOfSchema({
      type: "object",
      properties,
      required: ["b", "d"],
      additionalProperties: false,
    });
    for (let set = 0; set < 32; set++) {
      const chosen = keys.filter((_, i) => set & (1 << i));
      const text = `{${chosen.map((key) => `"${key}":1`).join()}}`;
      expect(accept(text), text).toBe(chosen.includes("b") && chosen.includes("d"));
      expect(accept(text.replace("}", ",}"))).toBe(false);
      expect(accept(text.replace("{", "{,"))).toBe(false);
    }
  });

  test("a hundred optional keys stay a small grammar", () => {
    const properties = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`k${i}`, {}]));
    const grammar = jsonSchemaGrammar({ type: "object", properties, additionalProperties: false });
    expect(compileAutomaton(grammar).nodes.length).toBeLessThan(4000);
    judge(
      { type: "object", properties, additionalProperties: false },
      ["{}", '{"k3":1,"k99":2}', '{"k99":1,"k3":2}'],
      ['{"k100":1}', '{"k99":1,"k99":2}'],
    );
  });

  test.each<[object, string[], string[]]>([
    [
      {
        type: "object",
        patternProperties: { "^n": { type: "number" }, e$: { minimum: 3 } },
        additionalProperties: false,
      },
      ['{"n":1}', '{"ne":3}', '{"e":"x"}', '{"nx":1,"xe":9}'],
      ['{"n":"x"}', '{"ne":2}', '{"ne":"x"}', '{"x":1}'],
    ],
    [
      { type: "object", propertyNames: { pattern: "^[a-z]+$" }, properties: { A: {} } },
      ['{"a":1}', "{}"],
      ['{"A":1}', '{"a1":1}'],
    ],
    [
      {
        type: "object",
        minProperties: 2,
        properties: { a: {}, b: {}, c: {} },
        additionalProperties: false,
      },
      ['{"a":1,"c":1}', '{"a":1,"b":1,"c":1}'],
      ["{}", '{"b":1}'],
    ],
    [
      { type: "object", minProperties: 1, maxProperties: 2 },
      ['{"a":1}', '{"a":1,"b":1}'],
      ["{}", '{"a":1,"b":1,"c":1}'],
    ],
    [
      { type: "object", maxProperties: 2, properties: { a: {}, b: {} }, required: ["b"] },
      ['{"b":1}', '{"a":1,"b":1}', '{"b":1,"x":1}'],
      ['{"a":1,"b":1,"x":1}', '{"a":1}'],
    ],
    [
      {
        type: "object",
        properties: { a: {}, b: {} },
        dependentRequired: { a: ["b"] },
        additionalProperties: false,
      },
      ["{}", '{"b":1}', '{"a":1,"b":1}'],
      ['{"a":1}'],
    ],
    [
      {
        type: "object",
        properties: { a: {}, b: {} },
        dependentSchemas: { a: { properties: { b: { const: 1 } } } },
      },
      ['{"b":2}', '{"a":0,"b":1}', '{"a":0}'],
      ['{"a":0,"b":2}'],
    ],
    [
      { const: { b: [1, "x"], a: null } },
      ['{"b":[1,"x"],"a":null}', '{"a":null,"b":[1,"x"]}'],
      ['{"b":[1.0,"x"],"a":null}', '{"b":[1,"x"]}', '{"b":[1,"x"],"a":null,"c":0}'],
    ],
    [
      { enum: [{ 'q"': 1 }, [], [[]], {}] },
      ['{"q\\"":1}', "[]", "[[]]", "{}"],
      ['{"q":1}', "[[],[]]", "[{}]"],
    ],
    [{ type: "object", not: { required: ["a"] } }, ["{}", '{"b":1}'], ['{"a":1}']],
    [
      { type: "object", not: { additionalProperties: { type: "string" } } },
      ['{"a":1}', '{"a":"x","b":1}'],
      ["{}", '{"a":"x"}', '{"a":1,"a":"x"}'],
    ],
  ])("%j", (schema, yes, no) => judge(schema, yes, no));
});

describe("arrays", () => {
  test.each<[object, string[], string[]]>([
    [
      { type: "array", items: { type: "integer" }, minItems: 1, maxItems: 3 },
      ["[1]", "[1,2,3]", "[ 1, 2 ]"],
      ["[]", "[1,2,3,4]", "[1,]", "[,1]", '["a"]'],
    ],
    [
      { type: "array", prefixItems: [{ type: "null" }, { type: "boolean" }], items: false },
      ["[]", "[null]", "[null,true]"],
      ["[true]", "[null,true,1]"],
    ],
    [
      { type: "array", prefixItems: [{ const: 1 }], items: { const: 2 }, minItems: 2 },
      ["[1,2]", "[1,2,2]"],
      ["[1]", "[2,2]", "[1,1]"],
    ],
    [
      { type: "array", items: { type: "integer" }, contains: { minimum: 5 }, maxContains: 2 },
      ["[5]", "[1,7,2,9]"],
      ["[]", "[1]", "[5,6,7]"],
    ],
    [
      { type: "array", items: { enum: ["a", "b", "c"] }, uniqueItems: true },
      ["[]", '["b","a"]', '["c","a","b"]'],
      ['["a","a"]', '["a","\\u0061"]', '["a","b","c","a"]'],
    ],
    [
      {
        type: "array",
        prefixItems: [{ type: "string" }, { type: "number" }],
        items: false,
        uniqueItems: true,
      },
      ['["a",1]'],
      ['["a",1,2]'],
    ],
    [
      {
        type: "array",
        items: { type: "integer", minimum: 1, maximum: 3 },
        uniqueItems: true,
        minItems: 3,
      },
      ["[3,1,2]"],
      ["[1,2]", "[1,2,1]"],
    ],
    [{ type: "array", uniqueItems: true, maxItems: 1 }, ["[]", "[{}]"], ["[1,2]"]],
    [
      { type: "array", uniqueItems: true },
      [
        ...["[]", "[1]", '[1,"1",[1],{"a":1},{"a":2},{"b":1},null,true,false,"",0.5,-1]'],
        ...['["é","e"]', "[[1],[[1]]]", '["a","ab","b"]', "[1,12,2]", "[0.1,0.10000000000000001]"],
      ],
      [
        ...["[1,1]", "[1,2,1]", "[1,1.0]", "[100,1e2]", "[0,-0]", '["a","a"]', "[null,null]"],
        ...['["a","\\u0061"]', '["é","\\u00e9"]', '[{"a":1,"b":2},{"b":2,"a":1}]', "[[],[ ]]"],
        ...["[[1,2],[1, 2]]", "[[[1,1]],[[1,1]]]", '[{"a":1,"a":2},{"a":2}]'],
      ],
    ],
    [
      {
        type: "array",
        items: { type: "string", minLength: 1 },
        uniqueItems: true,
        contains: { const: "x" },
        minItems: 2,
      },
      ['["x","y"]', '["y","x","z"]'],
      ['["x","x"]', '["y","z"]', '["x"]'],
    ],
    [
      {
        type: "array",
        uniqueItems: true,
        items: { type: "array", uniqueItems: true, items: { type: "integer" } },
      },
      ["[[1],[2],[1,2],[2,1]]"],
      ["[[1,1]]", "[[1,2],[1,2]]", "[[1],[2],[2,2]]"],
    ],
    [
      { type: "array", not: { items: { type: "string" } } },
      ["[1]", '["a",1,"b"]'],
      ["[]", '["a"]'],
    ],
  ])("%j", (schema, yes, no) => judge(schema, yes, no));

  test("uniqueItems of many values, when arrays are short", () => {
    const items = { enum: Array.from({ length: 26 }, (_, i) => i) };
    judge(
      { type: "array", items, uniqueItems: true, maxItems: 3 },
      ["[25,0,3]"],
      ["[1,2,1]", "[1,2,3,4]"],
    );
    judge(
      { type: "array", items: { enum: items.enum.map((i) => `value ${i}`) }, uniqueItems: true },
      [JSON.stringify(items.enum.map((i) => `value ${25 - i}`))],
      [JSON.stringify(items.enum.concat(0).map((i) => `value ${i}`)), '["value 26"]'],
    );
  });

  test("lists whose items differ lie inside one another up to a limit", () => {
    const schema = { type: "array", uniqueItems: true, items: { $ref: "#" } };
    const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
    judge(schema, [nested(33), "[[],[[]],[[],[[]]]]"], ["[[],[]]"]);
    const grammar = compileGrammar({ jsonSchema: schema });
    const accepts = (text: string) => grammar.accepts(text);
    expect([33, MAX_DISTINCT_DEPTH + 2].map((levels) => accepts(nested(levels)))).toEqual([
      true,
      false,
    ]);
  });

  test("large bounds are counted, not written out", () => {
    const grammar = jsonSchemaGrammar({
      type: "array",
      items: { type: "null" },
      minItems: 1000,
      maxItems: 100_000,
    });
    expect(compileAutomaton(grammar).nodes.length).toBeLessThan(2000);
  });
});
