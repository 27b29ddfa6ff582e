/**
 * The worker in which grammars are followed, built as the package has it.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "vite";
import type {
  GrammarThread,
  StartGrammarThread,
} from "../../../src/engine/grammar/remote_grammar_service.ts";
import { grammarThread } from "../../../src/node/worker_grammar_service.ts";

const ENTRY = fileURLToPath(new URL("../../../src/node/grammar_worker.ts", import.meta.url));

export interface BuiltWorker {
  readonly url: URL;
  remove(): void;
}

export async function buildGrammarWorker(): Promise<BuiltWorker> {
  const outDir = mkdtempSync(join(tmpdir(), "wisp-worker-"));
  await build({
    configFile: false,
    logLevel: "error",
    build: {
      outDir,
      emptyOutDir: true,
      target: "es2022",
      minify: false,
      lib: { entry: ENTRY, formats: ["es"], fileName: () => "grammar_worker.mjs" },
      rolldownOptions: { external: /^node:/ },
    },
  });
  return {
    url: pathToFileURL(join(outDir, "grammar_worker.mjs")),
    remove: () => rmSync(outDir, { recursive: true, force: true }),
  };
}

/** Starts real threads, and keeps them at hand to be ended from outside. */
export function watchedThreads(url: URL): {
  readonly start: StartGrammarThread;
  readonly threads: readonly GrammarThread[];
} {
  const threads: GrammarThread[] = [];
  const start: StartGrammarThread = (events) => {
    const thread = grammarThread(url)(events);
    threads.push(thread);
    return thread;
  };
  return { start, threads };
}
