/**
 * JSON values as JavaScript reads them, and what JSON Schema says of them: their types, and when two
 * are the same.
 *
 * @module
 */

import { type Decimal, decimalOf, decimalText } from "./numbers/decimal.ts";

export type JsonValue =
  | null
  | boolean
  | number
  | ExactNumber
  | string
  | readonly JsonValue[]
  | JsonObject;

export interface JsonObject {
  readonly [key: string]: JsonValue;
}

export const JSON_TYPES = ["null", "boolean", "number", "string", "array", "object"] as const;

/** What a value can be; whole numbers are numbers. */
export type JsonType = (typeof JSON_TYPES)[number];

/** A number that no double is. */
export class ExactNumber {
  readonly decimal: Decimal;

  constructor(decimal: Decimal) {
    this.decimal = decimal;
  }
}

/** Keys of objects in the order in which they were written, where JavaScript has another one. */
const orders = new WeakMap<JsonObject, readonly string[]>();

export function keepOrder(object: JsonObject, keys: readonly string[]): void {
  if (Object.keys(object).some((key, i) => key !== keys[i])) orders.set(object, keys);
}

/** In the order in which they were written. */
export function keysOf(object: JsonObject): readonly string[] {
  return orders.get(object) ?? Object.keys(object);
}

/** Texts of numbers that JavaScript would write otherwise, by what they stand in and where. */
const spellings = new WeakMap<object, Map<string, string>>();

/** What numbers stand in: at an index, or behind a key. */
type Container = JsonObject | readonly JsonValue[];

export function keepSpelling(container: Container, place: string | number, text: string): void {
  const known = spellings.get(container);
  if (known === undefined) spellings.set(container, new Map([[String(place), text]]));
  else known.set(String(place), text);
}

/** A number as it was written or, where that is not known, as JavaScript writes it. */
export function spellingOf(container: Container, place: string | number): string {
  const known = spellings.get(container)?.get(String(place));
  if (known !== undefined) return known;
  const value = (container as JsonObject)[place]!;
  return value instanceof ExactNumber ? decimalText(value.decimal) : JSON.stringify(value);
}

/** A schema that one part of a value fits, and nothing else; a number keeps its spelling. */
export function constOf(container: Container, place: string | number): JsonObject {
  const value = (container as JsonObject)[place]!;
  const schema = { const: value };
  if (isNumber(value)) keepSpelling(schema, "const", spellingOf(container, place));
  return schema;
}

export function isNumber(value: unknown): value is number | ExactNumber {
  return typeof value === "number" || value instanceof ExactNumber;
}

/** Exactly. */
export function decimalValue(value: number | ExactNumber): Decimal {
  return typeof value === "number" ? decimalOf(value) : value.decimal;
}

export function isPositive(value: number | ExactNumber): boolean {
  const { coefficient, negative } = decimalValue(value);
  return coefficient > 0n && !negative;
}

export function isObject(value: unknown): value is JsonObject {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof ExactNumber)
  );
}

export function isArray(value: unknown): value is readonly JsonValue[] {
  return Array.isArray(value);
}

export function typeOf(value: JsonValue): JsonType {
  if (value === null) return "null";
  if (isArray(value)) return "array";
  if (isNumber(value)) return "number";
  return typeof value as "boolean" | "string" | "object";
}

/** A text that two values share exactly when they are the same to JSON Schema. */
export function canonicalText(value: JsonValue): string {
  if (isArray(value)) return `[${value.map(canonicalText).join()}]`;
  if (value instanceof ExactNumber) return decimalText(value.decimal);
  if (!isObject(value)) return Object.is(value, -0) ? "0" : JSON.stringify(value);
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalText(value[key]!)}`);
  return `{${members.join()}}`;
}

/** A key or index as a part of a JSON pointer (RFC 6901). */
export function escapeToken(token: string | number): string {
  if (typeof token === "number") return String(token);
  return token.replaceAll("~", "~0").replaceAll("/", "~1");
}
