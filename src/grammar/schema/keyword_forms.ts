/**
 * The keywords of each dialect of JSON Schema.
 *
 * Every keyword of a schema that is looked at and that its dialect has must have a value of the right
 * form. Annotations say nothing about values and have no effect; so do `x-` keywords.
 *
 * @module
 */

import { GrammarError } from "../grammar_error.ts";
import { type Dialect, isAtLeast } from "./dialect.ts";
import {
  escapeToken,
  isArray,
  isNumber,
  isObject,
  isPositive,
  JSON_TYPES,
  type JsonObject,
  type JsonValue,
} from "./json_value.ts";

interface Form {
  readonly name: string;
  readonly fits: (value: JsonValue) => boolean;
}

const ANY: Form = { name: "any value", fits: () => true };
const BOOLEAN: Form = { name: "a boolean", fits: (v) => typeof v === "boolean" };
const NUMBER: Form = { name: "a number", fits: isNumber };
const POSITIVE: Form = {
  name: "a number above 0",
  fits: (v) => isNumber(v) && isPositive(v),
};
const COUNT: Form = {
  name: "a whole number from 0",
  fits: (v) => Number.isSafeInteger(v) && (v as number) >= 0,
};
const STRING: Form = { name: "a string", fits: (v) => typeof v === "string" };
const LIST: Form = { name: "a list", fits: isArray };
const isSchema = (v: JsonValue) => typeof v === "boolean" || isObject(v);
const SCHEMA: Form = { name: "a schema", fits: isSchema };
const SCHEMAS: Form = {
  name: "a list of schemas that is not empty",
  fits: (v) => isArray(v) && v.length > 0 && v.every(isSchema),
};
const SCHEMA_OR_LIST: Form = {
  name: "a schema or a list of schemas",
  fits: (v) => isSchema(v) || (isArray(v) && v.every(isSchema)),
};
const SCHEMA_MAP: Form = {
  name: "an object of schemas",
  fits: (v) => isObject(v) && Object.values(v).every(isSchema),
};
const isNames = (v: JsonValue) => isArray(v) && v.every((name) => typeof name === "string");
const NAMES: Form = { name: "a list of strings", fits: isNames };
const NAME_LISTS: Form = {
  name: "an object of lists of strings",
  fits: (v) => isObject(v) && Object.values(v).every(isNames),
};
const DEPENDENCIES: Form = {
  name: "an object of schemas and lists of strings",
  fits: (v) => isObject(v) && Object.values(v).every((part) => isSchema(part) || isNames(part)),
};
const isTypeName = (v: JsonValue) =>
  typeof v === "string" && (v === "integer" || (JSON_TYPES as readonly string[]).includes(v));
const TYPES: Form = {
  name: "a type or a list of types",
  fits: (v) => isTypeName(v) || (isArray(v) && v.every(isTypeName)),
};

interface Keyword {
  readonly form: Form;
  readonly since: Dialect;
  /** Last dialect that has it. */
  readonly until?: Dialect;
}

const keyword = (form: Form, since: Dialect = "draft-04", until?: Dialect): Keyword =>
  until === undefined ? { form, since } : { form, since, until };

/** `definitions` and `dependencies` stay in use, and their meaning is the same in all dialects. */
const KEYWORDS: ReadonlyMap<string, readonly Keyword[]> = new Map(
  Object.entries({
    $anchor: [keyword(STRING, "2019-09")],
    $comment: [keyword(ANY)],
    $defs: [keyword(ANY)],
    $dynamicAnchor: [keyword(STRING, "2020-12")],
    $dynamicRef: [keyword(STRING, "2020-12")],
    $id: [keyword(STRING, "draft-06")],
    $recursiveAnchor: [keyword(BOOLEAN, "2019-09", "2019-09")],
    $recursiveRef: [keyword(STRING, "2019-09", "2019-09")],
    $ref: [keyword(STRING)],
    $schema: [keyword(STRING)],
    additionalItems: [keyword(SCHEMA, "draft-04", "2019-09")],
    additionalProperties: [keyword(SCHEMA)],
    allOf: [keyword(SCHEMAS)],
    anyOf: [keyword(SCHEMAS)],
    const: [keyword(ANY, "draft-06")],
    contains: [keyword(SCHEMA, "draft-06")],
    contentEncoding: [keyword(ANY)],
    contentMediaType: [keyword(ANY)],
    contentSchema: [keyword(ANY)],
    default: [keyword(ANY)],
    definitions: [keyword(ANY)],
    dependencies: [keyword(DEPENDENCIES)],
    dependentRequired: [keyword(NAME_LISTS, "2019-09")],
    dependentSchemas: [keyword(SCHEMA_MAP, "2019-09")],
    deprecated: [keyword(ANY)],
    description: [keyword(ANY)],
    discriminator: [keyword(ANY)],
    else: [keyword(SCHEMA, "draft-07")],
    enum: [keyword(LIST)],
    example: [keyword(ANY)],
    examples: [keyword(ANY)],
    exclusiveMaximum: [keyword(BOOLEAN, "draft-04", "draft-04"), keyword(NUMBER, "draft-06")],
    exclusiveMinimum: [keyword(BOOLEAN, "draft-04", "draft-04"), keyword(NUMBER, "draft-06")],
    externalDocs: [keyword(ANY)],
    format: [keyword(STRING)],
    id: [keyword(STRING, "draft-04", "draft-04")],
    if: [keyword(SCHEMA, "draft-07")],
    items: [keyword(SCHEMA_OR_LIST, "draft-04", "2019-09"), keyword(SCHEMA, "2020-12")],
    maxContains: [keyword(COUNT, "2019-09")],
    maxItems: [keyword(COUNT)],
    maxLength: [keyword(COUNT)],
    maxProperties: [keyword(COUNT)],
    maximum: [keyword(NUMBER)],
    minContains: [keyword(COUNT, "2019-09")],
    minItems: [keyword(COUNT)],
    minLength: [keyword(COUNT)],
    minProperties: [keyword(COUNT)],
    minimum: [keyword(NUMBER)],
    multipleOf: [keyword(POSITIVE)],
    not: [keyword(SCHEMA)],
    oneOf: [keyword(SCHEMAS)],
    pattern: [keyword(STRING)],
    patternProperties: [keyword(SCHEMA_MAP)],
    prefixItems: [keyword(SCHEMAS, "2020-12")],
    properties: [keyword(SCHEMA_MAP)],
    propertyNames: [keyword(SCHEMA, "draft-06")],
    readOnly: [keyword(ANY)],
    required: [keyword(NAMES)],
    // biome-ignore lint/suspicious/noThenProperty: the name of a keyword of JSON Schema
    then: [keyword(SCHEMA, "draft-07")],
    title: [keyword(ANY)],
    type: [keyword(TYPES)],
    unevaluatedItems: [keyword(SCHEMA, "2019-09")],
    unevaluatedProperties: [keyword(SCHEMA, "2019-09")],
    uniqueItems: [keyword(BOOLEAN)],
    writeOnly: [keyword(ANY)],
    xml: [keyword(ANY)],
  }),
);

