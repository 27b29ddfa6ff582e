/** Draft-03, dialects that are not known, and references to the schemas of dialects. */
import Ajv from "ajv";
import Ajv2019 from "ajv/dist/2019.js";
import Ajv2020 from "ajv/dist/2020.js";
import draft06 from "ajv/dist/refs/json-schema-draft-06.json" with { type: "json" };
import { describe, expect, test } from "vitest";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { metaSchemaFor } from "../../../src/grammar/schema/meta_schemas.ts";
import { acceptorOfSchema } from "../samples/schema_acceptance.ts";
import { judge, refusal } from "../samples/schema_judge.ts";

describe("draft-03", () => {
  const $schema = "http://json-schema.org/draft-03/schema#";

  test.each<[object, string[], string[]]>([
    [
      { type: "object", properties: { a: { type: "string", required: true }, b: {} } },
      ['{"a":"x"}', '{"b":1,"a":""}'],
      ["{}", '{"a":1}', '{"b":1}'],
    ],
    [{ type: "integer", divisibleBy: 3 }, ["3", "-6"], ["4"]],
    [
      { extends: { properties: { a: { type: "integer", required: true } } } },
      ['{"a":1}', "1"],
      ["{}", '{"a":""}'],
    ],
    [{ extends: [{ minimum: 2 }, { maximum: 3 }] }, ["2", "3"], ["1", "4"]],
    [{ disallow: ["string", { type: "integer", minimum: 5 }] }, ["1", "null", "5.5"], ['"a"', "6"]],
    [{ disallow: "number" }, ['"a"'], ["1", "1.5"]],
    [
      { type: ["string", { type: "object", properties: { a: { required: true } } }] },
      ['"a"', '{"a":1}'],
      ["1", "{}"],
    ],
    [{ type: "any" }, ["1", "{}"], []],
    [{ type: ["any", "string"], minLength: 2 }, ["1", '"ab"'], ['"a"']],
    [{ dependencies: { a: "b", c: { minimum: 1 } } }, ['{"a":1,"b":1}', '{"c":1}'], ['{"a":1}']],
    [{ type: "string", format: "ip-address" }, ['"1.2.3.4"'], ['"1.2.3"']],
    [{ type: "string", format: "host-name" }, ['"a.b"'], ['"a..b"']],
    [{ type: "number", minimum: 0, exclusiveMinimum: true }, ["0.5"], ["0"]],
    [{ properties: { a: { $ref: "#" } }, type: "object" }, ['{"a":{"a":{}}}'], ['{"a":1}']],
  ])("%j", (schema, yes, no) => judge({ $schema, ...schema }, yes, no));

  test("keywords that came later say nothing", () => {
    const schema = { $schema, allOf: [{ type: "string" }], multipleOf: 2, const: 1 };
    judge(schema, ["1", '"a"'], []);
    expect(jsonSchemaGrammar(schema).warnings).toEqual([
      'Ignored "allOf": draft-03 does not have it (at /allOf)',
      'Ignored "multipleOf": draft-03 does not have it (at /multipleOf)',
      'Ignored "const": draft-03 does not have it (at /const)',
    ]);
  });

  test("members of a schema without dialect may say that they are required", () => {
    const schema = {
      type: "object",
      required: ["b"],
      properties: { a: { type: "string", required: true }, b: { required: false } },
    };
    judge(schema, ['{"a":"","b":1}'], ['{"a":""}', '{"b":1}']);
    const declared = { $schema: "http://json-schema.org/draft-07/schema#", ...schema };
    expect(refusal(declared).message).toContain('"required"');
  });
});

