/**
 * A checkpoint folder on disk as a `WeightSource`.
 *
 * @module
 */

import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { SourceFile, WeightSource } from "../checkpoint/source.ts";
import { CheckpointError } from "../errors.ts";

export type FolderSource = Omit<Required<WeightSource>, "tensors">;

/**
 * Opens a folder of checkpoint files. Nothing is read yet; files stay open between reads, until
 * `close`, which loading an engine calls.
 *
 * @param name What messages call it. Default its path.
 * @throws {CheckpointError} when there is no such folder.
 */
export async function openFolder(path: string, name?: string): Promise<FolderSource> {
  const folder = resolve(path);
  const found = await stat(folder).catch((cause: Error) => {
    throw new CheckpointError(path, `there is no such folder on this machine`, undefined, {
      cause,
    });
  });
  if (!found.isDirectory()) throw new CheckpointError(path, "it is not a folder");
  return new Folder(folder, name ?? folder);
}

class Folder implements FolderSource {
  readonly name: string;
  readonly #path: string;
  readonly #handles = new Map<string, Promise<FileHandle>>();

  constructor(path: string, name: string) {
    this.#path = path;
    this.name = name;
  }

  /** Links count as what they point to: caches of downloaded models are made of links. */
  async list(): Promise<readonly SourceFile[]> {
    const files: SourceFile[] = [];
    for (const name of (await readdir(this.#path)).sort()) {
      const found = await stat(join(this.#path, name)).catch(() => undefined);
      if (found?.isFile()) files.push({ name, size: found.size });
    }
    return files;
  }

  async read(file: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const handle = await this.#open(file);
    const bytes = new Uint8Array(length);
    let done = 0;
    while (done < length) {
      const { bytesRead } = await handle
        .read(bytes, done, length - done, offset + done)
        .catch((cause: Error) => {
          throw new CheckpointError(file, cause.message, undefined, { cause });
        });
      if (bytesRead === 0) {
        const wanted = `bytes ${offset} to ${offset + length}`;
        throw new CheckpointError(file, `it ends at byte ${offset + done}, ${wanted} are needed`);
      }
      done += bytesRead;
    }
    return bytes;
  }

  async close(): Promise<void> {
    const handles = [...this.#handles.values()];
    this.#handles.clear();
    await Promise.all(handles.map(async (handle) => (await handle).close()));
  }

  #open(file: string): Promise<FileHandle> {
    const known = this.#handles.get(file);
    if (known !== undefined) return known;
    const opening = this.#openNow(file);
    this.#handles.set(file, opening);
    opening.catch(() => this.#handles.delete(file));
    return opening;
  }

  async #openNow(file: string): Promise<FileHandle> {
    // Names come out of a checkpoint's index, which must not reach into other folders.
    if (/[/\\]|^\.\.?$/.test(file))
      throw new CheckpointError(file, "its name is not a plain file name");
    try {
      return await open(join(this.#path, file), "r");
    } catch (cause) {
      const missing = (cause as NodeJS.ErrnoException).code === "ENOENT";
      const problem = missing ? `there is no such file in ${this.#path}` : (cause as Error).message;
      throw new CheckpointError(file, problem, undefined, { cause });
    }
  }
}
