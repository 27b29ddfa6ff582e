/**
 * What a request's sampling parameters say about the text of its completion.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import type { SamplingParams } from "../generation.ts";
import type { Constraint, ConstraintKind } from "../grammar/grammar.ts";

/** Stands for the schema that every JSON value fits. */
const ANY_JSON = "$$ANY$$";

/**
 * @returns `undefined` when any text will do.
 * @throws {InvalidRequestError} when more than one constraint is given, or one of another type.
 */
export function constraintOf(params: SamplingParams): Constraint | undefined {
  const { jsonSchema, regex, ebnf } = params;
  const given = Object.entries({ jsonSchema, regex, ebnf }).filter(
    ([, value]) => value !== undefined && value !== "",
  );
  const [first] = given;
  if (first === undefined) return undefined;
  if (given.length > 1) {
    const names = given.map(([name]) => name).join(" and ");
    throw new InvalidRequestError(
      `Only one of regex, jsonSchema, or ebnf can be set, got ${names}`,
      given[1]![0],
    );
  }
  const [name, value] = first;
  if (name === "jsonSchema") return { kind: "json_schema", source: schemaText(value) };
  if (typeof value !== "string") {
    throw new InvalidRequestError(`${name} must be a string, got ${typeof value}`, name);
  }
  return { kind: name as ConstraintKind, source: value };
}

function schemaText(schema: unknown): string {
  if (schema === ANY_JSON) return "true";
  if (typeof schema === "string") return schema;
  const isSchema = typeof schema === "boolean" || (typeof schema === "object" && schema !== null);
  if (isSchema && !Array.isArray(schema)) return JSON.stringify(schema);
  throw new InvalidRequestError(
    "jsonSchema must be a schema, as an object, a boolean or JSON text",
    "jsonSchema",
  );
}
