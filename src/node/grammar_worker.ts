/**
 * The thread that `workerGrammarService` starts.
 *
 * @module
 */
import { setImmediate } from "node:timers/promises";
import { parentPort } from "node:worker_threads";
import { serveGrammars } from "../engine/grammar/serve_grammars.ts";

const port = parentPort!;
const take = serveGrammars({
  send: (answers, transfer) => port.postMessage(answers, transfer),
  othersTurn: () => setImmediate(),
});
port.on("message", take);
