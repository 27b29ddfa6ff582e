/**
 * Fields that say what form an answer must have -> the one form of the request.
 *
 * Servers of this kind spell it differently: `guided_json`, `guided_regex`, `guided_choice`,
 * `guided_grammar` and `structured_outputs` are the names of vLLM.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { jsonSource } from "../../grammar/constraints/json_source.ts";
import { MAX_TEXTS, MAX_UNITS } from "../../grammar/constraints/text_choice.ts";
import { type Fields, isObject, outOfRange, requireString, wrongType } from "../../http/fields.ts";
import { MAX_CONSTRAINT_UNITS } from "../../request_limits.ts";
import type { SamplingParams } from "../../sampling_params.ts";
import { IDLE_STRUCTURED_OUTPUTS } from "./idle_fields.ts";
import { readResponseFormat } from "./response_format.ts";

/** At most one of its fields is there. */
export type Form = Pick<
  SamplingParams,
  "jsonSchema" | "regex" | "ebnf" | "structuralTag" | "choice"
>;

/** Reads one field; the form is empty where it asks for none. */
type FormReader = (fields: Fields, name: string) => Form;

/** An empty text is none. */
function textReader(form: "jsonSchema" | "regex" | "ebnf" | "structuralTag"): FormReader {
  return (fields, name) => {
    const text = fields.string(name);
    if (text) requireShortText(text, fields.path(name));
    return text ? { [form]: text } : {};
  };
}

/** The fields of `sampling_params`. */
const OWN_NAMES: Readonly<Record<string, FormReader>> = {
  json_schema: textReader("jsonSchema"),
  regex: textReader("regex"),
  ebnf: textReader("ebnf"),
  structural_tag: textReader("structuralTag"),
};

const STRUCTURED_OUTPUTS: Readonly<Record<string, FormReader>> = {
  json: readSchema,
  json_object: (fields, name) => (fields.boolean(name) ? { jsonSchema: { type: "object" } } : {}),
  regex: textReader("regex"),
  choice: readChoice,
  grammar: textReader("ebnf"),
  structural_tag: textReader("structuralTag"),
};

/** The fields of requests under `/v1`. */
const ALL_NAMES: Readonly<Record<string, FormReader>> = {
  response_format: readResponseFormat,
  ...OWN_NAMES,
  guided_json: readSchema,
  guided_regex: textReader("regex"),
  guided_choice: readChoice,
  guided_grammar: textReader("ebnf"),
  structured_outputs: readStructuredOutputs,
};

/**
 * The form that `sampling_params` ask for.
 *
 * @throws {InvalidRequestError} when they ask for two.
 */
export function readForm(fields: Fields): Form {
  return readOne(fields, OWN_NAMES);
}

/** The same of a request under `/v1`, by any name that it may have there. */
export function readAnyForm(fields: Fields): Form {
  return readOne(fields, ALL_NAMES);
}

/** A request may say the same thing twice. */
function readOne(fields: Fields, readers: Readonly<Record<string, FormReader>>): Form {
  const given = Object.entries(readers)
    .map(([name, read]) => ({ name, form: read(fields, name) }))
    .filter(({ form }) => Object.keys(form).length > 0);
  const [first, second] = given;
  if (first === undefined) return {};
  if (second === undefined) return first.form;
  const written = given.map(({ name, form }) => {
    const { jsonSchema: schema } = form;
    const isWritten = typeof schema === "string";
    return jsonSource(isWritten ? { jsonSchema: readJson(schema) } : form, fields.path(name));
  });
  const other = written.findIndex((text) => text !== written[0]);
  if (other < 0) return first.form;
  const names = given.map(({ name }) => name).join(" and ");
  throw new InvalidRequestError(
    `Only one of regex, json_schema, or ebnf can be set, got ${names}`,
    fields.path(given[other]!.name),
  );
}

/** Here, as two forms are read to be compared. */
function requireShortText(text: string, path: string): void {
  if (text.length <= MAX_CONSTRAINT_UNITS) return;
  throw outOfRange(path, `at most ${MAX_CONSTRAINT_UNITS} characters`, text);
}

/** Of what is no JSON the text itself, which the grammar refuses. */
function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A schema, as an object, true or false, or JSON text. */
function readSchema(fields: Fields, name: string): Form {
  const schema = fields.value(name);
  if (schema === undefined || schema === "") return {};
  if (typeof schema === "string") requireShortText(schema, fields.path(name));
  if (typeof schema === "string" || typeof schema === "boolean") return { jsonSchema: schema };
  // Written once, however many answers are asked for.
  if (isObject(schema)) return { jsonSchema: jsonSource(schema, fields.path(name)) };
  throw wrongType(fields.path(name), "a schema or its JSON text", schema);
}

function readChoice(fields: Fields, name: string): Form {
  const list = fields.list(name);
  if (list === undefined) return {};
  const path = fields.path(name);
  if (list.length === 0) throw new InvalidRequestError(`${path} cannot be empty`, path);
  if (list.length > MAX_TEXTS) throw outOfRange(path, `at most ${MAX_TEXTS} texts`, list);
  const choice = list.map((item, i) => requireString(item, `${path}[${i}]`));
  const units = choice.reduce((sum, { length }) => sum + length, 0);
  if (units > MAX_UNITS) throw outOfRange(path, `at most ${MAX_UNITS} characters`, list);
  return { choice };
}

function readStructuredOutputs(fields: Fields, name: string): Form {
  const options = fields.object(name);
  if (options === undefined) return {};
  const form = readOne(options, STRUCTURED_OUTPUTS);
  options.takeIdle(IDLE_STRUCTURED_OUTPUTS);
  options.end();
  return form;
}
