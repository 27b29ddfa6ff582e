/**
 * How much a request may say in each field: every size that a client chooses has a limit before
 * anything is done with it.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { jsonSource } from "../../grammar/constraints/json_source.ts";
import { type Fields, outOfRange, requireString } from "../../http/fields.ts";
import { isLongJson } from "../../request_limits.ts";

/** UTF-16 units of ids and names, which answers, logs and caches repeat. */
export const MAX_NAME_UNITS = 1024;
/** Messages of a chat, with their parts and calls counted too. */
export const MAX_MESSAGE_ITEMS = 16_384;
/** UTF-16 units of the arguments of all calls of a chat that come as objects and are written as JSON. */
export const MAX_CALL_UNITS = 2 ** 19;
/** Tools of a request. */
export const MAX_TOOLS = 1024;
/** Texts or lists of tokens that one request has tokenized or detokenized. */
export const MAX_TEXTS = 1024;

/** @throws {InvalidRequestError} when a name is too long. */
export function requireName(value: unknown, path: string): string {
  const name = requireString(value, path);
  if (name.length <= MAX_NAME_UNITS) return name;
  throw outOfRange(path, `at most ${MAX_NAME_UNITS} characters`, name);
}

/** The field as a name; undefined when it is absent. */
export function readName(fields: Fields, field: string): string | undefined {
  const value = fields.value(field);
  return value === undefined ? undefined : requireName(value, fields.path(field));
}

/** @throws {InvalidRequestError} when a list has more items. */
export function requireFew(list: readonly unknown[], path: string, most: number): void {
  if (list.length <= most) return;
  throw new InvalidRequestError(`${path} must be at most ${most} items, got ${list.length}`, path);
}

/** The field as a list; undefined when it is absent. */
export function readShortList(
  fields: Fields,
  field: string,
  most: number,
): readonly unknown[] | undefined {
  const list = fields.list(field);
  if (list !== undefined) requireFew(list, fields.path(field), most);
  return list;
}

/** @throws {InvalidRequestError} when the value's JSON is longer than that. */
export function requireShortJson(value: unknown, path: string, units: number): void {
  if (!isLongJson(value, units)) return;
  throw outOfRange(path, `at most ${units} characters of JSON`, value);
}

/** Counts what is in the lists of a request, however it is shared out among them. */
export class ItemLimit {
  readonly #most: number;
  readonly #what: string;
  #left: number;

  /** @param what Reads after "Cannot read". */
  constructor(most: number, what: string) {
    this.#most = most;
    this.#what = what;
    this.#left = most;
  }

  /** @throws {InvalidRequestError} when these are too many together with those before. */
  take(list: readonly unknown[], path: string): void {
    this.#left -= list.length;
    if (this.#left >= 0) return;
    throw new InvalidRequestError(
      `Cannot read ${this.#what}: there are more than ${this.#most}`,
      path,
    );
  }
}

/** Writes the arguments of a request's calls as JSON, however their length is shared out among them. */
export class CallLimit {
  #left = MAX_CALL_UNITS;

  /**
   * @throws {InvalidRequestError} before it writes those that are too long together with those before,
   * and for what no JSON can be written of.
   */
  write(value: object, path: string): string {
    if (!isLongJson(value, this.#left)) {
      const text = jsonSource(value, path);
      this.#left -= text.length;
      if (this.#left >= 0) return text;
    }
    const problem = `the arguments of all calls are longer than ${MAX_CALL_UNITS} characters of JSON`;
    throw new InvalidRequestError(`Cannot read ${path}: ${problem}`, path);
  }
}
