import { describe, expect, test } from "vitest";
import { compileAutomaton } from "../../src/grammar/compile_automaton.ts";
import { GrammarError } from "../../src/grammar/grammar_error.ts";
import { type JsonSchemaOptions, jsonSchemaGrammar } from "../../src/grammar/schema/json_schema.ts";
import { acceptorOfSchema } from "./schema_acceptance.ts";

function judge(
  schema: unknown,
  yes: readonly string[],
  no: readonly string[],
  options: JsonSchemaOptions = {},
): void {
  const accept = acceptorOfSchema(schema, options);
  for (const text of yes) expect(accept(text), text).toBe(true);
  for (const text of no) expect(accept(text), text).toBe(false);
}

function refusal(schema: unknown, options: JsonSchemaOptions = {}): GrammarError {
  try {
    compileAutomaton(jsonSchemaGrammar(schema, options));
  } catch (error) {
    if (error instanceof GrammarError) return error;
    throw error;
  }
  throw new Error("the schema was not refused");
}

describe("joined schemas", () => {
  const kind = (name: string, type: string) => ({
    type: "object",
    properties: { kind: { const: name }, value: { type } },
    required: ["kind", "value"],
    additionalProperties: false,
  });

  test.each<[string, object, string[], string[]]>([
    [
      "anyOf",
      { anyOf: [{ type: "integer" }, { type: "string", maxLength: 1 }] },
      ["1", '"a"'],
      ["1.5", '"ab"', "null"],
    ],
    [
      "oneOf of overlapping ranges",
      { type: "integer", oneOf: [{ minimum: 0, maximum: 10 }, { minimum: 5 }] },
      ["0", "4", "11"],
      ["5", "10", "-1"],
    ],
    [
      "oneOf of multiples",
      { type: "integer", oneOf: [{ multipleOf: 2 }, { multipleOf: 3 }] },
      ["2", "3", "9", "10"],
      ["0", "6", "1"],
    ],
    [
      "oneOf with a discriminator",
      { oneOf: [kind("a", "null"), kind("b", "boolean")] },
      ['{"kind":"a","value":null}', '{"kind":"b","value":true}'],
      ['{"kind":"a","value":true}', '{"kind":"c","value":null}'],
    ],
    [
      "oneOf of required keys",
      {
        type: "object",
        properties: { a: {}, b: {} },
        oneOf: [{ required: ["a"] }, { required: ["b"] }],
      },
      ['{"a":1}', '{"b":1}', '{"a":1,"x":1}'],
      ["{}", '{"a":1,"b":1}'],
    ],
    [
      "allOf",
      {
        allOf: [
          { properties: { a: { minimum: 1 } }, required: ["a"] },
          { properties: { a: { type: "integer", maximum: 3 } } },
        ],
        type: "object",
      },
      ['{"a":1}', '{"a":3}'],
      ['{"a":0}', '{"a":4}', '{"a":1.5}', "{}"],
    ],
    [
      "allOf of closed objects",
      {
        type: "object",
        allOf: [
          { properties: { a: {} }, additionalProperties: false },
          { properties: { a: {}, b: {} }, additionalProperties: false },
        ],
      },
      ["{}", '{"a":1}'],
      ['{"b":1}', '{"a":1,"b":1}'],
    ],
    [
      "not of a type",
      { not: { type: ["object", "array", "string"] } },
      ["1", "null", "true"],
      ["{}", "[]", '"a"'],
    ],
    [
      "not of an enum",
      { enum: [1, 2, "a", null], not: { enum: [2, null] } },
      ["1", '"a"'],
      ["2", "null"],
    ],
    [
      "not of an object",
      {
        type: "object",
        properties: { a: { type: "integer" } },
        required: ["a"],
        additionalProperties: false,
        not: { properties: { a: { const: 1 } } },
      },
      ['{"a":2}'],
      ['{"a":1}', "{}"],
    ],
    ["not of not", { not: { not: { type: "boolean" } } }, ["true"], ["1"]],
    [
      "if, then, else",
      {
        type: "object",
        properties: { a: { type: "boolean" }, b: {} },
        required: ["a"],
        if: { properties: { a: { const: true } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { required: ["b"] },
        else: { properties: { b: false } },
      },
      ['{"a":true,"b":1}', '{"a":false}', '{"a":false,"c":1}'],
      ['{"a":true}', '{"a":false,"b":1}'],
    ],
    ["const as an integer and a length", { const: "ab", minLength: 2 }, ['"ab"'], ['"a"']],
    [
      "unevaluatedProperties",
      {
        type: "object",
        allOf: [{ properties: { a: {} } }],
        anyOf: [{ properties: { b: { const: 1 } }, required: ["b"] }, { properties: { c: {} } }],
        unevaluatedProperties: false,
      },
      ["{}", '{"a":1,"b":1}', '{"a":1,"c":1}', '{"b":1,"c":1}'],
      ['{"d":1}', '{"a":1,"b":2}'],
    ],
    [
      "unevaluatedItems",
      {
        type: "array",
        prefixItems: [{ type: "null" }],
        contains: { type: "string" },
        unevaluatedItems: { type: "integer" },
      },
      ['[null,"a",1]', '["a"]'.replace('"a"', 'null,"x"')],
      ["[null,1]", '[null,"a",true]'],
    ],
  ])("%s", (_, schema, yes, no) => judge(schema, yes, no));

  test("two hundred alternatives with a discriminator take no more than they must", () => {
    const oneOf = Array.from({ length: 200 }, (_, i) => kind(`the kind of number ${i}`, "integer"));
    judge(
      { oneOf },
      ['{"kind":"the kind of number 199","value":3}'],
      ['{"kind":"the kind of number 200","value":3}'],
    );
  });
});

describe("references", () => {
  test("recursion, below and across", () => {
    const tree = {
      $defs: {
        node: {
          type: "object",
          properties: {
            left: { $ref: "#/$defs/node" },
            list: { type: "array", items: { $ref: "#" } },
          },
          additionalProperties: false,
        },
      },
      $ref: "#/$defs/node",
    };
    judge(
      tree,
      ["{}", '{"left":{"left":{"list":[{},{"left":{}}]}}}'],
      ['{"left":1}', '{"list":[1]}'],
    );
    const deep = `${'{"left":'.repeat(500)}{}${"}".repeat(500)}`;
    judge(tree, [deep], [deep.slice(1)]);
  });

  test.each<[string, object, string[], string[]]>([
    [
      "pointers with escapes",
      { $defs: { 'a/b~c%d"': { type: "null" } }, $ref: "#/$defs/a~1b~0c%25d%22" },
      ["null"],
      ["1"],
    ],
    [
      "anchors",
      { $defs: { x: { $anchor: "here", type: "null" } }, $ref: "#here" },
      ["null"],
      ["1"],
    ],
    [
      "identifiers",
      {
        $id: "http://example.com/root.json",
        $defs: { x: { $id: "sub/x.json", type: "null" } },
        $ref: "sub/x.json",
      },
      ["null"],
      ["1"],
    ],
    [
      "siblings",
      { $defs: { x: { type: "integer" } }, $ref: "#/$defs/x", minimum: 3 },
      ["3"],
      ["2", "3.5"],
    ],
    [
      "places in lists",
      {
        $ref: "#/$defs/x/anyOf/1",
        $defs: { x: { anyOf: [{ type: "null" }, { type: "boolean" }] } },
      },
      ["true"],
      ["null"],
    ],
    [
      "one dynamic anchor",
      {
        $defs: { x: { $dynamicAnchor: "t", type: "array", items: { $dynamicRef: "#t" } } },
        $ref: "#/$defs/x",
      },
      ["[[],[[]]]"],
      ["[1]"],
    ],
    [
      "older drafts ignore what stands beside",
      {
        $schema: "http://json-schema.org/draft-07/schema#",
        definitions: { x: { type: "integer" } },
        properties: { a: { $ref: "#/definitions/x", minimum: 3 } },
        required: ["a"],
        type: "object",
      },
      ['{"a":1}'],
      ['{"a":1.5}', '{"a":""}'],
    ],
  ])("%s", (_, schema, yes, no) => judge(schema, yes, no));
});

describe("dialects", () => {
  test("draft 4: ids, exclusive bounds as booleans, lists of items", () => {
    const schema = {
      $schema: "http://json-schema.org/draft-04/schema#",
      id: "http://example.com/a.json",
      definitions: {
        n: { id: "#n", type: "integer", minimum: 1, exclusiveMinimum: true, maximum: 3 },
      },
      type: "array",
      items: [{ $ref: "#n" }],
      additionalItems: { type: "null" },
    };
    judge(schema, ["[2]", "[3,null]", "[]"], ["[1]", "[2,2]", "[4]"]);
  });

  test("draft 7: lists of items, dependencies, conditions; also by option", () => {
    const schema = { type: "array", items: [{ type: "integer" }], additionalItems: false };
    judge(schema, ["[1]"], ["[1,2]", "[true]"], { dialect: "draft-07" });
    expect(refusal(schema).message).toContain('"items"');
  });

  test("a keyword of another dialect is refused", () => {
    const old = { $schema: "http://json-schema.org/draft-04/schema#", const: 1 };
    expect(refusal(old).message).toBe(
      'Cannot enforce "const": draft-04 does not have it (at /const)',
    );
    expect(refusal({ $schema: "https://example.com/own" }).path).toBe("/$schema");
  });
});

describe("refusals name the keyword and its place", () => {
  const inside = (schema: object) => ({ type: "object", properties: { "a/b": schema } });

  test.each<[object, string]>([
    [{ nullable: true }, "nullable"],
    [{ type: "strnig" }, "type"],
    [{ type: "string", format: "colour" }, "format"],
    [{ type: "integer", format: "int32" }, "format"],
    [{ type: "string", format: "idn-hostname" }, "format"],
    [{ type: "string", format: "regex" }, "format"],
    [{ type: "string", pattern: "(?=a)b" }, "pattern"],
    [{ type: "string", pattern: "a(" }, "pattern"],
    [{ type: "string", minLength: -1 }, "minLength"],
    [{ required: "a" }, "required"],
    [{ $ref: "http://example.com/other.json" }, "$ref"],
    [{ $ref: "http://json-schema.org/draft-07/schema#" }, "$ref"],
    [{ $ref: "#/$defs/missing" }, "$ref"],
    [{ $ref: "#/%zz" }, "$ref"],
    [{ type: "array", uniqueItems: true }, "uniqueItems"],
    [{ type: "array", not: { uniqueItems: true } }, "not/uniqueItems"],
    [{ type: "object", minProperties: 2 }, "minProperties"],
    [{ type: "number", multipleOf: 0.123456789 }, "multipleOf"],
    [
      { not: { type: "object", properties: {}, unevaluatedProperties: false } },
      "not/unevaluatedProperties",
    ],
  ])("%j", (schema, keyword) => {
    const error = refusal(inside(schema));
    expect(error.path).toBe(`/properties/a~1b/${keyword}`);
    expect(error.message).toContain(keyword.split("/").at(-1)!);
  });

  test("annotations are no constraints", () => {
    const notes = {
      title: "t",
      description: "d",
      default: 3,
      examples: [1],
      $comment: "c",
      deprecated: true,
      readOnly: true,
      writeOnly: false,
      contentMediaType: "m",
      contentEncoding: "e",
      "x-order": 1,
    };
    judge({ ...notes, type: "null" }, ["null"], ["1"]);
  });

  test.each<[string, unknown]>([
    ["false", false],
    ["contradicting bounds", { type: "integer", minimum: 3, maximum: 2 }],
    [
      "a required member that cannot be",
      { type: "object", properties: { a: false }, required: ["a"] },
    ],
    ["a required member outside", { type: "object", required: ["a"], additionalProperties: false }],
    ["no value of the type", { type: "string", enum: [1, 2] }],
    [
      "values that never end",
      { type: "object", properties: { a: { $ref: "#" } }, required: ["a"] },
    ],
  ])("a schema that nothing fits: %s", (_, schema) => {
    expect(refusal(schema).message).toMatch(/no value fits it|no text satisfies/);
  });

  test.each<[string, unknown]>([
    ["text", "{"],
    ["more text", '{"type": "null"} x'],
    ["a key twice", '{"type": "null", "type": "string"}'],
    ["a list", "[]"],
    ["nothing", undefined],
  ])("what is no schema: %s", (_, schema) => {
    expect(refusal(schema).message).toContain("Cannot read the schema");
  });
});

describe("limits end in a GrammarError, soon", () => {
  const nest = (depth: number) => {
    let schema: object = { type: "null" };
    for (let i = 0; i < depth; i++) schema = { properties: { a: schema } };
    return schema;
  };
  const deepText = `${'{"properties":{"a":'.repeat(100_000)}{}${"}}".repeat(100_000)}`;
  const letters = Array.from({ length: 26 }, (_, i) => String.fromCharCode(97 + i));
  const chain = (length: number) => ({
    $defs: Object.fromEntries(
      Array.from({ length }, (_, i) => [i, { allOf: [{ $ref: `#/$defs/${(i + 1) % length}` }] }]),
    ),
    $ref: "#/$defs/0",
  });

  test.each<[string, () => unknown]>([
    ["levels", () => nest(100_000)],
    ["levels of text", () => deepText],
    ["brackets", () => "[".repeat(1_000_000)],
    ["values", () => ({ enum: Array.from({ length: 300_000 }, (_, i) => i) })],
    ["a schema that is itself", () => ({ $ref: "#" })],
    ["a circle", () => chain(3)],
    ["a long chain", () => chain(5_000)],
    ["a circle of other places", () => ({ anyOf: [{ type: "null" }, { not: { $ref: "#" } }] })],
    [
      "cases",
      () => ({
        type: "object",
        allOf: letters.map((a) => ({ anyOf: [{ required: [a] }, { required: [`${a}${a}`] }] })),
      }),
    ],
    [
      "cases of strings",
      () => ({
        type: "string",
        allOf: letters.map((a) => ({ anyOf: letters.map((b) => ({ pattern: `${a}.*${b}` })) })),
      }),
    ],
    [
      "cases of numbers",
      () => ({
        type: "integer",
        allOf: letters.map((_, i) => ({
          anyOf: letters.map((_, j) => ({ multipleOf: 97 * i + j + 1 })),
        })),
      }),
    ],
    ["states of a pattern", () => ({ type: "string", not: { pattern: "a.{40}$" } })],
    ["subsets", () => ({ type: "array", items: { enum: letters }, uniqueItems: true })],
    [
      "counts",
      () => ({ type: "array", contains: { const: 1 }, minContains: 50_000, maxItems: 60_000 }),
    ],
    [
      "patterns of keys",
      () => ({
        type: "object",
        patternProperties: Object.fromEntries(letters.map((a) => [a, { const: a }])),
      }),
    ],
  ])("%s", (_, make) => {
    const begin = performance.now();
    expect(refusal(make())).toBeInstanceOf(GrammarError);
    expect(performance.now() - begin).toBeLessThan(30_000);
  });

  test("what is within the limits works", () => {
    judge(nest(90), ["{}", '{"a":{"a":{}}}'], []);
    judge(
      { enum: Array.from({ length: 2_000 }, (_, i) => `value ${i}`) },
      ['"value 1999"'],
      ['"value 2000"'],
    );
  });
});
