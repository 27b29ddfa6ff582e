/**
 * A checkpoint whose files are already in memory: dropped onto a page, embedded, made by a test.
 *
 * @module
 */

import { CheckpointError } from "../errors.ts";
import type { WeightSource } from "./source.ts";

/** A source over `files`; every read copies, so that the files stay as they are. */
export function memorySource(files: Readonly<Record<string, Uint8Array>>): WeightSource {
  const held = new Map(Object.entries(files));
  return {
    name: "memory",
    async list() {
      return [...held].map(([name, bytes]) => ({ name, size: bytes.length }));
    },
    async read(file, offset, length) {
      const bytes = held.get(file);
      if (bytes === undefined) throw new CheckpointError(file, "there is no such file");
      if (offset + length > bytes.length) {
        const wanted = `bytes ${offset} to ${offset + length} are wanted`;
        throw new CheckpointError(file, `it ends at byte ${bytes.length}, ${wanted}`);
      }
      return new Uint8Array(bytes.subarray(offset, offset + length));
    },
  };
}
