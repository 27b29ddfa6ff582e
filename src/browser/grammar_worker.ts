/**
 * The worker that `workerGrammarService` starts.
 *
 * @module
 */
import type { GrammarCall } from "../engine/grammar/grammar_messages.ts";
import { serveGrammars } from "../engine/grammar/serve_grammars.ts";

/** Who waits for a turn, which comes as a message: timers wait for 4 ms. */
const turns: (() => void)[] = [];
const { port1, port2 } = new MessageChannel();
port1.onmessage = () => turns.shift()?.();

const take = serveGrammars({
  send: (answers, transfer) => self.postMessage(answers, { transfer }),
  othersTurn: () =>
    new Promise((resolve) => {
      turns.push(resolve);
      port2.postMessage(null);
    }),
});
self.onmessage = ({ data }: MessageEvent<readonly GrammarCall[]>) => take(data);
