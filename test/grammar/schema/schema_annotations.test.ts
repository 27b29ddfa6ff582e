/** Keywords and formats that say nothing of values, and what is told of them. */
import { describe, expect, test } from "vitest";
import { compileGrammar } from "../../../src/grammar/library.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { randomSource } from "../samples/random_grammar.ts";
import { judge, refusal } from "../samples/schema_judge.ts";

function warningsOf(schema: unknown): readonly string[] {
  return jsonSchemaGrammar(schema).warnings ?? [];
}

describe("a reference to nothing but a slash", () => {
  const properties = { a: { $ref: "#/" }, b: { items: { $ref: "#/" } } };
  const schema = { type: "object", properties, additionalProperties: false };

  test("means the whole, which is told", () => {
    judge(schema, ['{"a":{"b":[{}]}}', "{}"], ['{"a":1}', '{"b":[1]}', '{"c":1}']);
    const [warning, ...others] = warningsOf(schema);
    expect(warning).toContain('Ignored the "/" of a reference to "#/"');
    expect(warning).toContain("and 1 more");
    expect(others).toEqual([]);
    expect(() => jsonSchemaGrammar(schema, { unknown: "refuse" })).toThrow("no such part");
  });

  test("means the part whose name is empty where there is one", () => {
    judge({ ...schema, "": { type: "string" } }, ['{"a":"x"}'], ['{"a":{}}']);
  });
});

describe("unknown keywords", () => {
  test("do not constrain, wherever a schema stands", () => {
    const schema = {
      version: "1.0",
      self: { vendor: "org" },
      links: [{ rel: "self", href: "{id}" }],
      type: "object",
      properties: {
        readonly: { type: "boolean", readonly: true, javaType: "java.lang.Boolean" },
        tags: { type: "array", items: { type: "string", _format: "tag", enumNames: ["A"] } },
      },
      required: ["readonly"],
      additionalProperties: false,
    };
    judge(
      schema,
      ['{"readonly":true}', '{"readonly":false,"tags":["a"]}'],
      ['{"readonly":1}', '{"tags":[]}', '{"readonly":true,"links":[]}'],
    );
    expect(warningsOf(schema)).toEqual([
      'Ignored "version": it is no keyword of JSON Schema (at /version)',
      'Ignored "self": it is no keyword of JSON Schema (at /self)',
      'Ignored "links": it is no keyword of JSON Schema (at /links)',
      expect.stringMatching(/^Ignored "(_format|enumNames|readonly|javaType)"/),
      expect.stringMatching(/^Ignored "(_format|enumNames|readonly|javaType)"/),
      expect.stringMatching(/^Ignored "(_format|enumNames|readonly|javaType)"/),
      expect.stringMatching(/^Ignored "(_format|enumNames|readonly|javaType)"/),
    ]);
  });

  test.each([
    ["propertes", "properties"],
    ["Properties", "properties"],
    ["additionalProperty", undefined],
    ["additionalPropertys", undefined],
    ["additonalProperties", "additionalProperties"],
    ["min_length", "minLength"],
    ["any_of", "anyOf"],
    ["readonly", "readOnly"],
    ["reqiured", "required"],
    ["typ", "type"],
    ["types", "type"],
    ["tpye", "type"],
    ["iff", undefined],
    ["cost", "const"],
    ["javaType", undefined],
  ])("%s: the warning hints at %s", (written, meant) => {
    const [warning, ...others] = warningsOf({ [written]: {} });
    expect(others).toEqual([]);
    const hint = meant === undefined ? "" : `; did you mean "${meant}"?`;
    expect(warning).toBe(
      `Ignored "${written}": it is no keyword of JSON Schema${hint} (at /${written})`,
    );
  });

  test("OpenAPI's nullable is told how JSON Schema says it", () => {
    judge({ type: "string", nullable: true }, ['"a"'], ["null"]);
    expect(warningsOf({ type: "string", nullable: true })[0]).toContain('list "null" in "type"');
  });

  test("extensions and annotations draw no warning", () => {
    const notes = {
      "x-a": 1,
      discriminator: {},
      xml: {},
      externalDocs: {},
      example: 1,
      title: "t",
    };
    expect(warningsOf({ ...notes, type: "null" })).toEqual([]);
  });

  test("one warning tells of all places, and many are counted", () => {
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, { markdown: "x" }]));
    expect(warningsOf({ properties: many(300) })).toHaveLength(1);
    expect(warningsOf({ properties: many(300) })[0]).toMatch(
      /^Ignored "markdown": .* \(at \/properties\/p\d+\/markdown and 299 more\)$/,
    );
    const names = Array.from({ length: 1000 }, (_, i) => [`note ${i} ${"y".repeat(5000)}`, 1]);
    const told = warningsOf(Object.fromEntries(names));
    expect(told).toHaveLength(51);
    expect(told.at(-1)).toBe("Ignored 950 more");
    expect(told.join("").length).toBeLessThan(20_000);
  });

  test("a reference into one is followed", () => {
    const schema = {
      components: { schemas: { Id: { type: "integer" } } },
      $ref: "#/components/schemas/Id",
    };
    judge(schema, ["1"], ['"a"']);
  });

  test("numbers keep their spelling beside one", () => {
    judge('{"const": 1.50, "note": 1}', ["1.50"], ["1.5"]);
    judge('{"enum": [1.50, 2], "note": 1}', ["1.50", "2"], ["1.5"]);
  });

  test("what only the place of a constraint makes one stays refused", () => {
    expect(refusal({ minimum: "3" }).path).toBe("/minimum");
    expect(refusal({ properties: { a: 3 } }).path).toBe("/properties");
  });
});

