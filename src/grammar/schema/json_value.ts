/**
 * JSON values as JavaScript reads them, and what JSON Schema says of them: their types, and when two
 * are the same.
 *
 * @module
 */

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: JsonValue;
}

export const JSON_TYPES = ["null", "boolean", "number", "string", "array", "object"] as const;

/** What a value can be; whole numbers are numbers. */
export type JsonType = (typeof JSON_TYPES)[number];

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isArray(value: unknown): value is readonly JsonValue[] {
  return Array.isArray(value);
}

export function typeOf(value: JsonValue): JsonType {
  if (value === null) return "null";
  if (isArray(value)) return "array";
  return typeof value as "boolean" | "number" | "string" | "object";
}

/** A text that two values share exactly when they are the same to JSON Schema. */
export function canonicalText(value: JsonValue): string {
  if (isArray(value)) return `[${value.map(canonicalText).join()}]`;
  if (!isObject(value)) return Object.is(value, -0) ? "0" : JSON.stringify(value);
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalText(value[key]!)}`);
  return `{${members.join()}}`;
}
