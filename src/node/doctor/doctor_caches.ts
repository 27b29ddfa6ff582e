/**
 * What `wisp doctor` tells of the folders that files are kept in.
 *
 * @module
 */
import { constants } from "node:fs";
import { access, lstat, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { cacheFolder } from "../cache_folder.ts";
import { tuningPath } from "../device/tuning_file.ts";
import { type Environment, hubSettings } from "../hub/hub_settings.ts";

export interface CacheFindings {
  /** What is kept there. */
  readonly name: string;
  readonly path: string;
  readonly exists: boolean;
  /** Of the files that were looked at. */
  readonly bytes: number;
  /** False where there are more files than were looked at. */
  readonly isAll: boolean;
  readonly isWritable: boolean;
}

/** Files that are looked at: a size must not take longer than everything else. */
const MOST_FILES = 20_000;

/** @throws {OptionError} when a variable of the model hub is wrong. */
export function examineCaches(env: Environment): Promise<readonly CacheFindings[]> {
  const own = cacheFolder();
  const places = [
    { name: "downloaded models", path: hubSettings(env).cacheFolder },
    { name: "unpacked drivers and shaders", path: own },
    { name: "measured kernels", path: tuningPath() },
    { name: "compiled shaders of Mesa", path: env.MESA_SHADER_CACHE_DIR || join(own, "mesa") },
  ];
  return Promise.all(places.map(examine));
}

async function examine({ name, path }: { name: string; path: string }): Promise<CacheFindings> {
  const counted = { bytes: 0, files: 0 };
  const exists = await count(path, counted);
  return {
    name,
    path,
    exists,
    bytes: counted.bytes,
    isAll: counted.files < MOST_FILES,
    isWritable: await isWritable(path),
  };
}

/** @returns Whether there is such a file or folder. Links are not followed: hubs' caches are full of them. */
async function count(path: string, counted: { bytes: number; files: number }): Promise<boolean> {
  const entry = await lstat(path).catch(() => undefined);
  if (entry === undefined) return false;
  counted.files += 1;
  if (!entry.isDirectory()) counted.bytes += entry.size;
  else {
    for (const name of await readdir(path).catch(() => [])) {
      if (counted.files >= MOST_FILES) break;
      await count(join(path, name), counted);
    }
  }
  return true;
}

/** Of a place that is not there yet: whether it can be made. */
async function isWritable(path: string): Promise<boolean> {
  try {
    await access(path, constants.W_OK);
    return true;
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
    return isMissing && dirname(path) !== path && isWritable(dirname(path));
  }
}
