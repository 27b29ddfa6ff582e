/**
 * The far side of a `RemoteGrammarService`: compiles and follows grammars in a thread of its own.
 *
 * Masks of several sequences are made in turns of 2 ms. Compiling a constraint is not cut into
 * pieces: until it is over, the masks of other sequences wait, and nothing else.
 *
 * @module
 */
import { FlatTokenSource } from "../../grammar/masks/flat_tokens.ts";
import { errorData } from "../remote/error_data.ts";
import { Outbox } from "../remote/outbox.ts";
import type {
  AdvanceQuestion,
  FlatGrammarModel,
  GrammarAnswer,
  GrammarCall,
  OpenQuestion,
} from "./grammar_messages.ts";
import type { GrammarService, GrammarSession } from "./grammar_service.ts";
import {
  type LocalGrammarOptions,
  localGrammarService,
  SLICE_MS,
} from "./local_grammar_service.ts";

export interface ServeGrammarsOptions extends LocalGrammarOptions {
  readonly othersTurn: () => Promise<void>;
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
  /** What is still to be compiled, by session. */
  readonly #opening = new Map<number, OpenQuestion>();
  #isOpening = false;

  constructor(options: ServeGrammarsOptions) {
    this.#options = options;
    this.#answers = new Outbox((answers) => options.send(answers, masksOf(answers)));
  }

  take(call: GrammarCall): void {
    switch (call.type) {
      case "model":
        this.#service = localGrammarService(unflattened(call.model), {
          foresees: true,
          ...this.#options,
        });
        break;
      case "open":
        this.#opening.set(call.session, call);
        if (!this.#isOpening) this.#openAll();
        break;
      case "advance":
        this.#reply(call.session, this.#advance(call));
        break;
      case "close":
        this.#opening.delete(call.session);
        this.#sessions.get(call.session)?.close();
        this.#sessions.delete(call.session);
        break;
    }
  }

  /** Opens one after another, with turns for masks in between; in one turn what takes no time. */
  async #openAll(): Promise<void> {
    this.#isOpening = true;
    while (this.#opening.size > 0) {
      await this.#options.othersTurn();
      const until = performance.now() + SLICE_MS;
      for (const [session, question] of this.#opening) {
        this.#opening.delete(session);
        this.#reply(session, this.#open(question));
        if (performance.now() >= until) break;
      }
    }
    this.#isOpening = false;
  }

  async #open({ session, constraint, options }: OpenQuestion): Promise<GrammarAnswer> {
    const opened = await this.#service!.open(constraint, undefined, options);
    this.#sessions.set(session, opened);
    return { type: "opened", session, compilation: opened.compilation };
  }

  async #advance({ session, ...asked }: AdvanceQuestion): Promise<GrammarAnswer> {
    const { tokens, drafts, parents } = asked;
    const next = await this.#sessions.get(session)!.advance(tokens, drafts, parents);
    return { type: "next", session, next };
  }

  #reply(session: number, answer: Promise<GrammarAnswer>): void {
    answer
      .catch((error): GrammarAnswer => ({ type: "failed", session, error: errorData(error) }))
      .then((settled) => this.#answers.add(settled));
  }
}

function unflattened({ tokens, ...model }: FlatGrammarModel) {
  return { ...model, tokens: new FlatTokenSource(tokens) };
}

/** Memory of the masks, each of which was made for one answer. */
function masksOf(answers: readonly GrammarAnswer[]): ArrayBuffer[] {
  return answers.flatMap((answer) =>
    answer.type === "next"
      ? [answer.next.mask, ...(answer.next.draftMasks ?? [])].map(
          ({ buffer }) => buffer as ArrayBuffer,
        )
      : [],
  );
}
