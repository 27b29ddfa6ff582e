/**
 * Texts read in worker threads of Node.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { localTextService } from "../engine/text/local_text_service.ts";
import { RemoteTextService } from "../engine/text/remote_text_service.ts";
import { readTextFiles } from "../engine/text/text_files.ts";
import type { StartTextThread } from "../engine/text/text_lane.ts";
import type { TextAnswer } from "../engine/text/text_messages.ts";
import type { CreateTextService } from "../engine/text/text_service.ts";

/** Where the built worker lies, seen from the package's entries and from the files they share. */
const PLACES = ["./text_worker.js", "../text_worker.js"];

/** MiB of heap that a thread may take: several times what the largest vocabularies do. */
export const HEAP_MIB = 2048;

/**
 * Reads texts in worker threads: prompts, chat templates, long lists of tokens. What takes too long
 * or too much memory ends its thread and its request alone. The threads never keep the process alive
 * by themselves. Run from its TypeScript source the package has no file that a thread could run: then
 * texts are read in this thread.
 */
export const workerTextService: CreateTextService = async (setting) => {
  const urls = PLACES.map((place) => new URL(place, import.meta.url));
  const url = urls.find((one) => existsSync(fileURLToPath(one)));
  if (url === undefined) return localTextService(setting);
  const files = await readTextFiles(setting.source);
  return RemoteTextService.open({ start: textThread(url), files, options: setting.options });
};

/**
 * @param url The built `text_worker.ts`.
 * @param heapMib MiB of heap that the thread may take.
 */
export function textThread(url: URL, heapMib = HEAP_MIB): StartTextThread {
  return ({ onAnswer, onEnd }) => {
    const worker = new Worker(url, {
      // Flags of this process may be such that a thread refuses them.
      execArgv: [],
      name: "texts",
      resourceLimits: { maxOldGenerationSizeMb: heapMib },
    });
    worker.on("message", (answer: TextAnswer) => onAnswer(answer));
    worker.on("error", (error: NodeJS.ErrnoException) =>
      onEnd(`its thread failed: ${error.message}`, error.code === "ERR_WORKER_OUT_OF_MEMORY"),
    );
    worker.on("exit", () => onEnd("its thread has ended", false));
    return {
      send: (question) => worker.postMessage(question),
      setAwaited: (isAwaited) => (isAwaited ? worker.ref() : worker.unref()),
      terminate: () => void worker.terminate(),
    };
  };
}
