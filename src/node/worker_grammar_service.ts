/**
 * Grammars in a worker thread of Node.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { GrammarAnswer } from "../engine/grammar/grammar_messages.ts";
import type { CreateGrammarService } from "../engine/grammar/grammar_service.ts";
import { localGrammarService } from "../engine/grammar/local_grammar_service.ts";
import {
  RemoteGrammarService,
  type StartGrammarThread,
} from "../engine/grammar/remote_grammar_service.ts";

/** Four times what sequences hold of grammars at most: compiling one takes some as well. */
export const MAX_HEAP_MB = 2048;
/** Where the built worker lies, seen from the package's entries and from the files they share. */
const PLACES = ["./grammar_worker.js", "../grammar_worker.js"];

/**
 * Compiles and follows grammars in a worker thread, which starts with the first constraint and never
 * keeps the process alive by itself. Run from its TypeScript source the package has no file that a
 * thread could run: then grammars are followed in this thread, in short slices.
 */
export const workerGrammarService: CreateGrammarService = (model) => {
  const urls = PLACES.map((place) => new URL(place, import.meta.url));
  const url = urls.find((one) => existsSync(fileURLToPath(one)));
  if (url === undefined) return localGrammarService(model);
  return new RemoteGrammarService(model, grammarThread(url));
};

/**
 * @param url The built `grammar_worker.ts`.
 * @param maxHeapMb Heap of the thread at most: it ends where its grammars take more, and the process
 * does not.
 */
export function grammarThread(
  url: URL,
  { maxHeapMb = MAX_HEAP_MB }: { readonly maxHeapMb?: number } = {},
): StartGrammarThread {
  return ({ onAnswers, onEnd }) => {
    // Flags of this process may be such that a thread refuses them.
    const worker = new Worker(url, {
      execArgv: [],
      name: "grammars",
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
    });
    worker.on("message", (answers: readonly GrammarAnswer[]) => onAnswers(answers));
    worker.on("error", (error) => onEnd(`its thread failed: ${error.message}`));
    worker.on("exit", () => onEnd("its thread has ended"));
    return {
      send: (calls) => worker.postMessage(calls),
      setAwaited: (isAwaited) => (isAwaited ? worker.ref() : worker.unref()),
      terminate: () => void worker.terminate(),
    };
  };
}
