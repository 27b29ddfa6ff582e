/**
 * The schemas that schemas of each dialect fit, for references to them. Those of 2019-09 and 2020-12
 * are one schema here, not one for each vocabulary.
 *
 * @module
 */

import { DIALECT_URIS, type Dialect, isAtLeast } from "./dialect.ts";
import { JSON_TYPES, type JsonObject } from "./json_value.ts";

const SELF = { $ref: "#" };
const STRING = { type: "string" };
const NUMBER = { type: "number" };
const BOOLEAN = { type: "boolean" };
const SCHEMA_MAP = { type: "object", additionalProperties: SELF };
const REGEX = { type: "string", format: "regex" };
const REFERENCE = { type: "string", format: "uri-reference" };
const URI = { type: "string", format: "uri" };
const ANY_LIST = { type: "array", items: {} };
const SOME_VALUES = { type: "array", minItems: 1, uniqueItems: true };
const REGEX_MAP = { ...SCHEMA_MAP, propertyNames: { format: "regex" } };

const to = (name: string) => ({ $ref: `#/definitions/${name}` });
const each = (names: string, schema: JsonObject): JsonObject =>
  Object.fromEntries(names.split(" ").map((name) => [name, schema]));

/** @returns Nothing for other URIs; draft-03 has none here. */
export function metaSchemaFor(uri: string): JsonObject | undefined {
  const dialect = DIALECT_URIS.get(uri);
  if (dialect === undefined || dialect === "draft-03" || !uri.endsWith("/schema")) return undefined;
  return makeMetaSchema(uri, dialect);
}

function makeMetaSchema(uri: string, dialect: Dialect): JsonObject {
  const isOldest = dialect === "draft-04";
  return {
    [isOldest ? "id" : "$id"]: uri,
    $schema: uri,
    ...(dialect === "2020-12" ? { $dynamicAnchor: "meta" } : undefined),
    definitions: definitionsOf(dialect),
    type: isOldest ? "object" : ["object", "boolean"],
    properties: { ...commonProperties(dialect), ...propertiesSince(dialect) },
    ...(isOldest
      ? { dependencies: { exclusiveMaximum: ["maximum"], exclusiveMinimum: ["minimum"] } }
      : undefined),
  };
}

function definitionsOf(dialect: Dialect): JsonObject {
  const count = dialect === "draft-04" ? "positiveInteger" : "nonNegativeInteger";
  const strings = { type: "array", items: STRING, uniqueItems: true };
  return {
    schemaArray: { type: "array", minItems: 1, items: SELF },
    [count]: { type: "integer", minimum: 0 },
    [`${count}Default0`]: to(count),
    simpleTypes: { enum: ["integer", ...JSON_TYPES] },
    stringArray: dialect === "draft-04" ? { ...strings, minItems: 1 } : strings,
  };
}

/** What all dialects have, each as it says. */
function commonProperties(dialect: Dialect): JsonObject {
  const isOldest = dialect === "draft-04";
  const schema = isOldest ? { anyOf: [BOOLEAN, SELF] } : SELF;
  const limit = isOldest ? BOOLEAN : NUMBER;
  const types = { type: "array", items: to("simpleTypes"), minItems: 1, uniqueItems: true };
  return {
    ...each("title description format", STRING),
    ...each("default", {}),
    multipleOf: isOldest
      ? { type: "number", minimum: 0, exclusiveMinimum: true }
      : { type: "number", exclusiveMinimum: 0 },
    ...each("maximum minimum", NUMBER),
    ...each("exclusiveMaximum exclusiveMinimum", limit),
    ...each(
      "maxLength minLength maxItems minItems maxProperties minProperties",
      to(isOldest ? "positiveInteger" : "nonNegativeInteger"),
    ),
    pattern: REGEX,
    ...each("additionalItems additionalProperties", schema),
    items: dialect === "2020-12" ? SELF : { anyOf: [SELF, to("schemaArray")] },
    uniqueItems: BOOLEAN,
    required: to("stringArray"),
    ...each("definitions properties", SCHEMA_MAP),
    patternProperties: isAtLeast(dialect, "draft-07") ? REGEX_MAP : SCHEMA_MAP,
    dependencies: { type: "object", additionalProperties: { anyOf: [SELF, to("stringArray")] } },
    enum: isAtLeast(dialect, "draft-07") ? ANY_LIST : SOME_VALUES,
    type: { anyOf: [to("simpleTypes"), types] },
    ...each("allOf anyOf oneOf", to("schemaArray")),
    not: SELF,
  };
}

/** What came later. */
function propertiesSince(dialect: Dialect): JsonObject {
  if (dialect === "draft-04") return { id: STRING, $schema: STRING };
  const is = (other: Dialect) => isAtLeast(dialect, other);
  return {
    $id: is("2019-09") ? { ...REFERENCE, pattern: "^[^#]*#?$" } : REFERENCE,
    $schema: URI,
    $ref: REFERENCE,
    examples: ANY_LIST,
    ...each("contains propertyNames", SELF),
    const: {},
    ...(is("draft-07") ? sinceDraft07() : undefined),
    ...(is("2019-09") ? since2019() : undefined),
    ...(dialect === "2019-09"
      ? { $recursiveAnchor: BOOLEAN, $recursiveRef: REFERENCE, $anchor: anchor("", ":") }
      : undefined),
    ...(is("2020-12") ? since2020() : undefined),
  };
}

function sinceDraft07(): JsonObject {
  return {
    ...each("$comment contentMediaType contentEncoding", STRING),
    ...each("readOnly writeOnly", BOOLEAN),
    ...each("if then else", SELF),
  };
}

function since2019(): JsonObject {
  return {
    $vocabulary: { type: "object", propertyNames: URI, additionalProperties: BOOLEAN },
    ...each("$defs dependentSchemas", SCHEMA_MAP),
    ...each("unevaluatedItems unevaluatedProperties contentSchema", SELF),
    ...each("maxContains minContains", to("nonNegativeInteger")),
    dependentRequired: { type: "object", additionalProperties: to("stringArray") },
    deprecated: BOOLEAN,
  };
}

function since2020(): JsonObject {
  return {
    // Unknown to it, like any other word.
    additionalItems: {},
    ...each("$anchor $dynamicAnchor $recursiveAnchor", anchor("_", "")),
    ...each("$dynamicRef $recursiveRef", REFERENCE),
    prefixItems: to("schemaArray"),
  };
}

function anchor(first: string, other: string): JsonObject {
  return { type: "string", pattern: `^[A-Za-z${first}][-A-Za-z0-9.${other}_]*$` };
}
