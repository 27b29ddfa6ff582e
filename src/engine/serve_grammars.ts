/**
 * The far side of a `RemoteGrammarService`: compiles and follows grammars in a thread of its own.
 *
 * Masks of several sequences are made in turns of 2 ms. Compiling a constraint is not cut into
 * pieces: until it is over, the masks of other sequences wait, and nobody else.
 *
 * @module
 */
import { FlatTokenSource } from "../grammar/flat_tokens.ts";
import {
  errorData,
  type FlatGrammarModel,
  type GrammarAnswer,
  type GrammarCall,
} from "./grammar_messages.ts";
import type { GrammarService, GrammarSession } from "./grammar_service.ts";
import { type LocalGrammarOptions, localGrammarService } from "./local_grammar_service.ts";
import { Outbox } from "./outbox.ts";

export interface ServeGrammarsOptions extends Required<LocalGrammarOptions> {
  /** Sends what the other side's `onAnswers` takes. */
  readonly send: (answers: readonly GrammarAnswer[], transfer: ArrayBuffer[]) => void;
}

/** @returns Takes what the other side sends. */
export function serveGrammars(
  options: ServeGrammarsOptions,
): (calls: readonly GrammarCall[]) => void {
  const server = new GrammarServer(options);
  return (calls) => {
    for (const call of calls) server.take(call);
  };
}

class GrammarServer {
  readonly #options: ServeGrammarsOptions;
  readonly #answers: Outbox<GrammarAnswer>;
  readonly #sessions = new Map<number, GrammarSession>();
  #service: GrammarService | undefined;
  /** Resolves when nothing is left to compile. */
  #compiled: Promise<void> = Promise.resolve();

  constructor(options: ServeGrammarsOptions) {
    this.#options = options;
    this.#answers = new Outbox((answers) => options.send(answers, masksOf(answers)));
  }

  take(call: GrammarCall): void {
    switch (call.type) {
      case "model":
        this.#service = localGrammarService(unflattened(call.model), this.#options);
        break;
      case "close":
        this.#sessions.get(call.session)?.close();
        this.#sessions.delete(call.session);
        break;
      default:
        this.#answer(call).then(
          (answer) => this.#answers.add(answer),
          (error) =>
            this.#answers.add({ type: "failed", session: call.session, error: errorData(error) }),
        );
    }
  }

  async #answer(call: Exclude<GrammarCall, { type: "model" | "close" }>): Promise<GrammarAnswer> {
    const { session } = call;
    if (call.type === "open") {
      // One after another, so that masks get their turns in between.
      const opened = this.#compiled
        .then(this.#options.othersTurn)
        .then(() => this.#service!.open(call.constraint));
      this.#compiled = opened.then(
        () => {},
        () => {},
      );
      this.#sessions.set(session, await opened);
      return { type: "opened", session };
    }
    const next = await this.#sessions.get(session)!.advance(call.tokens);
    return { type: "next", session, next };
  }
}

function unflattened({ tokens, ...model }: FlatGrammarModel) {
  return { ...model, tokens: new FlatTokenSource(tokens) };
}

/** Memory of the masks, each of which was made for one answer. */
function masksOf(answers: readonly GrammarAnswer[]): ArrayBuffer[] {
  return answers.flatMap((answer) =>
    answer.type === "next" ? [answer.next.mask.buffer as ArrayBuffer] : [],
  );
}
