/**
 * Small text files of a checkpoint folder, read whole.
 *
 * @module
 */

import { CheckpointError } from "../errors.ts";
import { jsonExcess } from "./json_limits.ts";
import type { WeightSource } from "./source.ts";

/** Room for the largest vocabulary and the longest list of tensors, not for weights. */
export const MAX_TEXT_BYTES = 100_000_000;

/**
 * A UTF-8 file as a string.
 *
 * @throws {CheckpointError} when it is missing, too long or not UTF-8.
 */
export async function readText(source: WeightSource, file: string): Promise<string> {
  const text = await readOptionalText(source, file);
  if (text === undefined) throw new CheckpointError(file, `${source.name} has no such file`);
  return text;
}

/** Like `readText`, but undefined when the source has no such file. */
export async function readOptionalText(
  source: WeightSource,
  file: string,
): Promise<string | undefined> {
  const bytes = await readOptionalBytes(source, file);
  if (bytes === undefined) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new CheckpointError(file, "it is not UTF-8 text", undefined, { cause });
  }
}

/**
 * The bytes of a text file, undefined when the source has no such file.
 *
 * @throws {CheckpointError} when it is too long.
 */
export async function readOptionalBytes(
  source: WeightSource,
  file: string,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const found = (await source.list()).find(({ name }) => name === file);
  if (found === undefined) return undefined;
  const { size } = found;
  if (size > MAX_TEXT_BYTES) {
    const limit = `over the limit of ${MAX_TEXT_BYTES} for a text file`;
    throw new CheckpointError(file, `it has ${size} bytes, ${limit}`);
  }
  return source.read(file, 0, size);
}

/**
 * A JSON file's value.
 *
 * @throws {CheckpointError} when it is missing, not JSON, or beyond the limits of `jsonExcess`.
 */
export async function readJson(source: WeightSource, file: string): Promise<unknown> {
  return parseJson(file, await readText(source, file));
}

/** Like `readJson`, but undefined when the source has no such file. */
export async function readOptionalJson(source: WeightSource, file: string): Promise<unknown> {
  const text = await readOptionalText(source, file);
  return text === undefined ? undefined : parseJson(file, text);
}

function parseJson(file: string, text: string): unknown {
  const excess = jsonExcess(text);
  if (excess !== undefined) throw new CheckpointError(file, excess);
  try {
    return JSON.parse(text);
  } catch (cause) {
    // The message quotes the file, whose line breaks would tear the sentence apart.
    const problem = (cause instanceof Error ? cause.message : String(cause)).replace(/\s+/g, " ");
    throw new CheckpointError(file, `it is not valid JSON: ${problem}`, undefined, { cause });
  }
}

/** Whether a JSON value is an object, so neither null nor an array. */
export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
