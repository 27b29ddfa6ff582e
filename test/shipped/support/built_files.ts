/**
 * Gives tests the built files in place of the sources that those are made of, so that a test over a
 * socket or of a command runs what people run.
 *
 * @module
 */
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import type { Plugin } from "vite";

/** Sources that tests import, and the file of the package that exports the same names. */
const BUILT: Readonly<Record<string, string>> = {
  "src/errors.ts": "node_index.js",
  "src/server/app.ts": "node_index.js",
  "src/node/serve/http.ts": "node.js",
  "src/node/command.ts": "command.js",
};

/** Where the tarball is installed by the process that runs the tests. */
export function shippedFolder(): string {
  return join(tmpdir(), `wisp-shipped-${process.pid}`);
}

/** @param root Folder of the sources. */
export function builtFiles(root: string): Plugin {
  const dist = join(shippedFolder(), "node_modules", "wisp-llm", "dist");
  return {
    name: "built-files",
    enforce: "pre",
    resolveId(source, importer) {
      if (importer === undefined || !source.startsWith(".")) return null;
      const file = relative(root, resolve(importer, "..", source)).replaceAll("\\", "/");
      const built = Object.hasOwn(BUILT, file) ? BUILT[file] : undefined;
      return built === undefined ? null : { id: join(dist, built), external: true };
    },
  };
}
