/**
 * What a request's sampling parameters say about the text of its completion.
 *
 * @module
 */
import { JSON_ORDERS, JSON_UNKNOWN } from "../../constraint.ts";
import { InvalidRequestError } from "../../errors.ts";
import type { GenerationRequest } from "../../generation.ts";
import { type GrammarBackend, requireSupported } from "../../grammar/constraints/backend_names.ts";
import { jsonSource } from "../../grammar/constraints/json_source.ts";
import type { Constraint } from "../../grammar/grammar.ts";
import { GrammarError } from "../../grammar/grammar_error.ts";
import { MAX_CONSTRAINT_UNITS } from "../../request_limits.ts";
import { CONSTRAINT_KINDS, constraintsIn, type SamplingParams } from "../../sampling_params.ts";

/** Stands for the schema that every JSON value fits. */
const ANY_JSON = "$$ANY$$";

/**
 * @returns `undefined` when any text will do.
 * @throws {InvalidRequestError} when more than one constraint is given, or one of another type or
 * that the backend does not support.
 * @throws {GrammarError} when it is longer than a constraint may be.
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
  // Here, as longer ones are not even to be copied for another thread.
  requireShort(given ?? constraint);
  const { jsonUnknown, jsonOrder } = sampling;
  requireName("jsonUnknown", jsonUnknown, JSON_UNKNOWN);
  requireName("jsonOrder", jsonOrder, JSON_ORDERS);
  if (given === undefined) return constraint && { thinking, jsonUnknown, jsonOrder, ...constraint };
  if (constraint !== undefined) {
    throw new InvalidRequestError(
      `Cannot use constraint: the request sets ${given.kind} too`,
      "constraint",
    );
  }
  requireSupported(given.kind, backend);
  return { ...given, thinking, jsonUnknown, jsonOrder };
}

function requireName(field: string, value: string | undefined, names: readonly string[]): void {
  if (value === undefined || names.includes(value)) return;
  throw new InvalidRequestError(
    `Cannot use ${field} ${String(value)}: it must be one of ${names.join(", ")}`,
    field,
  );
}

function requireShort(constraint: Constraint | undefined): void {
  if (constraint === undefined || constraint.source.length <= MAX_CONSTRAINT_UNITS) return;
  throw new GrammarError(
    `Cannot use ${constraint.kind}: it is longer than ${MAX_CONSTRAINT_UNITS}`,
  );
}

function givenConstraint(params: SamplingParams): Constraint | undefined {
  const given = constraintsIn(params);
  const [name] = given;
  if (name === undefined) return undefined;
  if (given.length > 1) {
    throw new InvalidRequestError(
      `Cannot use ${given.join(" and ")} together: a request has one of regex, jsonSchema, ebnf, structuralTag and choice`,
      given[1],
    );
  }
  const kind = CONSTRAINT_KINDS[name];
  if (name === "jsonSchema") return { kind, source: schemaText(params[name]) };
  if (name === "choice") return { kind, source: jsonSource(params[name], name) };
  const value: unknown = params[name];
  if (typeof value === "string") return { kind, source: value };
  throw new InvalidRequestError(`${name} must be a string, got ${typeof value}`, name);
}

function schemaText(schema: unknown): string {
  if (schema === ANY_JSON) return "true";
  if (typeof schema === "string") return schema;
  const isSchema = typeof schema === "boolean" || (typeof schema === "object" && schema !== null);
  if (isSchema && !Array.isArray(schema)) return jsonSource(schema, "jsonSchema");
  throw new InvalidRequestError(
    `jsonSchema must be a schema, as an object, a boolean or JSON text, got ${Array.isArray(schema) ? "a list" : String(schema)}`,
    "jsonSchema",
  );
}
