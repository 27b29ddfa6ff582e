/**
 * Stored prefixes in the browser's own storage (the origin private file system), for pages and
 * workers.
 *
 * Tabs share them. A file appears whole: browsers write a copy that takes its place at the end, and
 * where they can only write in place, which is in workers, it gets its name at the end. Files of a
 * tab that was closed meanwhile are empty or have no name; readers pass them over.
 *
 * @module
 */
import { isBlobName, type PrefixStorage, type StoredBlob } from "../../cache/prefix_storage.ts";
import { UnsupportedError } from "../../errors.ts";
import { isNotFound, type SyncAccess, writerInPlace } from "./opfs_file.ts";
import { browserLocks } from "./opfs_locks.ts";
import { isQuotaError } from "./storage_error.ts";

/** A file, with methods that not every browser has. */
interface BlobFile extends Pick<FileSystemFileHandle, "getFile"> {
  /** In dedicated workers only. */
  createSyncAccessHandle?(): Promise<SyncAccess>;
  move?(name: string): Promise<void>;
}

const FOLDER = "wisp-prefixes";
/** When each blob was used: files of this storage have no time that can be set. */
const TIMES = "times.json";
const UNFINISHED = "unfinished-";
/** Milliseconds after which no tab goes on writing a file. */
const ABANDONED = 3_600_000;
/** Part of the quota that stored prefixes may take, and bytes of it at most. */
const SHARE = 1 / 10;
const MOST = 2 * 2 ** 30;

/**
 * Storage for `EngineOptions.prefixStore`.
 *
 * @param name Prefixes under different names are apart. Default those of this origin.
 * @throws {UnsupportedError} when this browser or page has no storage, as pages without https.
 */
export async function openPrefixStorage(name: string = FOLDER): Promise<PrefixStorage> {
  const { storage } = navigator as { readonly storage?: StorageManager };
  if (storage?.getDirectory === undefined) {
    throw new UnsupportedError("stored prefixes", "this browser or page has no storage of its own");
  }
  const root = await storage.getDirectory();
  return new BrowserPrefixes(await root.getDirectoryHandle(name, { create: true }), name);
}

class BrowserPrefixes implements PrefixStorage {
  readonly #folder: FileSystemDirectoryHandle;
  readonly #lock: string;
  readonly #locks = browserLocks();

  constructor(folder: FileSystemDirectoryHandle, name: string) {
    this.#folder = folder;
    this.#lock = `${name} times`;
  }

  async list(): Promise<readonly StoredBlob[]> {
    const times = await this.#times();
    const blobs: StoredBlob[] = [];
    for await (const [name, handle] of this.#folder.entries()) {
      const isBlob = isBlobName(name);
      if (handle.kind !== "file" || !(isBlob || name.startsWith(UNFINISHED))) continue;
      const file = await unlessMissing((handle as FileSystemFileHandle).getFile());
      if (file === undefined) continue;
      const { size, lastModified } = file;
      if (isBlob && size > 0) {
        blobs.push({ name, byteLength: size, usedAt: Math.max(lastModified, times[name] ?? 0) });
      } else if (lastModified < Date.now() - ABANDONED) {
        await this.delete([name]);
      }
    }
    return blobs;
  }

  async read(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const handle = await unlessMissing(this.#folder.getFileHandle(name));
    const file = handle && (await unlessMissing(handle.getFile()));
    if (file === undefined || file.size === 0) return undefined;
    const bytes = await unlessMissing(file.arrayBuffer());
    return bytes && new Uint8Array(bytes);
  }

  async write(name: string, parts: readonly Uint8Array<ArrayBuffer>[]): Promise<void> {
    if ("createWritable" in FileSystemFileHandle.prototype) {
      await writeCopy(await this.#folder.getFileHandle(name, { create: true }), parts);
    } else {
      await this.#writeInPlace(name, parts);
    }
  }

  async #writeInPlace(name: string, parts: readonly Uint8Array<ArrayBuffer>[]): Promise<void> {
    const unfinished = UNFINISHED + crypto.randomUUID();
    const file: BlobFile = await this.#folder.getFileHandle(unfinished, { create: true });
    try {
      await writeWhole(file, parts);
      await this.delete([name]);
      await file.move!(name);
    } catch (error) {
      await this.delete([unfinished]);
      throw error;
    }
  }

  async delete(names: readonly string[]): Promise<void> {
    for (const name of names) await unlessMissing(this.#folder.removeEntry(name));
  }

  markUsed(names: readonly string[]): Promise<void> {
    return this.#locks.request(this.#lock, { mode: "exclusive" }, async () => {
      const now = Date.now();
      const used = names.map((name, i) => [name, now - i] as const);
      const times = { ...(await this.#times()), ...Object.fromEntries(used) };
      const stored = new Set((await this.list()).map(({ name }) => name));
      const known = Object.entries(times).filter(([name]) => stored.has(name));
      const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(known)));
      await this.write(TIMES, [json]);
    });
  }

  async capacity(): Promise<number> {
    const { quota = MOST / SHARE } = await navigator.storage.estimate();
    return Math.min(Math.floor(SHARE * quota), MOST);
  }

  isFull(error: unknown): boolean {
    return isQuotaError(error);
  }

  /** What cannot be read is forgotten: blobs have the times of their files then. */
  async #times(): Promise<Readonly<Record<string, number>>> {
    const bytes = await this.read(TIMES);
    try {
      return bytes === undefined ? {} : JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      return {};
    }
  }
}

async function writeCopy(
  file: FileSystemFileHandle,
  parts: readonly Uint8Array<ArrayBuffer>[],
): Promise<void> {
  const copy = await file.createWritable();
  try {
    for (const part of parts) await copy.write(part);
  } catch (error) {
    await copy.abort().catch(() => {});
    throw error;
  }
  await copy.close();
}

async function writeWhole(
  file: BlobFile,
  parts: readonly Uint8Array<ArrayBuffer>[],
): Promise<void> {
  if (file.createSyncAccessHandle === undefined || file.move === undefined) {
    const reason = "this browser writes to its storage in workers only, and this is a page";
    throw new UnsupportedError("stored prefixes", reason);
  }
  const writer = await writerInPlace(await file.createSyncAccessHandle(), 0);
  try {
    let at = 0;
    for (const part of parts) {
      await writer.write(part, at);
      at += part.length;
    }
  } catch (error) {
    // Of two failures the first says more.
    await writer.close().catch(() => {});
    throw error;
  }
  await writer.close();
}

/** @returns `undefined` where the file is not there, or is not any more. */
async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
