import { describe, expect, test } from "vitest";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { judge, refusal } from "../samples/schema_judge.ts";

describe("refusals name the keyword and its place", () => {
  const inside = (schema: object) => ({ type: "object", properties: { "a/b": schema } });

  test.each<[object, string]>([
    [{ type: "strnig" }, "type"],
    [{ type: "string", pattern: "(a)\\1" }, "pattern"],
    [{ type: "string", pattern: "a(" }, "pattern"],
    [{ type: "string", minLength: -1 }, "minLength"],
    [{ required: "a" }, "required"],
    [{ $ref: "http://example.com/other.json" }, "$ref"],
    [{ $ref: "#/$defs/missing" }, "$ref"],
    [{ $ref: "#/%zz" }, "$ref"],
    [{ type: "array", items: { const: {} }, uniqueItems: true, minItems: 2 }, "uniqueItems"],
    [{ type: "object", propertyNames: { pattern: "^[ab]$" }, minProperties: 3 }, "minProperties"],
    [{ type: "number", multipleOf: 0.123456789 }, "multipleOf"],
  ])("%j", (schema, keyword) => {
    const error = refusal(inside(schema));
    expect(error.path).toBe(`/properties/a~1b/${keyword}`);
    expect(error.message).toContain(keyword.split("/").at(-1)!);
  });

  test.each<[object, string]>([
    [{ nullable: true }, "nullable"],
    [{ type: "string", format: "colour" }, "format"],
  ])("%j, where the unknown is refused", (schema, keyword) => {
    const error = refusal(inside(schema), { unknown: "refuse" });
    expect(error.path).toBe(`/properties/a~1b/${keyword}`);
    expect(error.message).toContain(keyword);
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
