/**
 * Files on this machine as a `WeightSource`, without a copy: those of a picked or dropped folder.
 *
 * @module
 */

import type { SourceFile, WeightSource } from "../../checkpoint/source.ts";
import { CheckpointError } from "../../errors.ts";
import { smallestOf } from "../../extremes.ts";

/** A file whose bytes lie in one or more blobs, in order. */
export interface BlobFile {
  readonly name: string;
  /** Each but the last has as many bytes as the first. */
  readonly parts: readonly Blob[];
}

/**
 * A source over picked files; of a picked folder, those at its top.
 *
 * @throws {CheckpointError} when two files have one name.
 */
export function filesSource(files: readonly File[], name = "picked files"): WeightSource {
  return blobSource(
    name,
    topFiles(files).map((file) => ({ name: file.name, parts: [file] })),
  );
}

/** A source over the files of a folder that the user has picked or dropped. */
export async function folderSource(handle: FileSystemDirectoryHandle): Promise<WeightSource> {
  return filesSource(await filesOfFolder(handle), handle.name);
}

/** The files at the top of a folder. */
export async function filesOfFolder(handle: FileSystemDirectoryHandle): Promise<readonly File[]> {
  const files: File[] = [];
  for await (const entry of handle.values()) {
    if (entry.kind === "file") files.push(await entry.getFile());
  }
  return files;
}

/**
 * What lies at the top of the picked folder, where a folder was picked: models have no folders.
 *
 * @throws {CheckpointError} when two files have one name.
 */
export function topFiles(files: readonly File[]): readonly File[] {
  const depth = ({ webkitRelativePath = "" }: File) => webkitRelativePath.split("/").length;
  const top = smallestOf(files.map(depth));
  const found = files.filter((file) => depth(file) === top);
  const names = new Set<string>();
  for (const { name } of found) {
    if (names.has(name)) throw new CheckpointError(name, "two of the picked files have this name");
    names.add(name);
  }
  return found;
}

/** A source that reads slices of blobs. */
export function blobSource(name: string, files: readonly BlobFile[]): WeightSource {
  const held = new Map(files.map((file) => [file.name, file]));
  return {
    name,
    list: async () => files.map((file): SourceFile => ({ name: file.name, size: sizeOf(file) })),
    async read(file, offset, length) {
      const found = held.get(file);
      if (found === undefined) throw new CheckpointError(file, `${name} has no such file`);
      const size = sizeOf(found);
      if (offset + length > size) {
        const wanted = `bytes ${offset} to ${offset + length} are needed`;
        throw new CheckpointError(file, `it ends at byte ${size}, ${wanted}`);
      }
      try {
        return new Uint8Array(await slice(found.parts, offset, length).arrayBuffer());
      } catch (cause) {
        const problem = `it cannot be read any more (${(cause as Error).message})`;
        throw new CheckpointError(file, problem, undefined, { cause });
      }
    },
  };
}

function sizeOf({ parts }: BlobFile): number {
  return parts.reduce((total, { size }) => total + size, 0);
}

function slice(parts: readonly Blob[], offset: number, length: number): Blob {
  const partBytes = parts[0]?.size ?? 0;
  if (length === 0) return new Blob();
  const first = Math.floor(offset / partBytes);
  const last = Math.floor((offset + length - 1) / partBytes);
  const pieces = parts.slice(first, last + 1).map((part, i) => {
    const start = (first + i) * partBytes;
    return part.slice(Math.max(0, offset - start), offset + length - start);
  });
  return pieces.length === 1 ? pieces[0]! : new Blob(pieces);
}
