/**
 * Field by field reading of config.json and its like.
 *
 * A model reads what it knows; `finish` then refuses and names whatever is left, so that no field
 * is accepted and ignored. A field that is null counts as absent, as writers of these files mean
 * it.
 *
 * @module
 */

import { CheckpointError, UnsupportedError } from "../errors.ts";
import { isHarmless } from "./harmless_fields.ts";
import { isJsonObject, readJson } from "./json_file.ts";
import type { WeightSource } from "./source.ts";

/** What to return for an absent field. Without it the field is required. */
export interface FieldOptions<F> {
  readonly fallback?: F;
}

export interface NumberOptions<F> extends FieldOptions<F> {
  /** Smallest value allowed. */
  readonly min?: number;
  /** Largest value allowed. */
  readonly max?: number;
}

export interface OnlyOptions {
  /** Whether the field must be there. Default false. */
  readonly required?: boolean;
}

export interface FinishOptions {
  /** Further fields that this model knows and needs no value of. */
  readonly ignored?: readonly string[];
}

/** Characters of a wrong value shown in a message. */
const VALUE_SHOWN = 60;

/** One JSON object of a file, whose fields are asked for by name and type. */
export class ConfigReader {
  readonly file: string;
  /** Names of the objects around this one, each with a dot after it. */
  readonly #path: string;
  readonly #isModel: boolean;
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #asked = new Set<string>();
  readonly #sections: ConfigReader[] = [];

  /**
   * @param place `isModel`: whether it describes a model, as a file without a path does by default.
   * @throws {CheckpointError} when `value` is not a JSON object.
   */
  constructor(
    value: unknown,
    place: { readonly file: string; readonly path?: string; readonly isModel?: boolean },
  ) {
    this.file = place.file;
    this.#path = place.path ?? "";
    this.#isModel = place.isModel ?? this.#path === "";
    if (!isJsonObject(value)) {
      throw new CheckpointError(this.file, `it must be an object, not ${show(value)}`, place.path);
    }
    this.#fields = value;
  }

