/**
 * The worker in which grammars are followed, built as the package has it.
 *
 * @module
 */
import type {
  GrammarThread,
  StartGrammarThread,
} from "../../../src/engine/grammar/remote_grammar_service.ts";
import { grammarThread } from "../../../src/node/worker_grammar_service.ts";
import { type BuiltWorker, buildWorker } from "./built_worker.ts";

export type { BuiltWorker };

export async function buildGrammarWorker(): Promise<BuiltWorker> {
  return buildWorker("grammar_worker");
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
