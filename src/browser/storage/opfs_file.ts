/**
 * Files of the browser's own storage (the origin private file system), and the two ways in which
 * browsers write them: in place, which only dedicated workers may, or through a copy that takes the
 * file's place at the end.
 *
 * @module
 */

import { UnsupportedError } from "../../errors.ts";

/** What is needed of a `FileSystemDirectoryHandle`. */
export interface StorageFolder {
  getDirectoryHandle(name: string, options?: { create?: boolean }): Promise<StorageFolder>;
  getFileHandle(name: string, options?: { create?: boolean }): Promise<StorageFile>;
  removeEntry(name: string, options?: { recursive?: boolean }): Promise<void>;
  keys(): AsyncIterable<string>;
}

/** What is needed of a `FileSystemFileHandle`. */
export interface StorageFile {
  getFile(): Promise<File>;
  createWritable?(options?: { keepExistingData?: boolean }): Promise<WritableCopy>;
  createSyncAccessHandle?(): Promise<SyncAccess>;
}

/** What is needed of a `FileSystemWritableFileStream`. */
export interface WritableCopy {
  truncate(size: number): Promise<void>;
  write(piece: { type: "write"; position: number; data: Uint8Array<ArrayBuffer> }): Promise<void>;
  close(): Promise<void>;
}

/** What is needed of a `FileSystemSyncAccessHandle`. */
export interface SyncAccess {
  write(bytes: Uint8Array<ArrayBuffer>, options: { at: number }): number;
  // Older browsers give promises here.
  truncate(size: number): void | Promise<void>;
  flush(): void | Promise<void>;
  close(): void | Promise<void>;
}

/** What is written is sure to stay once `close` has returned. */
export interface FileWriter {
  write(bytes: Uint8Array<ArrayBuffer>, position: number): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens a file for writing.
 *
 * @param kept Bytes at its start that stay; the rest is cut off.
 * @throws {UnsupportedError} where this browser can write in workers only.
 */
export async function openWriter(file: StorageFile, kept: number): Promise<FileWriter> {
  if (file.createSyncAccessHandle !== undefined) {
    return writerInPlace(await file.createSyncAccessHandle(), kept);
  }
  if (file.createWritable !== undefined) {
    const copy = await file.createWritable({ keepExistingData: kept > 0 });
    if (kept > 0) await copy.truncate(kept);
    return {
      write: (data, position) => copy.write({ type: "write", position, data }),
      close: () => copy.close(),
    };
  }
  const reason = "this browser writes it in workers only, and this is a page";
  throw new UnsupportedError("the browser's file storage", reason);
}

/**
 * Writes a file where it lies.
 *
 * @param kept Bytes at its start that stay; the rest is cut off.
 */
export async function writerInPlace(access: SyncAccess, kept: number): Promise<FileWriter> {
  await access.truncate(kept);
  return {
    write: async (bytes, position) => writeAll(access, bytes, position),
    async close() {
      try {
        await access.flush();
      } finally {
        await access.close();
      }
    },
  };
}

/**
 * Writes all of `bytes`, in as many pieces as the browser takes.
 *
 * @throws {DOMException} named QuotaExceededError where it takes no more.
 */
export function writeAll(
  access: Pick<SyncAccess, "write">,
  bytes: Uint8Array<ArrayBuffer>,
  position: number,
): void {
  for (let done = 0; done < bytes.length; ) {
    const rest = bytes.subarray(done);
    const written = access.write(rest, { at: position + done });
    // Chromium 156 gives the number of its error here, below 0 and read as one without a sign.
    const isTaken = written > 0 && written <= rest.length;
    if (!isTaken) throw new DOMException("The storage is full", "QuotaExceededError");
    done += written;
  }
}

/** Whether storage has no such file or folder. */
export function isNotFound(error: unknown): boolean {
  return error instanceof DOMException && error.name === "NotFoundError";
}

/** Undefined where the folder has no such file. */
export async function findFile(folder: StorageFolder, name: string): Promise<File | undefined> {
  try {
    return await (await folder.getFileHandle(name)).getFile();
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