describe("formats of OpenAPI's registry", () => {
  test.each<[string, readonly string[], readonly string[]]>([
    ["int8", ["-128", "127", '"a"'], ["-129", "128", "1.5"]],
    ["int32", ["-2147483648", "2147483647", "0"], ["-2147483649", "2147483648", "0.5"]],
    ["int64", ["-9223372036854775808", "9223372036854775807"], ["9223372036854775808"]],
    ["uint8", ["0", "255"], ["-1", "256"]],
    ["uint32", ["0", "4294967295"], ["-1", "4294967296"]],
    ["uint64", ["18446744073709551615"], ["-1", "18446744073709551616"]],
    ["double-int", ["9007199254740991"], ["9007199254740992"]],
    ["float", ["1.5", "-1e30", '"a"'], []],
    ["double", ["1.5", "1e300"], []],
    ["password", ['"a b"'], []],
    ["binary", ['"\\u0000"'], []],
    ["byte", ['""', '"QUI="', '"QUJD"', '"QQ=="', '"+/+/"', "1"], ['"QUI"', '"Q==="', '"-_=="']],
    ["base64url", ['""', '"QUI="', '"QUI"', '"-_-_"'], ['"+/+/"', '"Q"']],
    ["char", ['"a"', '"é"', '"😀"', '"\\n"'], ['""', '"ab"']],
    ["date-time-local", ['"2024-02-29T10:00:00.5"'], ['"2024-02-29T10:00:00Z"']],
    ["time-local", ['"10:00:00"'], ['"10:00:00Z"', '"24:00:00"']],
  ])("%s", (format, yes, no) => {
    judge({ format }, yes, no);
    expect(warningsOf({ format })).toEqual([]);
  });

  test("the opposite of a range is all other numbers", () => {
    const schema = { type: "number", not: { format: "uint8" } };
    judge(schema, ["-1", "256", "1.5"], ["0", "255", "17"]);
  });

  test("an unknown format says nothing, and is told of", () => {
    judge({ type: "string", format: "colour" }, ['"a"'], ["1"]);
    expect(warningsOf({ format: "colour" })).toEqual([
      'Ignored the format "colour": it is not known (at /format)',
    ]);
  });
});

describe("bounds that standards have", () => {
  const address = (local: number, label: number) =>
    `"${"a".repeat(local)}@${"b".repeat(label)}.de"`;

  test("an email has at most 64 characters before the @ and 63 in a label", () => {
    const quoted = (length: number) => `"\\"${"a".repeat(length - 2)}\\"@b.de"`;
    judge(
      { format: "email" },
      [address(64, 63), address(1, 1), quoted(64), `"${"a.".repeat(31)}a@b.de"`],
      [address(65, 1), address(1, 64), quoted(65), `"${"a.".repeat(32)}a@b.de"`],
    );
  });

  test("an email alone is what it is within other bounds", () => {
    const format = "email";
    const alone = compileGrammar({ jsonSchema: { type: "string", format } });
    const bounded = compileGrammar({ jsonSchema: { type: "string", format, maxLength: 400 } });
    const random = randomSource(5);
    const parts = [
      "a",
      "Z9",
      "-",
      ".",
      "@",
      '\\"',
      "\\\\",
      " ",
      "[1.2.3.4]",
      "[IPv6:::1]",
      "b.de",
      "é",
    ];
    let taken = 0;
    for (let i = 0; i < 400; i++) {
      const some = Array.from({ length: 1 + random.below(4) }, () => parts[random.below(12)]!);
      const text = `"${some.join("")}${random.below(2) === 0 ? "@b.de" : ""}"`;
      expect(alone.accepts(text), text).toBe(bounded.accepts(text));
      if (alone.accepts(text)) taken += 1;
    }
    expect(taken).toBeGreaterThan(15);
  });

  test("a whole number of draft-04 has neither exponent nor point", () => {
    const $schema = "http://json-schema.org/draft-04/schema#";
    judge({ $schema, type: "integer" }, ["3", "-40"], ["3E150", "3e22", "1.0", "1.5"]);
    judge({ $schema, type: "integer", minimum: 1 }, ["3"], ["3E150", "0"]);
    judge(
      `{"$schema": "${$schema}", "type": "integer", "enum": [1.0, 2, 3e0]}`,
      ["2"],
      ["1.0", "3e0"],
    );
    judge({ type: "integer" }, ["3", "3e150"], ["1.5"]);
  });
});