  /** Whether the field is there and not null. Does not count as reading it. */
  has(field: string): boolean {
    return Object.hasOwn(this.#fields, field) && this.#fields[field] !== null;
  }

  /** Whether the field is there and null, for the few that mean something else by that than by absence. */
  isNull(field: string): boolean {
    return Object.hasOwn(this.#fields, field) && this.#fields[field] === null;
  }

  /** Names of the fields that are there and not null. */
  names(): string[] {
    return Object.keys(this.#fields).filter((field) => this.has(field));
  }

  /** Counts fields as read, of any type: nothing here depends on their values. */
  skip(...fields: string[]): void {
    for (const field of fields) this.#asked.add(field);
  }

  /** A whole number, exact in a double. */
  integer<F = never>(field: string, options: NumberOptions<F> = {}): number | F {
    const { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER } = options;
    return this.#read(field, options, {
      what: `a whole number${bounds(options)}`,
      accepts: (value): value is number =>
        Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max,
    });
  }

  /** A finite number. */
  number<F = never>(field: string, options: NumberOptions<F> = {}): number | F {
    const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = options;
    return this.#read(field, options, {
      what: `a number${bounds(options)}`,
      accepts: (value): value is number =>
        Number.isFinite(value) && (value as number) >= min && (value as number) <= max,
    });
  }

  boolean<F = never>(field: string, options: FieldOptions<F> = {}): boolean | F {
    return this.#read(field, options, {
      what: "true or false",
      accepts: (value): value is boolean => typeof value === "boolean",
    });
  }

  string<F = never>(field: string, options: FieldOptions<F> = {}): string | F {
    return this.#read(field, options, { what: "a string", accepts: isString });
  }

  strings<F = never>(field: string, options: FieldOptions<F> = {}): readonly string[] | F {
    return this.#read(field, options, {
      what: "a list of strings",
      accepts: (value): value is string[] => Array.isArray(value) && value.every(isString),
    });
  }

  /** A list of whole numbers. */
  integers<F = never>(field: string, options: FieldOptions<F> = {}): readonly number[] | F {
    return this.#read(field, options, {
      what: "a list of whole numbers",
      accepts: (value): value is number[] =>
        Array.isArray(value) && value.every((item) => Number.isSafeInteger(item)),
    });
  }

  /** A list of finite numbers. */
  numbers<F = never>(field: string, options: FieldOptions<F> = {}): readonly number[] | F {
    return this.#read(field, options, {
      what: "a list of numbers",
      accepts: (value): value is number[] =>
        Array.isArray(value) && value.every((item) => Number.isFinite(item)),
    });
  }

  /** A list of pairs of whole numbers. */
  pairs(field: string): readonly (readonly [number, number])[] {
    const isPair = (value: unknown) =>
      Array.isArray(value) &&
      value.length === 2 &&
      value.every((item) => Number.isSafeInteger(item));
    return this.#read(
      field,
      {},
      {
        what: "a list of pairs of whole numbers",
        accepts: (value): value is [number, number][] =>
          Array.isArray(value) && value.every(isPair),
      },
    );
  }

  /** An object inside this one. `finish` of this reader finishes it too. */
  section<F = never>(field: string, options: FieldOptions<F> = {}): ConfigReader | F {
    const fields = this.#read(field, options, { what: "an object", accepts: isJsonObject });
    if (!isJsonObject(fields) || !this.has(field)) return fields as F;
    return this.#section(field, fields, false);
  }

  /**
   * The same of an object that describes a model of its own, which is a part of this one.
   *
   * @param defaults Of fields that are absent. Default: no field gets one here.
   */
  modelSection(field: string, defaults: Readonly<Record<string, unknown>> = {}): ConfigReader {
    const fields = this.#read(field, {}, { what: "an object", accepts: isJsonObject });
    const all = fields as Readonly<Record<string, unknown>>;
    const given = Object.entries(all).filter(([, value]) => value !== null);
    return this.#section(field, { ...defaults, ...Object.fromEntries(given) }, true);
  }

  #section(field: string, fields: unknown, isModel: boolean): ConfigReader {
    const path = `${this.#path}${field}.`;
    const section = new ConfigReader(fields, { file: this.file, path, isModel });
    this.#sections.push(section);
    return section;
  }

  /**
   * A field of which only some values are supported.
   *
   * @returns The value, or the first of `values` when the field is absent and not required.
   * @throws {UnsupportedError} naming the field and its value.
   * @throws {CheckpointError} when the field is required and absent.
   */
  only<T extends string | number | boolean>(
    field: string,
    values: readonly [T, ...T[]],
    { required = false }: OnlyOptions = {},
  ): T {
    this.#asked.add(field);
    const wanted = values.map((one) => JSON.stringify(one)).join(" or ");
    if (!this.has(field)) {
      if (required) throw this.error(field, `the field is missing, it must be ${wanted}`);
      return values[0];
    }
    const value = this.#fields[field];
    const supported = values.find((one) => one === value);
    if (supported === undefined) {
      throw new UnsupportedError(
        `${this.#path}${field} ${show(value)} of ${this.file}`,
        `only ${wanted} is supported`,
      );
    }
    return supported;
  }

  /** For a model's own checks of a value that it has read. */
  error(field: string, problem: string): CheckpointError {
    return new CheckpointError(this.file, problem, this.#path + field);
  }

  /**
   * Refuses every field that was neither read nor is known to be harmless.
   *
   * @throws {UnsupportedError} naming them all.
   */
  finish({ ignored = [] }: FinishOptions = {}): void {
    const left = Object.keys(this.#fields).filter(
      (field) =>
        this.has(field) &&
        !this.#asked.has(field) &&
        !ignored.includes(field) &&
        !(this.#isModel && isHarmless(field, this.#fields[field])),
    );
    if (left.length > 0) {
      const named = left.map((field) => `${this.#path}${field} ${show(this.#fields[field])}`);
      throw new UnsupportedError(
        `${named.join(", ")} of ${this.file}`,
        "the engine does not know it",
      );
    }
    for (const section of this.#sections) section.finish();
  }

  #read<T, F>(
    field: string,
    options: FieldOptions<F>,
    type: { readonly what: string; readonly accepts: (value: unknown) => value is T },
  ): T | F {
    this.#asked.add(field);
    if (!this.has(field)) {
      if ("fallback" in options) return options.fallback as F;
      throw this.error(field, `the field is missing, it must be ${type.what}`);
    }
    const value = this.#fields[field];
    if (!type.accepts(value))
      throw this.error(field, `it must be ${type.what}, not ${show(value)}`);
    return value;
  }
}

/** A reader of the checkpoint's config.json. */
export async function readConfig(source: WeightSource): Promise<ConfigReader> {
  return new ConfigReader(await readJson(source, "config.json"), { file: "config.json" });
}

function isString(value: unknown): value is string {
  return typeof value === "string";
}

function bounds({ min, max }: { readonly min?: number; readonly max?: number }): string {
  if (min !== undefined && max !== undefined) return ` from ${min} to ${max}`;
  if (min !== undefined) return ` of at least ${min}`;
  return max === undefined ? "" : ` of at most ${max}`;
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > VALUE_SHOWN ? `${text.slice(0, VALUE_SHOWN)}...` : text;
}
