import { describe, expect, test } from "vitest";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { judge, refusal } from "../samples/schema_judge.ts";

describe("a member that must differ from others", () => {
  const codes = "^[1-5](?:[0-9]{2}|XX)$";
  const responses = {
    type: "object",
    properties: { default: { type: "object" } },
    patternProperties: { [codes]: { type: "object" } },
    additionalProperties: false,
    if: { not: { required: ["default"] } },
    // biome-ignore lint/suspicious/noThenProperty: the keyword
    then: { not: { additionalProperties: { required: ["$ref"] } } },
  };

  test("of the 505 keys that the responses of OpenAPI may have", () => {
    judge(
      responses,
      ['{"default":{"$ref":"a"}}', '{"200":{}}', '{"200":{"$ref":"a"},"5XX":{}}'],
      ["{}", '{"200":{"$ref":"a"}}', '{"600":{}}', '{"200":1}'],
    );
  });

  test("of more keys than are named one by one", () => {
    const patternProperties = { "^[0-9]{4}$": { type: "object" } };
    const error = refusal({ ...responses, patternProperties });
    expect(error.message).toContain("some member must differ from others, of 10000 keys");
  });
});

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

describe("schemas as programs write them", () => {
  test("a record class with options, a list, a map and a reference", () => {
    const schema = {
      $defs: {
        Address: {
          properties: {
            street: { title: "Street", type: "string", minLength: 1 },
            country: { $ref: "#/$defs/Country", default: "AT" },
          },
          required: ["street"],
          title: "Address",
          type: "object",
        },
        Country: { enum: ["AT", "DE"], title: "Country", type: "string" },
      },
      properties: {
        id: { format: "uuid", title: "Id", type: "string" },
        nickname: { anyOf: [{ maxLength: 5, type: "string" }, { type: "null" }], default: null },
        addresses: { items: { $ref: "#/$defs/Address" }, maxItems: 2, type: "array" },
        scores: { additionalProperties: { type: "number", minimum: 0 }, type: "object" },
        born: { format: "date", type: "string" },
      },
      required: ["id", "addresses"],
      title: "User",
      type: "object",
      additionalProperties: false,
    };
    const id = '"id": "123e4567-e89b-12d3-a456-426614174000"';
    const address = '{"street": "Ring 1", "country": "AT"}';
    judge(
      schema,
      [
        `{${id}, "addresses": []}`,
        `{\n  ${id},\n  "nickname": null,\n  "addresses": [\n    ${address}\n  ],\n  "scores": {"é": 1.5},\n  "born": "2000-02-29"\n}`,
      ],
      [
        `{${id}}`,
        `{${id}, "nickname": "sixsix", "addresses": []}`,
        `{${id}, "addresses": [{"street": ""}]}`,
        `{${id}, "addresses": [{"street": "a", "country": "FR"}]}`,
        `{${id}, "addresses": [${address},${address},${address}]}`,
        `{${id}, "addresses": [], "scores": {"a": -1}}`,
        `{${id}, "addresses": [], "born": "2001-02-29"}`,
        `{${id}, "addresses": [], "other": 1}`,
      ],
    );
  });
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
    const strict = { unknown: "refuse" } as const;
    expect(refusal(schema, strict).message).toContain('"items"');
    const declared = { $schema: "https://json-schema.org/draft/2020-12/schema", ...schema };
    expect(refusal(declared).message).toContain('"items"');
  });

  test("a schema that does not say its dialect may have the keywords of all", () => {
    const schema = {
      type: "array",
      items: [{ type: "integer", minimum: 1, exclusiveMinimum: true }],
      additionalItems: { type: "object", dependentRequired: { a: ["b"] } },
    };
    const [yes, no] = [
      ["[2]", '[2,{"b":1}]'],
      ["[1]", "[2,3]", '[2,{"a":1}]'],
    ];
    judge(schema, yes, no);
    judge(schema, yes, no, { dialect: "draft-07" });
    judge({ prefixItems: [{ const: 1 }], items: [{ type: "integer" }] }, ["[1]"], ["[2]"]);
  });

  test("a keyword of another dialect says nothing, or is refused", () => {
    const old = { $schema: "http://json-schema.org/draft-04/schema#", const: 1 };
    judge(old, ["1", "2"], []);
    expect(jsonSchemaGrammar(old).warnings).toEqual([
      'Ignored "const": draft-04 does not have it (at /const)',
    ]);
    expect(refusal(old, { unknown: "refuse" }).message).toBe(
      'Cannot enforce "const": draft-04 does not have it (at /const)',
    );
  });
});
