/**
 * What a request's sampling parameters say about the text of its completion.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import type { GenerationRequest, SamplingParams } from "../generation.ts";
import { type GrammarBackend, requireSupported } from "../grammar/backends.ts";
import type { Constraint } from "../grammar/grammar.ts";
import { jsonSource } from "../grammar/json_source.ts";

const KINDS = { regex: "regex", ebnf: "ebnf", structuralTag: "structural_tag" } as const;

/** Stands for the schema that every JSON value fits. */
const ANY_JSON = "$$ANY$$";

/**
 * @returns `undefined` when any text will do.
 * @throws {InvalidRequestError} when more than one constraint is given, or one of another type or
 * that the backend does not support.
 */
export function constraintOf(
  {
    sampling = {},
    constraint,
    thinking,
  }: Pick<GenerationRequest, "sampling" | "constraint" | "thinking">,
  backend: GrammarBackend,
): Constraint | undefined {
  const given = givenConstraint(sampling);
  if (given === undefined) return constraint && { thinking, ...constraint };
  if (constraint !== undefined) {
    throw new InvalidRequestError(
      `constraint cannot be set together with ${given.kind}`,
      "constraint",
    );
  }
  requireSupported(given.kind, backend);
  return { ...given, thinking };
}

function givenConstraint(params: SamplingParams): Constraint | undefined {
  const { jsonSchema, regex, ebnf, structuralTag } = params;
  const given = Object.entries({ jsonSchema, regex, ebnf, structuralTag }).filter(
    ([, value]) => value !== undefined && value !== "",
  );
  const [first] = given;
  if (first === undefined) return undefined;
  if (given.length > 1) {
    const names = given.map(([name]) => name).join(" and ");
    throw new InvalidRequestError(
      `Only one of regex, jsonSchema, ebnf or structuralTag can be set, got ${names}`,
      given[1]![0],
    );
  }
  const [name, value] = first;
  if (name === "jsonSchema") return { kind: "json_schema", source: schemaText(value) };
  if (typeof value !== "string") {
    throw new InvalidRequestError(`${name} must be a string, got ${typeof value}`, name);
  }
  return { kind: KINDS[name as keyof typeof KINDS], source: value };
}

function schemaText(schema: unknown): string {
  if (schema === ANY_JSON) return "true";
  if (typeof schema === "string") return schema;
  const isSchema = typeof schema === "boolean" || (typeof schema === "object" && schema !== null);
  if (isSchema && !Array.isArray(schema)) return jsonSource(schema, "jsonSchema");
  throw new InvalidRequestError(
    "jsonSchema must be a schema, as an object, a boolean or JSON text",
    "jsonSchema",
  );
}
