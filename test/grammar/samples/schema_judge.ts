/**
 * Expectations about a schema: texts that it must allow and forbid, and how it is refused.
 *
 * @module
 */
import { expect } from "vitest";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import {
  type JsonSchemaOptions,
  jsonSchemaGrammar,
} from "../../../src/grammar/schema/json_schema.ts";
import { acceptorOfSchema } from "./schema_acceptance.ts";

/** Texts that a schema's grammar must accept, and others that it must not. */
export function judge(
  schema: unknown,
  yes: readonly string[],
  no: readonly string[],
  options: JsonSchemaOptions = {},
): void {
  const accept = acceptorOfSchema(
    typeof schema === "string" ? schema : JSON.stringify(schema),
    options,
  );
  for (const text of yes) expect(accept(text), text).toBe(true);
  for (const text of no) expect(accept(text), text).toBe(false);
}

/** The error of a schema that cannot be enforced. */
export function refusal(schema: unknown, options: JsonSchemaOptions = {}): GrammarError {
  try {
    compileAutomaton(jsonSchemaGrammar(schema, options));
  } catch (error) {
    if (error instanceof GrammarError) return error;
    throw error;
  }
  throw new Error("the schema was not refused");
}
