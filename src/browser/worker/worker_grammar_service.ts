/**
 * Grammars in a worker of a page.
 *
 * @module
 */
import type { GrammarAnswer } from "../../engine/grammar/grammar_messages.ts";
import type { CreateGrammarService } from "../../engine/grammar/grammar_service.ts";
import {
  RemoteGrammarService,
  type StartGrammarThread,
} from "../../engine/grammar/remote_grammar_service.ts";

/** Compiles and follows grammars in a worker, which starts with the first constraint. */
export const workerGrammarService: CreateGrammarService = (model) =>
  new RemoteGrammarService(model, startThread);

const startThread: StartGrammarThread = ({ onAnswers, onEnd }) => {
  const worker = new Worker(new URL("../grammar_worker.ts", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }: MessageEvent<readonly GrammarAnswer[]>) => onAnswers(data);
  worker.onerror = ({ message }) => {
    onEnd(`its worker ${message ? `failed: ${message}` : "cannot be loaded"}`);
  };
  return {
    send: (calls) => worker.postMessage(calls),
    terminate: () => worker.terminate(),
  };
};
