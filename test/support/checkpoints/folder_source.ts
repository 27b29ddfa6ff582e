/**
 * A checkpoint folder on disk, read the plainest way, so that tests of lower floors need nothing of
 * src/node.
 *
 * @module
 */

import { existsSync, readdirSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WeightSource } from "../../../src/checkpoint/source.ts";

/** Folder of the shared checkpoints, or undefined where this project lies alone. */
export const SHARED_MODELS: string | undefined = found("../../../../shared/data/models");

export function folderSource(folder: string): WeightSource {
  return {
    name: folder,
    async list() {
      return readdirSync(folder).map((name) => ({ name, size: statSync(join(folder, name)).size }));
    },
    async read(file, offset, length) {
      const handle = await open(join(folder, file));
      try {
        const bytes = new Uint8Array(length);
        const { bytesRead } = await handle.read(bytes, 0, length, offset);
        if (bytesRead !== length) throw new Error(`${file} ends at byte ${offset + bytesRead}`);
        return bytes;
      } finally {
        await handle.close();
      }
    },
  };
}

function found(path: string): string | undefined {
  const folder = fileURLToPath(new URL(path, import.meta.url));
  return existsSync(folder) ? folder : undefined;
}
