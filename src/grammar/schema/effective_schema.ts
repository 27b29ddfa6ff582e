/**
 * A schema without what says nothing about values: JSON Schema calls keywords that its dialect does
 * not have annotations, and so it does unknown formats.
 *
 * @module
 */

import {
  escapeToken,
  type JsonObject,
  type JsonValue,
  keepSpelling,
  spellingOf,
} from "./json_value.ts";
import { KEYWORD_NAMES, type Reading, standingOf } from "./keyword_forms.ts";
import type { SchemaWarnings } from "./schema_warnings.ts";
import { isKnownFormat } from "./strings/formats.ts";

/** UTF-16 units of a name that are shown. */
const MAX_SHOWN = 60;

interface EffectiveOptions {
  readonly path: string;
  readonly reading: Reading;
  readonly warnings: SchemaWarnings;
}

/** The schema itself where all of it counts. */
export function effectiveSchema(
  schema: JsonObject,
  { path, reading, warnings }: EffectiveOptions,
): JsonObject {
  const ignored = new Set<string>();
  for (const name of Object.keys(schema)) {
    const reason = whyIgnored(name, schema[name]!, reading);
    if (reason === undefined) continue;
    ignored.add(name);
    warnings.add(`Ignored ${reason}`, `${path}/${escapeToken(name)}`);
  }
  if (ignored.size === 0) return schema;
  const names = Object.keys(schema).filter((name) => !ignored.has(name));
  const rest = Object.fromEntries(names.map((name) => [name, schema[name]!]));
  if (typeof schema.const === "number") keepSpelling(rest, "const", spellingOf(schema, "const"));
  return rest;
}

function whyIgnored(name: string, value: JsonValue, reading: Reading): string | undefined {
  if (name === "format" && typeof value === "string" && !isKnownFormat(value)) {
    return `the format ${shown(value)}: it is not known`;
  }
  switch (standingOf(name, reading)) {
    case "known":
      return undefined;
    case "of another dialect":
      return `${shown(name)}: ${reading.dialect} does not have it`;
    default:
      return `${shown(name)}: it is no keyword of JSON Schema${hintFor(name)}`;
  }
}

function shown(name: string): string {
  return JSON.stringify(name.length > MAX_SHOWN ? `${name.slice(0, MAX_SHOWN)}...` : name);
}

/** Words of OpenAPI and of other drafts, and how JSON Schema says it. */
const SAID_OTHERWISE: ReadonlyMap<string, string> = new Map([
  ["divisibleBy", '; it is "multipleOf" now'],
  ["extends", '; it is "allOf" now'],
  ["nullable", '; list "null" in "type"'],
]);

function hintFor(name: string): string {
  const known = SAID_OTHERWISE.get(name);
  if (known !== undefined) return known;
  const meant = KEYWORD_NAMES.find((keyword) => isOneSlipAway(plain(name), plain(keyword)));
  return meant === undefined ? "" : `; did you mean "${meant}"?`;
}

/** Case and joints are where names are mistaken most. */
function plain(name: string): string {
  return name.slice(0, MAX_SHOWN).replace(/[-_ ]/g, "").toLowerCase();
}

/** Whether one letter is wrong, missing, too many, or two have changed places. Short words differ. */
function isOneSlipAway(name: string, keyword: string): boolean {
  if (name === keyword) return true;
  if (keyword.length < 4 || Math.abs(name.length - keyword.length) > 1) return false;
  let begin = 0;
  while (begin < name.length && name[begin] === keyword[begin]) begin += 1;
  const rest = (text: string, from: number) => text.slice(begin + from);
  return (
    rest(name, 1) === rest(keyword, 1) ||
    rest(name, 1) === rest(keyword, 0) ||
    rest(name, 0) === rest(keyword, 1) ||
    (name[begin] === keyword[begin + 1] &&
      name[begin + 1] === keyword[begin] &&
      rest(name, 2) === rest(keyword, 2))
  );
}
