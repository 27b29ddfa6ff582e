/**
 * Typed reading of a JSON object that a stranger wrote: every error names the field by its path,
 * and a field that nobody read is an error too.
 *
 * A null counts as absent. Wrong types are `HttpError`s ("malformed_body"), values of the right type
 * that are out of range are `InvalidRequestError`s.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../errors.ts";
import { HttpError } from "./error_response.ts";

export interface Range {
  /** Smallest value allowed. */
  readonly min?: number;
  /** Largest value allowed. */
  readonly max?: number;
  /** The value has to be greater than this one. */
  readonly above?: number;
}

/** Values that ask for nothing, as a list or as a test. Null is always one of them. */
export type NeutralValues = readonly (string | number | boolean)[] | ((value: unknown) => boolean);

export class Fields {
  readonly #values: Readonly<Record<string, unknown>>;
  readonly #path: string;
  readonly #known = new Set<string>();

  /**
   * @param path Where the object stands in the body, "" for the body itself.
   * @throws {HttpError} when `value` is not an object.
   */
  constructor(value: unknown, path = "") {
    if (!isObject(value)) throw wrongType(path || "The request body", "an object", value);
    this.#values = value;
    this.#path = path;
  }

  /** The field's name as errors write it, such as `sampling_params.top_p`. */
  path(name: string): string {
    return this.#path === "" ? name : `${this.#path}.${name}`;
  }

  /** The value as it came; undefined when it is absent or null. */
  value(name: string): unknown {
    this.#known.add(name);
    return Object.hasOwn(this.#values, name) ? (this.#values[name] ?? undefined) : undefined;
  }

  /** Whether the field was given as null, for the few where that differs from absent. */
  isNull(name: string): boolean {
    return Object.hasOwn(this.#values, name) && this.#values[name] === null;
  }

  string(name: string): string | undefined {
    const value = this.value(name);
    return value === undefined ? undefined : requireString(value, this.path(name));
  }

  boolean(name: string): boolean | undefined {
    const value = this.value(name);
    if (value === undefined || typeof value === "boolean") return value;
    throw wrongType(this.path(name), "true or false", value);
  }

  number(name: string, range: Range = {}): number | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    // JSON can spell numbers beyond any double, which arrive as infinities.
    if (typeof value !== "number" || !Number.isFinite(value)) {
      throw wrongType(this.path(name), "a number", value);
    }
    return requireRange(value, this.path(name), range);
  }

  integer(name: string, range: Range = {}): number | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    return requireRange(requireInteger(value, this.path(name)), this.path(name), range);
  }

  list(name: string): readonly unknown[] | undefined {
    const value = this.value(name);
    return value === undefined ? undefined : requireList(value, this.path(name));
  }

  object(name: string): Fields | undefined {
    const value = this.value(name);
    return value === undefined ? undefined : new Fields(value, this.path(name));
  }

  /**
   * Refuses documented fields that do nothing here, unless their value asks for nothing.
   *
   * @throws {UnsupportedError} naming the field.
   */
  refuse(unsupported: Readonly<Record<string, NeutralValues>>): void {
    for (const [name, neutral] of Object.entries(unsupported)) {
      const value = this.value(name);
      if (value === undefined || isNeutral(value, neutral)) continue;
      throw new UnsupportedError(this.path(name), "it is not supported yet");
    }
  }

  /** @throws {InvalidRequestError} naming a field that nobody asked for. */
  end(): void {
    const unknown = Object.keys(this.#values).find((name) => !this.#known.has(name));
    if (unknown === undefined) return;
    const path = this.path(shorten(unknown));
    throw new InvalidRequestError(`Cannot use ${path}: it is not a known field`, path);
  }
}

/** The entries that are not undefined: what `exactOptionalPropertyTypes` wants of optional ones. */
export function present<T extends object>(values: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined),
  ) as unknown as T;
}

export function requireString(value: unknown, path: string): string {
  if (typeof value !== "string") throw wrongType(path, "a string", value);
  return value;
}

function requireInteger(value: unknown, path: string): number {
  if (!Number.isSafeInteger(value)) throw wrongType(path, "an integer", value);
  return value as number;
}

export function requireList(value: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(value)) throw wrongType(path, "a list", value);
  return value;
}

/** Integers in `[0, count)`, such as token ids. Paths of elements are written only for errors. */
export function requireIds(value: unknown, path: string, count: number): readonly number[] {
  const list = requireList(value, path);
  const range = { min: 0, max: count - 1 };
  for (let i = 0; i < list.length; i++) {
    const id = list[i];
    if (Number.isSafeInteger(id) && (id as number) >= 0 && (id as number) < count) continue;
    requireRange(requireInteger(id, `${path}[${i}]`), `${path}[${i}]`, range);
  }
  return list as readonly number[];
}

/** The error for a field of a wrong type; `wanted` reads after "must be". */
export function wrongType(path: string, wanted: string, value: unknown): HttpError {
  return new HttpError("malformed_body", `${path} must be ${wanted}, got ${describe(value)}`);
}

/** The error for a field with a value it cannot have; `wanted` reads after "must be". */
export function outOfRange(path: string, wanted: string, value: unknown): InvalidRequestError {
  return new InvalidRequestError(`${path} must be ${wanted}, got ${describe(value)}`, path);
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function requireRange(value: number, path: string, { min, max, above }: Range): number {
  const inside =
    (min === undefined || value >= min) &&
    (max === undefined || value <= max) &&
    (above === undefined || value > above);
  if (inside) return value;
  const parts: string[] = [];
  if (above !== undefined) parts.push(`above ${above}`);
  if (min !== undefined) parts.push(`at least ${min}`);
  if (max !== undefined) parts.push(`at most ${max}`);
  throw outOfRange(path, parts.join(" and "), value);
}

function isNeutral(value: unknown, neutral: NeutralValues): boolean {
  if (typeof neutral === "function") return neutral(value);
  return (neutral as readonly unknown[]).includes(value);
}

/** Never walks into the value, which may be nested without limit. */
function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(shorten(value));
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (value === undefined) return "nothing";
  return isObject(value) ? "an object" : String(value);
}

function shorten(text: string): string {
  return text.length <= 60 ? text : `${text.slice(0, 60)}...`;
}
