/**
 * Grammars followed in another thread, so that no schema and no mask delays other requests.
 *
 * Sessions of a thread that has ended fail; later ones have another.
 *
 * @module
 */
import { WorkerError } from "../../errors.ts";
import type { Constraint } from "../../grammar/grammar.ts";
import { flatTokens } from "../../grammar/masks/flat_tokens.ts";
import { errorOf } from "../remote/error_data.ts";
import { Outbox } from "../remote/outbox.ts";
import { grammarsFull } from "./grammar_memory.ts";
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
  SessionOptions,
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

/** Bytes of the constraints that wait to be compiled. */
export const MAX_WAITING_BYTES = 64 * 2 ** 20;

export class RemoteGrammarService implements GrammarService {
  readonly #model: FlatGrammarModel;
  readonly #start: StartGrammarThread;
  /** The thread that new sessions go to; the next one starts another where it has ended. */
  #link: GrammarLink | undefined;
  #isClosed = false;
  #sessionCount = 0;
  #waitingBytes = 0;

  /** @param start Called for the first constraint, and for the first one behind the end of a thread. */
  constructor({ tokens, ...model }: GrammarModel, start: StartGrammarThread) {
    // Takes some 20 ms, which are better spent before there are requests.
    this.#model = { ...model, tokens: flatTokens(tokens) };
    this.#start = start;
  }

  async open(
    constraint: Constraint,
    signal?: AbortSignal,
    options?: SessionOptions,
  ): Promise<GrammarSession> {
    const session = ++this.#sessionCount;
    const bytes = 2 * constraint.source.length;
    if (this.#waitingBytes + bytes > MAX_WAITING_BYTES) {
      throw grammarsFull(this.#waitingBytes + bytes, MAX_WAITING_BYTES);
    }
    // What cannot be sent fails here, and not beside what other sequences ask.
    const copy = structuredClone(constraint);
    const link = this.#currentLink();
    const leave = () => link.leave(session);
    this.#waitingBytes += bytes;
    signal?.addEventListener("abort", leave);
    try {
      const answer = await link.ask({ type: "open", session, constraint: copy, options });
      return {
        compilation: (answer as Extract<GrammarAnswer, { type: "opened" }>).compilation,
        advance: async (tokens, drafts, parents) => {
          const next = await link.ask({ type: "advance", session, tokens, drafts, parents });
          return (next as Extract<GrammarAnswer, { type: "next" }>).next;
        },
        close: leave,
      };
    } finally {
      this.#waitingBytes -= bytes;
      signal?.removeEventListener("abort", leave);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#link?.end("the grammar service is closed");
  }

  #currentLink(): GrammarLink {
    if (this.#isClosed) throw lost("the grammar service is closed");
    if (this.#link === undefined || this.#link.hasEnded) {
      this.#link = new GrammarLink(this.#start, this.#model);
    }
    return this.#link;
  }
}

/** One thread, from its start to its end. */
class GrammarLink {
  readonly #calls = new Outbox<GrammarCall>((calls) => this.#thread?.send(calls));
  #thread: GrammarThread | undefined;
  /** Why nothing can be asked any more. */
  #failure: WorkerError | undefined;
  /** Who waits for an answer, by session. */
  readonly #waiting = new Map<number, Waiting>();

  constructor(start: StartGrammarThread, model: FlatGrammarModel) {
    try {
      this.#thread = start({
        onAnswers: (answers) => {
          for (const answer of answers) this.#take(answer);
        },
        onEnd: (problem) => this.end(problem),
      });
    } catch (cause) {
      this.end((cause as Error).message, cause);
      return;
    }
    this.#calls.add({ type: "model", model });
  }

  get hasEnded(): boolean {
    return this.#failure !== undefined;
  }

  ask(question: GrammarQuestion): Promise<GrammarAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) throw this.#failure;
      this.#waiting.set(question.session, { resolve, reject });
      if (this.#waiting.size === 1) this.#thread?.setAwaited?.(true);
      this.#calls.add(question);
    });
  }

  leave(session: number): void {
    this.#settle(session)?.reject(new WorkerError("Cannot go on: the sequence has left"));
    if (this.#failure === undefined) this.#calls.add({ type: "close", session });
  }

  end(problem: string, cause?: unknown): void {
    if (this.#failure !== undefined) return;
    const failure = lost(problem, cause);
    this.#failure = failure;
    for (const session of [...this.#waiting.keys()]) this.#settle(session)?.reject(failure);
    this.#thread?.terminate();
    this.#thread = undefined;
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
}

function lost(problem: string, cause?: unknown): WorkerError {
  return new WorkerError(`Cannot follow a grammar: ${problem}`, { cause });
}
