/**
 * The names of schemas, and how references are resolved against them.
 *
 * @module
 */

import { type Dialect, isAtLeast, namesById } from "./dialect.ts";
import { isObject, type JsonObject } from "./json_value.ts";

/** Beside a `$ref`, older drafts know no other keyword. */
function isRead(value: JsonObject, dialect: Dialect): boolean {
  return isAtLeast(dialect, "2019-09") || !Object.hasOwn(value, "$ref");
}

function nameOf(value: boolean | JsonObject, dialect: Dialect): string | undefined {
  if (!isObject(value) || !isRead(value, dialect)) return undefined;
  const id = value[namesById(dialect) ? "id" : "$id"];
  return typeof id === "string" ? id : undefined;
}

/** What makes a schema a resource of its own. */
export function idOf(value: boolean | JsonObject, dialect: Dialect): string | undefined {
  const id = nameOf(value, dialect);
  return id?.startsWith("#") === true ? undefined : id;
}

/** An anchor that is written as an identifier, in the older drafts. */
export function anchorIdOf(value: JsonObject, dialect: Dialect): string | undefined {
  const id = nameOf(value, dialect);
  return id?.startsWith("#") === true ? id.slice(1) : undefined;
}

export function splitUri(reference: string): { readonly uri: string; readonly fragment: string } {
  const hash = reference.indexOf("#");
  if (hash < 0) return { uri: reference, fragment: "" };
  return { uri: reference.slice(0, hash), fragment: reference.slice(hash + 1) };
}

export function resolveUri(reference: string, base: string): string | undefined {
  try {
    return new URL(reference, base).href;
  } catch {
    return undefined;
  }
}

/** Percent signs that encode nothing stand for themselves. */
export function decodedFragment(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}
