/**
 * Grammars followed in another thread, so that no schema and no mask delays other requests.
 *
 * @module
 */
import { WorkerError } from "../../errors.ts";
import type { Constraint } from "../../grammar/grammar.ts";
import { flatTokens } from "../../grammar/masks/flat_tokens.ts";
import { errorOf } from "../remote/error_data.ts";
import { Outbox } from "../remote/outbox.ts";
import type {
  FlatGrammarModel,
  GrammarAnswer,
  GrammarCall,
  GrammarQuestion,
} from "./grammar_messages.ts";
import type {
  GrammarModel,
  GrammarService,
  GrammarSession,
  NextTokens,
} from "./grammar_service.ts";

/** A thread in which `serveGrammars` runs. */
export interface GrammarThread {
  /** Sends what `serveGrammars` takes. */
  send(calls: readonly GrammarCall[]): void;
  /** Says whether an answer is awaited, which a process then has to stay for. */
  setAwaited?(isAwaited: boolean): void;
  terminate(): void;
}

export interface GrammarThreadEvents {
  readonly onAnswers: (answers: readonly GrammarAnswer[]) => void;
  /** The thread has ended, or cannot be started. */
  readonly onEnd: (problem: string) => void;
}

export type StartGrammarThread = (events: GrammarThreadEvents) => GrammarThread;

interface Waiting {
  readonly resolve: (answer: GrammarAnswer) => void;
  readonly reject: (error: Error) => void;
}

export class RemoteGrammarService implements GrammarService {
  readonly #model: FlatGrammarModel;
  readonly #start: StartGrammarThread;
  readonly #calls = new Outbox<GrammarCall>((calls) => this.#thread?.send(calls));
  #thread: GrammarThread | undefined;
  /** Why nothing can be asked any more. */
  #failure: WorkerError | undefined;
  #sessionCount = 0;
  /** Who waits for an answer, by session. */
  readonly #waiting = new Map<number, Waiting>();

  /** @param start Called for the first constraint. */
  constructor({ tokens, ...model }: GrammarModel, start: StartGrammarThread) {
    // Takes some 20 ms, which are better spent before there are requests.
    this.#model = { ...model, tokens: flatTokens(tokens) };
    this.#start = start;
  }

  async open(constraint: Constraint): Promise<GrammarSession> {
    const session = ++this.#sessionCount;
    // What cannot be sent fails here, and not beside what other sequences ask.
    const copy = structuredClone(constraint);
    const answer = await this.#ask({ type: "open", session, constraint: copy });
    return {
      compilation: (answer as Extract<GrammarAnswer, { type: "opened" }>).compilation,
      advance: (tokens) => this.#advance(session, tokens),
      close: () => this.#leave(session),
    };
  }

  close(): void {
    this.#end("the grammar service is closed");
  }

  async #advance(session: number, tokens: readonly number[]): Promise<NextTokens> {
    const answer = await this.#ask({ type: "advance", session, tokens });
    return (answer as Extract<GrammarAnswer, { type: "next" }>).next;
  }

  #leave(session: number): void {
    this.#settle(session)?.reject(new WorkerError("Cannot go on: the sequence has left"));
    if (this.#failure === undefined) this.#calls.add({ type: "close", session });
  }

  #ask(question: GrammarQuestion): Promise<GrammarAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#failure === undefined && this.#thread === undefined) this.#launch();
      if (this.#failure !== undefined) throw this.#failure;
      this.#waiting.set(question.session, { resolve, reject });
      if (this.#waiting.size === 1) this.#thread?.setAwaited?.(true);
      this.#calls.add(question);
    });
  }

  #launch(): void {
    try {
      this.#thread = this.#start({
        onAnswers: (answers) => {
          for (const answer of answers) this.#take(answer);
        },
        onEnd: (problem) => this.#end(problem),
      });
    } catch (cause) {
      this.#end((cause as Error).message, cause);
      return;
    }
    this.#calls.add({ type: "model", model: this.#model });
  }

  #take(answer: GrammarAnswer): void {
    const waiting = this.#settle(answer.session);
    if (answer.type === "failed") waiting?.reject(errorOf(answer.error));
    else waiting?.resolve(answer);
  }

  /** The caller that waits for a session's answer, and now does not any more. */
  #settle(session: number): Waiting | undefined {
    const waiting = this.#waiting.get(session);
    if (this.#waiting.delete(session) && this.#waiting.size === 0)
      this.#thread?.setAwaited?.(false);
    return waiting;
  }

  #end(problem: string, cause?: unknown): void {
    if (this.#failure !== undefined) return;
    const failure = new WorkerError(`Cannot follow a grammar: ${problem}`, { cause });
    this.#failure = failure;
    for (const session of [...this.#waiting.keys()]) this.#settle(session)?.reject(failure);
    this.#thread?.terminate();
    this.#thread = undefined;
  }
}