describe("$schema", () => {
  test.each([
    "http://json-schema.org/schema#",
    "http://iglucentral.com/schemas/com.snowplowanalytics.self-desc/schema/jsonschema/1-0-0#",
    "",
  ])('"%s" is no known dialect, which the warning tells', ($schema) => {
    const schema = { $schema, type: "integer", minimum: 0, exclusiveMinimum: true };
    judge(schema, ["1"], ["0", '"a"']);
    expect(jsonSchemaGrammar(schema).warnings).toEqual([
      `Ignored the dialect "${$schema}": it is not known (at /$schema)`,
    ]);
    expect(refusal(schema, { unknown: "refuse" }).path).toBe("/$schema");
  });

  test("that of hyper-schemas is the dialect of schemas", () => {
    const $schema = "http://json-schema.org/draft-04/hyper-schema#";
    judge({ $schema, const: 1, type: "integer" }, ["2"], ['"a"']);
  });
});

describe("references to the schema of a dialect", () => {
  const DRAFTS = ["draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12"];

  test.each(DRAFTS)("%s", (draft) => {
    const uri = `http://json-schema.org/${draft}/schema#`;
    const isOldest = draft === "draft-04";
    judge(
      { type: "object", required: ["s"], properties: { s: { $ref: uri } } },
      [
        '{"s":{}}',
        '{"s":{"type":"string"}}',
        '{"s":{"type":["string","null"],"minLength":2}}',
        '{"s":{"properties":{"a":{"items":{"enum":[1]}}},"required":["a"]}}',
        '{"s":{"patternProperties":{"^a+$":{"not":{}}},"x":1}}',
        ...(isOldest ? ['{"s":{"maximum":1,"exclusiveMaximum":true}}'] : ['{"s":true}']),
      ],
      [
        "{}",
        '{"s":1}',
        '{"s":{"type":1}}',
        '{"s":{"type":"text"}}',
        '{"s":{"minLength":-1}}',
        '{"s":{"properties":{"a":{"items":{"type":1}}}}}',
        '{"s":{"allOf":[]}}',
        '{"s":{"pattern":"("}}',
        ...(isOldest
          ? ['{"s":true}', '{"s":{"exclusiveMaximum":true}}', '{"s":{"required":[]}}']
          : ['{"s":{"exclusiveMaximum":true}}']),
      ],
    );
    judge({ $ref: `${uri}/definitions/stringArray` }, ['["a","b"]'], ['["a","a"]', "[1]"]);
  });

  test("a document that has the name of one is meant itself", () => {
    const $id = "http://json-schema.org/draft-07/schema#";
    judge({ $id, properties: { a: { $ref: $id }, b: false } }, ['{"a":{}}'], ['{"a":{"b":1}}']);
  });

  const values = [
    ...[null, true, 1, -1, 1.5, "a", "#", "a b", [], ["a"], ["string"], ["a", "a"], [1], [{}]],
    ...[[1, 1], [true], {}, { a: {} }, { a: 1 }, { a: ["b"] }, { a: true }],
  ];
  /**
   * This validator looks at no format of schemas, its enumerations must not be empty, and its draft-07
   * is an edition without "writeOnly".
   */
  const isJudgedAlike = (keyword: string, value: unknown) =>
    !/^(\$id|\$schema|\$ref|\$dynamicRef|\$recursiveRef|\$vocabulary|writeOnly)$/.test(keyword) &&
    !(keyword === "enum" && Array.isArray(value));

  test.each([
    ["draft-06", new Ajv().addMetaSchema(draft06)],
    ["draft-07", new Ajv()],
    ["draft/2019-09", new Ajv2019()],
    ["draft/2020-12", new Ajv2020()],
  ] as const)("%s says of each keyword what another implementation's says", (draft, ajv) => {
    const $schema = `${draft.startsWith("draft/") ? "https" : "http"}://json-schema.org/${draft}/schema`;
    const { properties } = metaSchemaFor($schema) as { readonly properties: object };
    const accept = acceptorOfSchema({ $ref: $schema });
    const fits = ajv.getSchema($schema)!;
    for (const keyword of Object.keys(properties)) {
      for (const value of values.filter((one) => isJudgedAlike(keyword, one))) {
        const text = JSON.stringify({ [keyword]: value });
        expect([text, accept(text)]).toEqual([text, fits(JSON.parse(text))]);
      }
    }
  });
});
