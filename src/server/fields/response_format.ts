/**
 * `response_format` of the endpoints under `/v1`: the form that an answer must have.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { jsonSource } from "../../grammar/constraints/json_source.ts";
import { type Fields, isObject, outOfRange, wrongType } from "../../http/fields.ts";
import type { SamplingParams } from "../../sampling_params.ts";

const NAME = "response_format";

type Form = Pick<SamplingParams, "jsonSchema" | "structuralTag">;

/**
 * What the answer must fit; nothing when any text will do.
 *
 * A schema is enforced whether `strict` is set or not, and one that cannot be is refused.
 */
export function readResponseFormat(fields: Fields): Form {
  const format = fields.object(NAME);
  if (format === undefined) return {};
  const form = readForm(format);
  format.end();
  return form;
}

function readForm(format: Fields): Form {
  const type = format.string("type");
  switch (type) {
    case undefined:
      throw new InvalidRequestError(`Cannot read ${NAME}: ${format.path("type")} is missing`, NAME);
    case "text":
      return {};
    case "json_object":
      return { jsonSchema: { type: "object" } };
    case "json_schema":
      return { jsonSchema: readJsonSchema(format) };
    case "structural_tag":
      return { structuralTag: readStructuralTag(format) };
    default:
      throw outOfRange(
        format.path("type"),
        "one of text, json_object, json_schema, structural_tag",
        type,
      );
  }
}

/** The engine reads what is in the format, or in the two lists. */
function readStructuralTag(format: Fields): string {
  const nested = format.value("format");
  if (nested !== undefined) return jsonSource({ format: nested }, NAME);
  const structures = format.list("structures");
  const triggers = format.list("triggers");
  return jsonSource({ structures, triggers }, NAME);
}

function readJsonSchema(format: Fields): boolean | Readonly<Record<string, unknown>> {
  const given = format.object("json_schema");
  if (given?.value("schema") === undefined) throw noSchema(`${format.path("json_schema")}.schema`);
  const schema = readSchemaFormat(given);
  given.end();
  return schema;
}

/** A schema and what describes it to the caller. */
export function readSchemaFormat(given: Fields): boolean | Readonly<Record<string, unknown>> {
  given.string("name");
  given.string("description");
  given.boolean("strict");
  const schema = given.value("schema");
  if (schema === undefined) throw noSchema(given.path("schema"));
  if (typeof schema === "boolean" || isObject(schema)) return schema;
  throw wrongType(given.path("schema"), "an object, true or false", schema);
}

function noSchema(path: string): InvalidRequestError {
  return new InvalidRequestError(`Cannot read ${path.split(".")[0]}: ${path} is missing`, path);
}
