/**
 * Typed reading of a JSON object that a stranger wrote: every error names the field by its path,
 * and a field that no reader took is an error too.
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

/** Values that change no answer, as a list or as a test. Null is always one of them. */
export type IdleValues = readonly (string | number | boolean)[] | ((value: unknown) => boolean);

/** Fields that a server does not act on, each with the values that it takes all the same. */
export type IdleFields = Readonly<Record<string, IdleValues>>;

export interface FieldsOptions {
  /** Where the object stands in the body. Default "", the body itself. */
  readonly path?: string;
  /** Is told the name of each field that was taken and has no effect. Default: none. */
  readonly onIdle?: ((name: string) => void) | undefined;
}

export class Fields {
  readonly #values: Readonly<Record<string, unknown>>;
  readonly #path: string;
  readonly #onIdle: FieldsOptions["onIdle"];
  readonly #known = new Set<string>();
  /** Name of a field -> the other name under which its value came. */
  readonly #aliases = new Map<string, string>();

  /** @throws {HttpError} when `value` is not an object. */
  constructor(value: unknown, { path = "", onIdle }: FieldsOptions = {}) {
    if (!isObject(value)) throw wrongType(path, "an object", value);
    this.#values = value;
    this.#path = path;
    this.#onIdle = onIdle;
  }

  /** An object inside of this one, such as an item of a list. `path` is that of the whole body. */
  within(value: unknown, path: string): Fields {
    return new Fields(value, { path, onIdle: this.#onIdle });
  }

  /** The field's name as the client and errors write it, such as `sampling_params.top_p`. */
  path(name: string): string {
    const written = this.#aliases.get(name) ?? name;
    return this.#path === "" ? written : `${this.#path}.${written}`;
  }

  /** The value as it came; undefined when it is absent or null. */
  value(name: string): unknown {
    this.#known.add(name);
    const written = this.#aliases.get(name) ?? name;
    return Object.hasOwn(this.#values, written) ? (this.#values[written] ?? undefined) : undefined;
  }

  /**
   * From here on the field may also come by another name, and errors call it by the one it came by.
   *
   * @throws {InvalidRequestError} when it comes by both, with different values.
   */
  alias(name: string, other: string): void {
    const [own, given] = [this.value(name), this.value(other)];
    if (given === undefined || given === own) return;
    if (own === undefined) {
      this.#aliases.set(name, other);
      return;
    }
    const path = this.path(other);
    throw outOfRange(
      path,
      `what ${this.path(name)} is, for which it is another name: ${describe(own)}`,
      given,
    );
  }

  /** Of the fields that have a value, in their order. */
  names(): readonly string[] {
    return Object.keys(this.#values).filter((name) => this.#values[name] !== null);
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
    return value === undefined ? undefined : this.within(value, this.path(name));
  }

  /**
   * Takes fields that nothing is done with, as long as their values change no answer.
   *
   * @throws {UnsupportedError} naming one whose value would.
   */
  takeIdle(fields: IdleFields): void {
    for (const [name, idle] of Object.entries(fields)) {
      const value = this.value(name);
      if (value === undefined) continue;
      const path = this.path(name);
      if (!isIdle(value, idle)) {
        throw new UnsupportedError(path, "it is not supported yet", { field: path });
      }
      this.ignore(name);
    }
  }

  /** Says that a field was taken and has no effect. */
  ignore(name: string): void {
    this.#onIdle?.(name);
  }

  /** @throws {InvalidRequestError} naming a field that no reader took; a null asks for nothing. */
  end(): void {
    const unknown = this.names().find((name) => !this.#known.has(name));
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

/** The error for a field of a wrong type, or the body at the path ""; `wanted` reads after "must be". */
export function wrongType(path: string, wanted: string, value: unknown): HttpError {
  const name = path === "" ? "The request body" : path;
  const message = `${name} must be ${wanted}, got ${describe(value)}`;
  return new HttpError("malformed_body", message, { field: path || undefined });
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

function isIdle(value: unknown, idle: IdleValues): boolean {
  if (typeof idle === "function") return idle(value);
  return (idle as readonly unknown[]).includes(value);
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
