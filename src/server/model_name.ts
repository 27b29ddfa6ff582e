/**
 * The name under which a model is served unless it is given one.
 *
 * @module
 */
import { parseModelId } from "../checkpoint/model_id.ts";
import { InvalidRequestError } from "../errors.ts";

/** A folder in the cache of a tool for model hubs. */
const SNAPSHOT = /\/models--([^/]+)\/snapshots\/[^/]+$/;

/**
 * The id of a model from a hub, without its revision; of a folder or an address its last part.
 *
 * @param path What the model was loaded from, as `ModelDescription` has it.
 */
export function modelNameOf(path: string): string {
  const known = parseModelId(path);
  if (known !== undefined) return known.id;
  const folder = path
    .replaceAll("\\", "/")
    .replace(/[?#].*$/, "")
    .replace(/\/+$/, "");
  const cached = SNAPSHOT.exec(folder)?.[1];
  if (cached !== undefined) return cached.replaceAll("--", "/");
  return folder.slice(folder.lastIndexOf("/") + 1) || path;
}

/**
 * The names of a model that was given some, or none: each once.
 *
 * @throws {InvalidRequestError} when one is empty.
 */
export function modelNamesOf(
  path: string,
  given: string | readonly string[] = [],
): readonly [string, ...string[]] {
  const names = new Set(typeof given === "string" ? [given] : given);
  if (names.has("")) {
    throw new InvalidRequestError("servedModelName cannot be empty", "servedModelName");
  }
  const [first = modelNameOf(path), ...others] = names;
  return [first, ...others];
}
