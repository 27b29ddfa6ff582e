/**
 * Schemas as people write them: every value that fits is accepted, every other one is not, and a
 * schema that is refused counts as wrong.
 */
import Ajv from "ajv";
import Ajv2020 from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, test } from "vitest";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { seededRandom, TextSampler } from "../samples/sample_text.ts";
import { acceptorOf, acceptorOfSchema } from "../samples/schema_acceptance.ts";
import { ALL_COLLECTIONS } from "./all_collections.ts";
import type { CollectedSchema } from "./collection.ts";

/** Texts that are drawn from each grammar. */
const DRAWN = 10;

/** The same value with the members of its objects the other way round. */
function turned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turned);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).reverse();
  return Object.fromEntries(members.map(([key, part]) => [key, turned(part)]));
}

/** What says which values fit: another implementation. */
function validatorOf(
  { $schema, id: _, ...schema }: CollectedSchema["schema"],
  more: { readonly validateFormats?: boolean } = {},
) {
  const isOld = typeof $schema === "string" && $schema.includes("draft-0");
  const options = { strict: false, logger: false, ...more } as const;
  const ajv = isOld ? new Ajv(options) : new Ajv2020(options);
  (addFormats as unknown as (ajv: Ajv | Ajv2020) => void)(ajv);
  ajv.addFormat("uint8", {
    type: "number",
    validate: (value: number) => Number.isInteger(value) && value >= 0 && value < 256,
  });
  return ajv.compile(schema);
}

describe.each(ALL_COLLECTIONS)("$name", ({ name, schema, valid, invalid }) => {
  test("every value that fits is accepted, and no other one", () => {
    const fits = validatorOf(schema);
    const accept = acceptorOfSchema(JSON.stringify(schema));
    const values = [...valid, ...invalid].flatMap((value) => [value, turned(value)]);
    const judged = values.map((value) => ({
      text: JSON.stringify(value),
      accepted: accept(JSON.stringify(value)),
    }));
    const expected = values.map((value) => ({
      text: JSON.stringify(value),
      accepted: fits(value),
    }));
    expect(judged).toEqual(expected);
    expect(expected.map(({ accepted }) => accepted)).toEqual([
      ...valid.flatMap(() => [true, true]),
      ...invalid.flatMap(() => [false, false]),
    ]);
  });

  test("what is drawn from its grammar fits, and the automaton accepts it", () => {
    // Some formats of the validator are narrower than their standards, which have tests of their own.
    const fitsWithFormats = validatorOf(schema);
    const fitsWithout = validatorOf(schema, { validateFormats: false });
    const fits = (value: unknown) => fitsWithFormats(value) || fitsWithout(value);
    const grammar = jsonSchemaGrammar(JSON.stringify(schema));
    const accept = acceptorOf(grammar);
    const sampler = new TextSampler(grammar, seededRandom(name.length));
    for (let i = 0; i < DRAWN; i++) {
      const text = sampler.sample()!;
      if (sampler.mayRepeat && !accept(text)) continue;
      expect([text, accept(text), fits(JSON.parse(text))]).toEqual([text, true, true]);
    }
  });
});
