import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, test } from "vitest";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import type { Grammar } from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { SchemaSource } from "../samples/random_schema.ts";
import { seededRandom, TextSampler } from "../samples/sample_text.ts";
import { acceptorOf } from "../samples/schema_acceptance.ts";

const FULL = process.env.WISP_TEST_FULL === "1";
const SCHEMAS = FULL ? 4_000 : 120;
const TEXTS = 8;
const VALUES = 8;
const BATCHES = 4;

function validator(schema: object): ValidateFunction {
  // Without a precision, ajv takes no number from 1e21 on for a multiple of anything.
  const ajv = new Ajv2020({ strict: false, multipleOfPrecision: 9 });
  (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
  return ajv.compile(schema);
}

function grammarOf(schema: object): Grammar | undefined {
  try {
    const grammar = jsonSchemaGrammar(JSON.stringify(schema));
    compileAutomaton(grammar);
    return grammar;
  } catch (error) {
    if (error instanceof GrammarError) return undefined;
    throw error;
  }
}

describe("random schemas, judged by ajv", () => {
  test.each(Array.from({ length: BATCHES }, (_, i) => i))(
    "jsonSchemaGrammar, batch %i",
    (batch) => {
      let [compiled, valid, invalid] = [0, 0, 0];
      for (let i = 0; i < SCHEMAS / BATCHES; i++) {
        const seed = batch * 100_000 + i;
        const random = seededRandom(seed);
        const source = new SchemaSource(random);
        const schema = source.schema() as object;
        const grammar = grammarOf(schema);
        if (grammar === undefined) continue;
        compiled += 1;
        const shown = (value: unknown) =>
          `seed ${seed}: ${JSON.stringify(value)} in ${JSON.stringify(schema)}`;
        const fits = validator(schema);
        const accept = acceptorOf(grammar);
        const sampler = new TextSampler(grammar, random);
        const values: unknown[] = [];
        for (let j = 0; j < TEXTS; j++) {
          const text = sampler.sample()!;
          const value = JSON.parse(text) as unknown;
          const isFitting = fits(value);
          expect(accept(text), shown(text)).toBe(isFitting);
          if (!sampler.mayRepeat) expect(isFitting, shown(text)).toBe(true);
          // Numbers beyond doubles are read as infinite, which JSON has no text for.
          values.push(JSON.parse(JSON.stringify(value)));
        }
        for (let j = 0; j < VALUES; j++) {
          const value = j % 2 === 0 ? source.value() : source.mutate(values[j]);
          const expected = fits(value);
          expect(accept.inSomeOrder(value), shown(value)).toBe(expected);
          if (expected) valid += 1;
          else invalid += 1;
        }
      }
      expect(compiled).toBeGreaterThan(SCHEMAS / BATCHES / 2);
      expect(valid).toBeGreaterThan(compiled / 2);
      expect(invalid).toBeGreaterThan(compiled);
    },
  );
});
