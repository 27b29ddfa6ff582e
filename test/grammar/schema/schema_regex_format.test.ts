/** The format `regex`: what is offered is a pattern of ECMAScript, and patterns that people write are. */
import { describe, expect, test } from "vitest";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { seededRandom, TextSampler } from "../samples/sample_text.ts";
import { acceptorOfSchema } from "../samples/schema_acceptance.ts";
import { judge, refusal } from "../samples/schema_judge.ts";

const schema = { type: "string", format: "regex" };
/** Texts that are drawn of each grammar. */
const DRAWN = process.env.WISP_TEST_FULL === "1" ? 3000 : 100;

const isPattern = (source: string): boolean => {
  try {
    return new RegExp(source, "u") !== undefined;
  } catch {
    return false;
  }
};

const PATTERNS = [
  ...["", "^[a-z0-9]+(?:-[a-z0-9]+)*$", "^v?(?<version>\\d+\\.\\d+)$", "a|b|", "x{2}y{2,}z{2,5}?"],
  ...["^(?=.*\\d)(?!.*--)[\\w.-]{1,64}$", "(?<=\\$)\\d+(?<!0)\\b", "[^\\]\\\\]*", "\\p{Lu}\\P{L}+"],
  ...["((((a)b)c)d)+", "[ -~]+", "[à-ÿА-я一-龥]", "\\u{1F600}\\x41\\u0041\\cJ", '"[^"]*"', "[-a]"],
  ...[
    "\\/api\\/v1",
    "[a-]",
    "[\\d-]",
    "^\\[.*\\]$",
    "{",
    "a{,2}",
    "[z-a]",
    "(?<n>a)(?<n>b)",
    "a**",
  ],
  ...["(", ")", "[", "*a", "a{3,2}", "\\", "\\a", "\\_", "(?=a)*", "[\\d-z]", "(?<>a)", "x{4,30}"],
];

describe("regex", () => {
  test("a pattern of at least one character is not empty", () => {
    const accept = acceptorOfSchema({ ...schema, minLength: 1 });
    expect([accept('""'), accept('"a"')]).toEqual([false, true]);
  });

  test("patterns that people write are offered, and nothing that is none", () => {
    const accept = acceptorOfSchema(schema);
    for (const pattern of PATTERNS) {
      expect([pattern, accept(JSON.stringify(pattern))]).toEqual([pattern, isPattern(pattern)]);
    }
  });

  test.each([{}, { maxLength: 9 }, { pattern: "^[^a]" }])(
    "with %j, drawn texts are patterns",
    (more) => {
      const sampler = new TextSampler(jsonSchemaGrammar({ ...schema, ...more }), seededRandom(7));
      for (let i = 0; i < DRAWN; i++) {
        const value = JSON.parse(sampler.sample()!);
        expect([value, isPattern(value)]).toEqual([value, true]);
      }
    },
  );

  test("listed texts are told by what they are", () => {
    judge(
      { ...schema, enum: ["a(", "(a)", "(?<a>x)\\k<a>"] },
      ['"(a)"', '"(?<a>x)\\\\k<a>"'],
      ['"a("'],
    );
  });

  test("keys may be of it", () => {
    const names = { type: "object", propertyNames: { format: "regex" } };
    judge(names, ["{}", '{"a+":1,"((b))":2,"\\\\d":3}'], ['{"(":1}', '{"a+":1,"[":2}']);
    judge(
      { ...names, properties: { "a(b)": { type: "integer" } }, required: ["a(b)"] },
      ['{"a(b)":1}', '{"a(b)":1,"(c)":2}'],
      ['{"a(b)":"x"}', '{"a(b)":1,")":1}'],
    );
    judge({ ...names, required: ["a(b)"], minProperties: 3 }, ['{"a(b)":1,"b":2,"c":3}'], []);
    judge({ not: names }, ["1"], ["{}", '{"(":1}']);
    expect(refusal({ ...names, required: ["("] }).message).toContain("no value fits");
  });
});
