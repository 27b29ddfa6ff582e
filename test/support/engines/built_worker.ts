/**
 * Worker threads of `src/node`, built as the package has them.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "vite";

const FOLDER = fileURLToPath(new URL("../../../src/node/", import.meta.url));

export interface BuiltWorker {
  readonly url: URL;
  remove(): void;
}

/** @param name Of the file in `src/node`, without its ending. */
export async function buildWorker(name: string): Promise<BuiltWorker> {
  const outDir = mkdtempSync(join(tmpdir(), "wisp-worker-"));
  await build({
    configFile: false,
    logLevel: "error",
    build: {
      outDir,
      emptyOutDir: true,
      target: "es2022",
      minify: false,
      lib: {
        entry: join(FOLDER, `${name}.ts`),
        formats: ["es"],
        fileName: () => `${name}.mjs`,
      },
      // Tables of tokenizers are megabytes, and are asked for by name alone.
      rolldownOptions: { external: /^(node:|gpt-tokenizer)/ },
    },
  });
  return {
    url: pathToFileURL(join(outDir, `${name}.mjs`)),
    remove: () => rmSync(outDir, { recursive: true, force: true }),
  };
}
