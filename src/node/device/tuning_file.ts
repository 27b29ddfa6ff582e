/**
 * Tunings that were measured on this machine: one file, an entry for each adapter and driver.
 *
 * @module
 */
import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { EngineError, InvalidRequestError } from "../../errors.ts";
import { requireTuning } from "../../gpu/require_tuning.ts";
import type { AdapterIdentity, Tuning } from "../../gpu/tuning.ts";
import { cacheFolder } from "../cache_folder.ts";

const VERSION = 1;
const FILE_NAME = "tunings.json";
const ADAPTER_FIELDS = ["vendor", "architecture", "device", "description"] as const;

/** A file of tunings that cannot be used as it is. */
export class TuningFileError extends EngineError {
  readonly code = "invalid_tuning";
}

export interface StoredTuning {
  readonly tuning: Tuning;
  /** When it was measured: ISO 8601. */
  readonly measured: string;
}

interface TuningFile {
  readonly version: typeof VERSION;
  readonly tunings: Readonly<Record<string, unknown>>;
}

/** Where tunings are kept when no option says otherwise. */
export function tuningPath(): string {
  return join(cacheFolder(), FILE_NAME);
}

/** What a tuning is for: the adapter, and its driver as far as the adapter tells. */
export function tuningKey(info: AdapterIdentity): string {
  return ADAPTER_FIELDS.map((field) => info[field]).join("; ");
}

/**
 * The tuning of this adapter, undefined where there is none.
 *
 * @throws {TuningFileError} when the file, or the adapter's entry, is not what `storeTuning` writes.
 */
export async function storedTuning(
  info: AdapterIdentity,
  path: string = tuningPath(),
): Promise<StoredTuning | undefined> {
  const file = await readTunings(path);
  const key = tuningKey(info);
  if (!Object.hasOwn(file.tunings, key)) return undefined;
  const { tuning, measured, ...stray } = record(file.tunings[key], path, `the entry "${key}"`);
  const [unknown] = Object.keys(stray);
  if (unknown !== undefined) throw broken(path, `the entry "${key}" has a field "${unknown}"`);
  if (typeof measured !== "string") throw broken(path, `the entry "${key}" has no date`);
  try {
    return { tuning: requireTuning(tuning), measured };
  } catch (error) {
    if (!(error instanceof InvalidRequestError)) throw error;
    throw broken(path, `the entry "${key}" is wrong, ${error.message}`);
  }
}

/**
 * Keeps the tuning of this adapter, and what the file has of other adapters.
 *
 * @throws {TuningFileError} when there is another file at this place, or this user may not write
 * there.
 */
export async function storeTuning(
  info: AdapterIdentity,
  stored: StoredTuning,
  path: string = tuningPath(),
): Promise<void> {
  const { tunings } = await readTunings(path);
  const file: TuningFile = {
    version: VERSION,
    tunings: { ...tunings, [tuningKey(info)]: stored },
  };
  // A process that reads meanwhile has the old file or the new one, and never half of it.
  const fresh = `${path}.${randomUUID()}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(fresh, `${JSON.stringify(file, null, 2)}\n`);
    await rename(fresh, path);
  } catch (cause) {
    throw new TuningFileError(`Cannot write ${path}: ${(cause as Error).message}`, { cause });
  }
}

async function readTunings(path: string): Promise<TuningFile> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT")
      return { version: VERSION, tunings: {} };
    throw new TuningFileError(`Cannot read ${path}: ${(cause as Error).message}`, { cause });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw broken(path, "it is not JSON");
  }
  const { version, tunings, ...stray } = record(value, path, "it");
  const [unknown] = Object.keys(stray);
  if (unknown !== undefined) throw broken(path, `it has a field "${unknown}"`);
  if (version !== VERSION) throw broken(path, `its version is not ${VERSION}`);
  return { version, tunings: record(tunings, path, "its field tunings") };
}

function record(value: unknown, path: string, what: string): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw broken(path, `${what} is not an object`);
}

function broken(path: string, problem: string): TuningFileError {
  return new TuningFileError(
    `Cannot use the tunings in ${path}: ${problem}; "wisp tune" measures anew once it is deleted`,
  );
}
