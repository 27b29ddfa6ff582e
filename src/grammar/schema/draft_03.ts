/**
 * Draft-03 in the words of draft-04: the rest of the reader knows no other keywords than those.
 *
 * @module
 */

import {
  escapeToken,
  isArray,
  isObject,
  type JsonObject,
  type JsonValue,
  keepSpelling,
  keysOf,
  spellingOf,
} from "./json_value.ts";
import type { SchemaWarnings } from "./schema_warnings.ts";

/** Keywords of draft-04 that draft-03 does not have. */
const LATER: ReadonlySet<string> = new Set(
  "allOf anyOf maxProperties minProperties multipleOf not oneOf".split(" "),
);
/** Names of formats that changed. */
const FORMATS: ReadonlyMap<string, string> = new Map([
  ["host-name", "hostname"],
  ["ip-address", "ipv4"],
]);

interface Words {
  [keyword: string]: JsonValue;
}

/** A schema of draft-03 as one of draft-04. Its parts are those of draft-03. */
export function inDraft04(
  schema: JsonObject,
  { path, warnings }: { readonly path: string; readonly warnings: SchemaWarnings },
): JsonObject {
  const words: Words = {};
  for (const [name, value] of Object.entries(schema)) {
    switch (name) {
      case "dependencies":
        words[name] = isObject(value) ? listed(value) : value;
        break;
      case "disallow":
        words.not = { type: isArray(value) ? value : [value] };
        break;
      case "divisibleBy":
        words.multipleOf = value;
        break;
      case "extends":
        words.allOf = isArray(value) ? value : [value];
        break;
      case "format":
        words[name] = (typeof value === "string" && FORMATS.get(value)) || value;
        break;
      case "required":
        // What it says is said of the object around it.
        if (typeof value !== "boolean") words[name] = value;
        break;
      case "type":
        Object.assign(words, typesOf(value));
        break;
      default:
        if (LATER.has(name)) {
          const ignored = `Ignored "${name}": draft-03 does not have it`;
          warnings.add(ignored, `${path}/${escapeToken(name)}`);
        } else words[name] = value;
    }
  }
  const required = requiredMembers(words);
  if (required.length > 0) words.required = required;
  return words;
}

/** Members whose schemas say `required: true`. */
function requiredMembers({ properties }: JsonObject): readonly string[] {
  if (!isObject(properties)) return [];
  return keysOf(properties).filter((key) => {
    const part = properties[key];
    return isObject(part) && part.required === true;
  });
}

/** Types by name, of which "any" says nothing, and schemas that a value may fit instead. */
function typesOf(value: JsonValue): Words {
  const types = isArray(value) ? value : [value];
  if (types.includes("any")) return {};
  if (types.every((type) => typeof type === "string")) return { type: value };
  return { anyOf: types.map((type) => (typeof type === "string" ? { type } : type)) };
}

/** One name is a list of it. */
function listed(dependencies: JsonObject): JsonObject {
  const entries = Object.entries(dependencies);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, typeof value === "string" ? [value] : value]),
  );
}

/** Schemas that do not say their dialect may say of a member that it is required, as draft-03 does. */
export function withRequiredMembers(schema: JsonObject): JsonObject {
  const required = requiredMembers(schema);
  const isSaidHere = typeof schema.required === "boolean";
  if (required.length === 0 && !isSaidHere) return schema;
  const { required: own, ...rest } = schema;
  const others = isArray(own) ? own : [];
  if (typeof schema.const === "number") keepSpelling(rest, "const", spellingOf(schema, "const"));
  return required.length === 0 && isSaidHere
    ? rest
    : { ...rest, required: [...others, ...required] };
}
