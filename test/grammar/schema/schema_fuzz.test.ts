import { expect, test } from "vitest";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { DIALECTS } from "../../../src/grammar/schema/dialect.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { SchemaSource } from "../samples/random_schema.ts";
import { type Random, seededRandom } from "../samples/sample_text.ts";

const SCHEMAS = process.env.WISP_TEST_FULL === "1" ? 20_000 : 400;

const KEYWORDS = [
  ...["$ref", "$id", "$anchor", "$dynamicRef", "$recursiveRef", "$defs", "$schema", "id", "type"],
  ...["enum", "const", "allOf", "oneOf", "not", "if", "then", "items", "prefixItems", "contains"],
  ...["additionalItems", "minContains", "uniqueItems", "properties", "required", "dependencies"],
  ...["patternProperties", "propertyNames", "minProperties", "multipleOf", "maximum", "format"],
  ...["exclusiveMaximum", "pattern", "maxLength", "unevaluatedItems", "unevaluatedProperties"],
];
const VALUES = [
  ...[
    null,
    true,
    false,
    0,
    -1,
    1.5,
    1e308,
    5e-324,
    "",
    "#",
    "#/$defs/one",
    "#/a/0",
    "::",
    "[",
    "a|b",
  ],
  ...[[], {}, [[]], ["a"], [{}], { a: {} }, { a: ["b"] }, { type: "null" }, [true, false]],
];

/** The schema with values replaced and keywords added wherever chance has it. */
function damage(value: unknown, random: Random): unknown {
  if (random(25) === 0) return VALUES[random(VALUES.length)];
  if (Array.isArray(value)) return value.map((item) => damage(item, random));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, part]) => [key, damage(part, random)]);
  if (random(6) === 0) {
    entries.push([KEYWORDS[random(KEYWORDS.length)], VALUES[random(VALUES.length)]]);
  }
  return Object.fromEntries(entries);
}

test("jsonSchemaGrammar compiles or refuses whatever it is given", () => {
  let [compiled, refused] = [0, 0];
  for (let seed = 0; seed < SCHEMAS; seed++) {
    const random = seededRandom(seed + 7_000_000);
    const schema = damage(new SchemaSource(random).schema(), random);
    const dialect = DIALECTS[random(DIALECTS.length)]!;
    const text = JSON.stringify(schema);
    try {
      compileAutomaton(jsonSchemaGrammar(random(2) === 0 ? text : schema, { dialect }));
      compiled += 1;
    } catch (error) {
      expect(error, `seed ${seed}: ${text} in ${dialect}`).toBeInstanceOf(GrammarError);
      refused += 1;
    }
  }
  expect(compiled).toBeGreaterThan(SCHEMAS / 10);
  expect(refused).toBeGreaterThan(SCHEMAS / 10);
});
