/**
 * This package's own folder, found from its source as well as from its build.
 *
 * @module
 */

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

interface Manifest {
  readonly name: string;
  readonly version: string;
}

const NAME = "wisp-llm";

/** Folder of this package's package.json. */
function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (readManifest(folder)?.name !== NAME) {
    const parent = dirname(folder);
    if (parent === folder) throw new Error(`Cannot find the folder of ${NAME}: it was moved`);
    folder = parent;
  }
  return folder;
}

export function packageVersion(): string {
  return readManifest(packageRoot())!.version;
}

/** The version in the nearest package.json above a file. */
export function packageVersionOf(file: string): string {
  const folder = dirname(file);
  const version = readManifest(folder)?.version;
  if (version !== undefined) return version;
  if (folder === file) throw new Error(`Cannot find the package of ${file}: it was moved`);
  return packageVersionOf(folder);
}

/** The checkpoint that comes with the package. */
export function defaultModelPath(): string {
  return join(packageRoot(), "examples", "tiny-deepseek-v3");
}

/** Where the build puts the files of the page that the server has at `/`. */
export function webPageFolder(): string {
  return join(packageRoot(), "dist", "web_page");
}

function readManifest(folder: string): Manifest | undefined {
  const path = join(folder, "package.json");
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Manifest) : undefined;
}
