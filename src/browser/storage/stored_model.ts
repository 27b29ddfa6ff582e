/**
 * A model in the browser's storage: what is here of it, whether it is still what it was, and its
 * files as a `WeightSource`.
 *
 * @module
 */

import type { SourceFile, WeightSource } from "../../checkpoint/source.ts";
import { CheckpointError } from "../../errors.ts";
import { digestFiles, FileDigest } from "../download/download_digest.ts";
import { blobSource } from "../download/file_source.ts";
import type { VerifyOptions } from "./model_store.ts";
import type { StorageFolder } from "./opfs_file.ts";
import { holdLock, type Locks } from "./opfs_locks.ts";
import { type Manifest, type ManifestFile, writeManifest } from "./opfs_manifest.ts";
import { PartedFile } from "./opfs_parts.ts";

export interface ModelFolder {
  readonly folder: StorageFolder;
  readonly manifest: Manifest;
}

/** A file of the model as it is stored. */
export function storedFile({ folder, manifest }: ModelFolder, name: string): PartedFile {
  return new PartedFile(folder, name, manifest.partBytes);
}

/** Bytes of all files. */
export function totalBytes({ files }: Manifest): number {
  return files.reduce((total, { size }) => total + size, 0);
}

/** Bytes that are not here. */
export async function missingBytes(model: ModelFolder): Promise<number> {
  const missing = await Promise.all(
    model.manifest.files.map(async ({ name, size }) =>
      Math.max(0, size - (await storedFile(model, name).length())),
    ),
  );
  return missing.reduce((total, bytes) => total + bytes, 0);
}

/** Names of the files whose bytes are not what they were; the manifest then says so too. */
export async function verifyModel(
  model: ModelFolder,
  { onProgress, signal }: VerifyOptions,
): Promise<readonly string[]> {
  const { folder, manifest } = model;
  const total = totalBytes(manifest);
  const damaged: string[] = [];
  let before = 0;
  for (const file of manifest.files.filter(({ isComplete }) => isComplete)) {
    const digest = new FileDigest(file.size, file.digest);
    const onLength = (bytes: number) => onProgress?.(before + bytes, total);
    await digestFiles(digest, await storedFile(model, file.name).parts(), { signal, onLength });
    if (digest.finish() !== file.digest) damaged.push(file.name);
    before += file.size;
  }
  const mark = (file: ManifestFile) =>
    damaged.includes(file.name) ? { ...file, isComplete: false } : file;
  if (damaged.length > 0) {
    await writeManifest(folder, { ...manifest, files: manifest.files.map(mark) });
  }
  return damaged;
}

export interface StoredSourceOptions extends ModelFolder {
  readonly locks: Locks;
  readonly lockName: string;
}

interface Reading {
  readonly source: WeightSource;
  readonly release: () => void;
}

/** Reads slices of the stored files. From the first read to `close` no tab can delete them. */
export class StoredSource implements Omit<Required<WeightSource>, "tensors"> {
  readonly name: string;
  readonly #options: StoredSourceOptions;
  #reading: Promise<Reading> | undefined;

  constructor(options: StoredSourceOptions) {
    this.#options = options;
    this.name = options.manifest.name;
  }

  async list(): Promise<readonly SourceFile[]> {
    return this.#options.manifest.files.map(({ name, size }) => ({ name, size }));
  }

  async read(file: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    this.#reading ??= this.#open();
    const { source } = await this.#reading;
    return source.read(file, offset, length);
  }

  async close(): Promise<void> {
    const reading = this.#reading;
    this.#reading = undefined;
    // One that could not begin holds nothing, and has told its reader.
    await reading?.then(({ release }) => release()).catch(() => {});
  }

  async #open(): Promise<Reading> {
    const { manifest, locks, lockName } = this.#options;
    try {
      const release = await holdLock(locks, lockName, { mode: "shared" });
      try {
        const files = await Promise.all(manifest.files.map((file) => this.#partsOf(file)));
        return { source: blobSource(manifest.name, files), release };
      } catch (error) {
        release();
        throw error;
      }
    } catch (error) {
      this.#reading = undefined;
      throw error;
    }
  }

  async #partsOf({ name, size }: ManifestFile) {
    const parts = await storedFile(this.#options, name).parts();
    const found = parts.reduce((total, part) => total + part.size, 0);
    if (found === size) return { name, parts };
    const problem = `${found} of its ${size} bytes are stored: the model was deleted or changed`;
    throw new CheckpointError(name, problem);
  }
}
