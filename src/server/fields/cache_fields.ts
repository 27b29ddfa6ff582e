/**
 * What requests say about the prefix cache.
 *
 * `cache_salt` and `extra_key` are two names for what keeps the cached prefixes of tenants apart.
 * Either alone names a partition of the cache, the same one for the same text. Both together, when
 * they differ, name a partition of their own, which no other pair has.
 *
 * `store_prefix` keeps a prompt, or so many tokens at its beginning, beyond the server's life.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { GenerationRequest, ModelDescription } from "../../generation.ts";
import { type Fields, outOfRange } from "../../http/fields.ts";
import { requireName } from "./field_limits.ts";

/** Tokens that `store_prefix` may be at least: a block of what is stored. */
const MIN_STORED = 64;

/** What a request asks to store of its prompts, true for all of them. */
export function readStorePrefix(
  fields: Fields,
  {
    model: { storesPrefixes = false },
    hasTokens = true,
  }: { readonly model: ModelDescription; readonly hasTokens?: boolean },
): GenerationRequest["storePrefix"] {
  const name = "store_prefix";
  const value = fields.value(name);
  if (value === undefined || value === false) return undefined;
  const isCount = typeof value === "number" && Number.isSafeInteger(value) && value >= MIN_STORED;
  if (value !== true && !isCount) {
    throw outOfRange(name, `true, false or a whole number of at least ${MIN_STORED}`, value);
  }
  if (!storesPrefixes) {
    throw new UnsupportedError(name, "this server keeps no prefixes", { field: name });
  }
  if (!hasTokens) throw new UnsupportedError(name, "input_embeds are not stored", { field: name });
  return value;
}

/** The partition that a request names; none when it names none. */
export function readCacheSalt(fields: Fields): string | undefined {
  return readCacheSalts(fields, { count: 1, batch: false })[0];
}

/** For each prompt of a batch; a list has one item for each of them, null for none. */
export function readCacheSalts(
  fields: Fields,
  { count, batch }: { readonly count: number; readonly batch: boolean },
): readonly (string | undefined)[] {
  const read = (name: string): readonly (string | undefined)[] => {
    const value = fields.value(name);
    if (!batch || !Array.isArray(value)) {
      const shared = value === undefined ? undefined : requireKey(value, name);
      return new Array<string | undefined>(count).fill(shared);
    }
    if (value.length !== count) {
      throw new InvalidRequestError(
        `${name} must have one item for each of the ${count} prompts, got ${value.length}`,
        name,
      );
    }
    return value.map((item: unknown, i) =>
      item === null ? undefined : requireKey(item, `${name}[${i}]`),
    );
  };
  const salts = read("cache_salt");
  const keys = read("extra_key");
  return salts.map((salt, i) => combine(salt, keys[i]));
}

/** As JSON, so that where one ends and the other begins is beyond doubt. */
function combine(salt: string | undefined, key: string | undefined): string | undefined {
  if (salt === undefined || key === undefined || salt === key) return salt ?? key;
  return JSON.stringify([salt, key]);
}

/** An empty key would be a partition that its client takes for none. */
function requireKey(value: unknown, path: string): string {
  const key = requireName(value, path);
  if (key === "") throw new InvalidRequestError(`${path} cannot be empty`, path);
  return key;
}
