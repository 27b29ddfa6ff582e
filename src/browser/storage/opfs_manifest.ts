/**
 * What the browser's storage holds of one model, as a small JSON file beside its weights.
 *
 * It is written to two files in turn, so that one is whole whenever a page is closed: half a JSON
 * object is no JSON.
 *
 * @module
 */

import { isJsonObject } from "../../checkpoint/json_file.ts";
import { findFile, openWriter, type StorageFolder } from "./opfs_file.ts";
import { StorageError } from "./storage_error.ts";

/** Where a stored model came from, in plain data. */
export type StoredOrigin =
  | { readonly kind: "url"; readonly url: string }
  | {
      readonly kind: "hub";
      readonly id: string;
      readonly revision: string;
      readonly endpoint: string;
    }
  | { readonly kind: "folder"; readonly folder: string }
  | { readonly kind: "files" };

export interface ManifestFile {
  readonly name: string;
  /** Bytes of the whole file. */
  readonly size: number;
  /** Hexadecimal: SHA-256 of the bytes, or SHA-1 of a git blob. Of every complete file. */
  readonly digest?: string | undefined;
  /** What the server called the file when the bytes came that are here. */
  readonly version?: string | undefined;
  /** Every byte is here and was checked. */
  readonly isComplete: boolean;
}

export interface Manifest {
  readonly name: string;
  readonly origin: StoredOrigin;
  /** Commit of a model from a hub. */
  readonly commit?: string | undefined;
  /** Bytes of every part of a file but its last. */
  readonly partBytes: number;
  readonly files: readonly ManifestFile[];
}

/** Changes with what older versions of this library could not read. */
const FORMAT = 1;
const SLOTS = ["manifest.0.json", "manifest.1.json"] as const;

interface Written {
  readonly format: number;
  /** The higher one of two is the newer. */
  readonly generation: number;
  readonly manifest: Manifest;
}

/**
 * Undefined where no model was begun.
 *
 * @throws {StorageError} when another version of this library wrote it.
 */
export async function readManifest(folder: StorageFolder): Promise<Manifest | undefined> {
  return (await readNewest(folder))?.manifest;
}

/** No other tab may write at the same time. */
export async function writeManifest(folder: StorageFolder, manifest: Manifest): Promise<void> {
  const generation = ((await readNewest(folder))?.generation ?? 0) + 1;
  const written: Written = { format: FORMAT, generation, manifest };
  const bytes = new TextEncoder().encode(JSON.stringify(written));
  const slot = SLOTS[generation % SLOTS.length]!;
  const writer = await openWriter(await folder.getFileHandle(slot, { create: true }), 0);
  try {
    await writer.write(bytes, 0);
  } finally {
    await writer.close();
  }
}

async function readNewest(folder: StorageFolder): Promise<Written | undefined> {
  const found = await Promise.all(SLOTS.map((slot) => readSlot(folder, slot)));
  return found
    .filter((written) => written !== undefined)
    .sort((a, b) => b.generation - a.generation)[0];
}

async function readSlot(folder: StorageFolder, slot: string): Promise<Written | undefined> {
  const value = parse((await (await findFile(folder, slot))?.text()) ?? "");
  if (!isJsonObject(value)) return undefined;
  if (value.format === FORMAT) return value as unknown as Written;
  const problem = "another version of this library stored it: delete it and add it again";
  throw new StorageError(`read the model in ${slot}`, problem);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
