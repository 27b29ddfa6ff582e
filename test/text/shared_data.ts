/** Files beside the project that some tests need; they skip where it is absent. */

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../shared/data/", import.meta.url));

export const hasSharedData = existsSync(ROOT);

/** Why a test skips, as a suffix to its name. */
export const skipNote = hasSharedData ? "" : " (skipped: ../shared/data is absent)";

export function sharedText(path: string): string {
  return readFileSync(ROOT + path, "utf8");
}

export function sharedJson<T>(path: string): T {
  return JSON.parse(sharedText(path)) as T;
}

export function sharedBytes(path: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(readFileSync(ROOT + path));
}