/** Names of all of them. */
export const KEYWORD_NAMES: readonly string[] = [...KEYWORDS.keys()];

/** What a schema is read by. */
export interface Reading {
  readonly dialect: Dialect;
  /** Whether the schema says its dialect itself. Otherwise it may have keywords of all of them. */
  readonly isDeclared: boolean;
}

/** How a schema's dialect takes one of its keywords. */
export type Standing = "known" | "of another dialect" | "unknown";

/** Keywords that begin with `x-` are extensions, which say nothing. */
export function standingOf(name: string, { dialect, isDeclared }: Reading): Standing {
  if (name.startsWith("x-")) return "known";
  const versions = KEYWORDS.get(name);
  if (versions === undefined) return "unknown";
  return !isDeclared || versions.some((version) => hasVersion(dialect, version))
    ? "known"
    : "of another dialect";
}

/** Schemas of draft-03 are read as ones of draft-04 by now. */
function hasVersion(dialect: Dialect, { since, until = "2020-12" }: Keyword): boolean {
  if (dialect === "draft-03") return since === "draft-04";
  return isAtLeast(dialect, since) && isAtLeast(until, dialect);
}

/** A schema, where it stands, and what it is read by. */
interface PlacedSchema {
  readonly value: boolean | JsonObject;
  readonly path: string;
  readonly resource: Reading;
}

/** @throws {GrammarError} naming a keyword that is not known or has a value of the wrong form. */
export function checkKeywords({ value, path, resource }: PlacedSchema): void {
  if (!isObject(value)) return;
  for (const [name, content] of Object.entries(value)) {
    const place = { path: `${path}/${escapeToken(name)}` };
    const standing = standingOf(name, resource);
    if (standing === "unknown") {
      throw new GrammarError(`Cannot enforce "${name}": it is no keyword of JSON Schema`, place);
    }
    if (standing === "of another dialect") {
      throw new GrammarError(
        `Cannot enforce "${name}": ${resource.dialect} does not have it`,
        place,
      );
    }
    const forms = formsOf(name, resource);
    if (forms.some((form) => form.fits(content))) continue;
    const names = forms.map((form) => form.name).join(" or ");
    throw new GrammarError(`Cannot read "${name}": it must be ${names}`, place);
  }
}

/** Those of the dialect; where the schema does not say its dialect, those of all others as well. */
function formsOf(name: string, { dialect, isDeclared }: Reading): readonly Form[] {
  const versions = KEYWORDS.get(name) ?? [];
  const own = versions.filter((version) => hasVersion(dialect, version));
  const others = isDeclared ? [] : versions.filter((version) => !own.includes(version));
  const forms = [...own, ...others].map(({ form }) => form);
  return forms.length === 0 ? [ANY] : [...new Set(forms)];
}

/** Keywords that say nothing about the value beside them. */
const ANNOTATIONS = new Set([
  "$anchor",
  "$comment",
  "$defs",
  "$dynamicAnchor",
  "$id",
  "$recursiveAnchor",
  "$schema",
  "contentEncoding",
  "contentMediaType",
  "contentSchema",
  "default",
  "definitions",
  "deprecated",
  "description",
  "discriminator",
  "example",
  "examples",
  "externalDocs",
  "id",
  "readOnly",
  "title",
  "writeOnly",
  "xml",
]);

export function isAnnotation(name: string): boolean {
  return ANNOTATIONS.has(name) || name.startsWith("x-");
}
