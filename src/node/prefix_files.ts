/**
 * Stored prefixes as files of a folder.
 *
 * Several processes may share the folder: a file appears whole, under its name, or not at all, and
 * every process sees by its time of change when it was last used.
 *
 * @module
 */
import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes } from "node:fs/promises";
import { join, resolve } from "node:path";
import { isBlobName, type PrefixStorage, type StoredBlob } from "../cache/prefix_storage.ts";

/** No other file of the folder is looked at, or deleted. */
const SUFFIX = ".wisp-prefix";
/** Of files that are being written. */
const UNFINISHED = ".wisp-unfinished";
/** Milliseconds after which no process goes on writing a file. */
const ABANDONED = 3_600_000;

/**
 * A folder for `EngineOptions.prefixStore`, made when something is written. A process that can
 * write there decides what models continue: it should be the user's own.
 */
export function prefixFiles(path: string): PrefixStorage {
  return new PrefixFiles(resolve(path));
}

class PrefixFiles implements PrefixStorage {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async list(): Promise<readonly StoredBlob[]> {
    const blobs: StoredBlob[] = [];
    for (const file of await unlessMissing(() => readdir(this.#folder), [])) {
      const found = await unlessMissing(() => stat(join(this.#folder, file)), undefined);
      if (found === undefined || !found.isFile()) continue;
      const { size, mtimeMs } = found;
      const name = file.slice(0, -SUFFIX.length);
      if (file.endsWith(SUFFIX) && isBlobName(name)) {
        blobs.push({ name, byteLength: size, usedAt: mtimeMs });
      } else if (file.endsWith(UNFINISHED) && mtimeMs < Date.now() - ABANDONED) {
        await rm(join(this.#folder, file), { force: true });
      }
    }
    return blobs;
  }

  read(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return unlessMissing(async () => {
      // A buffer of Node's own may be a part of one that other readers have.
      const bytes = await readFile(this.#path(name));
      return new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
    }, undefined);
  }

  async write(name: string, parts: readonly Uint8Array<ArrayBuffer>[]): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const fresh = join(this.#folder, `${randomUUID()}${UNFINISHED}`);
    try {
      const file = await open(fresh, "wx", 0o600);
      try {
        for (const part of parts) await file.writeFile(part);
      } finally {
        await file.close();
      }
      await rename(fresh, this.#path(name));
    } catch (error) {
      await rm(fresh, { force: true }).catch(() => {});
      throw error;
    }
  }

  async delete(names: readonly string[]): Promise<void> {
    for (const name of names) await rm(this.#path(name), { force: true });
  }

  async markUsed(names: readonly string[]): Promise<void> {
    const now = Date.now();
    for (const [i, name] of names.entries()) {
      const time = (now - i) / 1000;
      await unlessMissing(() => utimes(this.#path(name), time, time), undefined);
    }
  }

  #path(name: string): string {
    return join(this.#folder, name + SUFFIX);
  }
}

async function unlessMissing<T>(work: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return otherwise;
    throw error;
  }
}
