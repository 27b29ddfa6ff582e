/**
 * A session of the Prompt API: one conversation, whose prompts are answered one after the other.
 *
 * @module
 */
import { untilAborted } from "./loading.ts";
import {
  type LanguageModelPrompt,
  type ReadPrompt,
  readPrompt,
  type WireMessage,
} from "./prompt_messages.ts";
import { type AnswerOptions, answer } from "./session_answer.ts";
import { requireRoom, type SessionState, tokensOf } from "./session_options.ts";

export interface PromptOptions {
  /** A JSON schema, or a RegExp: what the whole answer is. */
  readonly responseConstraint?: object;
  /** Only with a constraint. The model is not told of constraints here in any case. */
  readonly omitResponseConstraintInput?: boolean;
  readonly signal?: AbortSignal;
}

type Handler = ((event: Event) => void) | null;

export class PromptLanguageModel extends EventTarget {
  oncontextoverflow: Handler = null;
  onquotaoverflow: Handler = null;
  readonly #state: SessionState;
  readonly #life = new AbortController();
  /** What was said, without the initial prompts: the oldest first. */
  #turns: readonly (readonly WireMessage[])[];
  #usage: number;
  /** Resolves once all that was asked has been answered. */
  #last: Promise<unknown> = Promise.resolve();

  /** @throws {TypeError} without a state: sessions come from `create` and `clone`. */
  constructor(state?: SessionState) {
    super();
    if (state === undefined) throw new TypeError("Cannot make a session: use LanguageModel.create");
    this.#state = state;
    this.#turns = state.turns;
    this.#usage = state.usage;
  }

  /** Tokens of the conversation so far. */
  get contextUsage(): number {
    return this.#usage;
  }

  /** Tokens that a conversation may have. */
  get contextWindow(): number {
    return this.#state.engine.model.contextLength;
  }

  get inputUsage(): number {
    return this.#usage;
  }

  get inputQuota(): number {
    return this.contextWindow;
  }

  get temperature(): number {
    const { sampling, engine } = this.#state;
    return sampling.temperature ?? engine.model.defaults.temperature ?? 1;
  }

  get topK(): number {
    const { sampling, engine } = this.#state;
    return sampling.top_k ?? Math.max(engine.model.defaults.topK ?? 64, 1);
  }

  /**
   * @throws {TypeError} for what is no prompt.
   * @throws {DOMException} named AbortError, InvalidStateError once the session is destroyed,
   * NotSupportedError for a constraint or a part that the model cannot have, QuotaExceededError for
   * what does not fit into the context.
   */
  async prompt(input: LanguageModelPrompt, options: PromptOptions = {}): Promise<string> {
    return this.#ask(input, options, () => {});
  }

  /** Pieces of the answer as they come; a reader that leaves ends it. */
  promptStreaming(input: LanguageModelPrompt, options: PromptOptions = {}): ReadableStream<string> {
    const left = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, left.signal]) : left.signal;
    return new ReadableStream<string>({
      start: (controller) => {
        const onText = (text: string) => {
          if (!left.signal.aborted) controller.enqueue(text);
        };
        this.#ask(input, { ...options, signal }, onText).then(
          () => {
            if (!left.signal.aborted) controller.close();
          },
          (error: unknown) => controller.error(error),
        );
      },
      cancel: (reason) => left.abort(reason),
    });
  }

  /** Adds to the conversation what is to be answered later. */
  append(
    input: LanguageModelPrompt,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<undefined> {
    return this.#inTurn(signal, async (ends) => {
      const { messages, prefix } = await readPrompt(input, this.#state);
      if (prefix !== undefined)
        throw new TypeError("Cannot append a prefix: it is answered at once");
      await this.#makeRoom(messages);
      await this.#say(messages, ends);
      return undefined;
    });
  }

  /** Tokens that a prompt would add to the conversation. */
  async measureContextUsage(
    input: LanguageModelPrompt,
    { signal }: PromptOptions = {},
  ): Promise<number> {
    this.#requireLife();
    const { messages } = await readPrompt(input, this.#state);
    const { engine } = this.#state;
    const history = this.#history;
    const measured = (async () => {
      const before = await tokensOf(engine, history);
      return Math.max((await tokensOf(engine, [...history, ...messages])) - before, 0);
    })();
    return untilAborted(measured, signal);
  }

  measureInputUsage(input: LanguageModelPrompt, options: PromptOptions = {}): Promise<number> {
    return this.measureContextUsage(input, options);
  }

  /** Another session with the same conversation. */
  async clone({ signal }: { readonly signal?: AbortSignal } = {}): Promise<PromptLanguageModel> {
    this.#requireLife();
    signal?.throwIfAborted();
    const own = this.constructor as new (state: SessionState) => PromptLanguageModel;
    return new own({ ...this.#state, turns: this.#turns, usage: this.#usage });
  }

  /** Ends what is being answered, and the session. The engine goes on. */
  destroy(): undefined {
    this.#life.abort(new DOMException("The session was destroyed", "AbortError"));
  }

  get #history(): readonly WireMessage[] {
    return [...this.#state.initial, ...this.#turns.flat()];
  }

  #requireLife(): void {
    if (!this.#life.signal.aborted) return;
    throw new DOMException("Cannot use the session: it was destroyed", "InvalidStateError");
  }

  #ask(
    input: LanguageModelPrompt,
    { signal, ...options }: PromptOptions,
    onText: (text: string) => void,
  ): Promise<string> {
    return this.#inTurn(signal, async (ends) => {
      const asked = await readPrompt(input, this.#state);
      await this.#makeRoom(asked.messages);
      return this.#answer(asked, { ...options, signal: ends, onText });
    });
  }

  async #answer(asked: ReadPrompt, options: Omit<AnswerOptions, "history">): Promise<string> {
    const { text, said, tokens } = await answer(this.#state, asked, {
      ...options,
      history: this.#history,
    });
    await this.#say(said, options.signal, tokens);
    return text;
  }

  /** Adds a turn. One that was aborted is forgotten: an answer with its prompt. */
  async #say(turn: readonly WireMessage[], signal: AbortSignal, tokens?: number): Promise<void> {
    signal.throwIfAborted();
    const usage = tokens ?? (await tokensOf(this.#state.engine, [...this.#history, ...turn]));
    signal.throwIfAborted();
    this.#turns = [...this.#turns, turn];
    this.#usage = usage;
  }

  /** Waits for what was asked before. */
  async #inTurn<T>(
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    this.#requireLife();
    const ends = signal ? AbortSignal.any([this.#life.signal, signal]) : this.#life.signal;
    const done = this.#last.then(() => {
      ends.throwIfAborted();
      return work(ends);
    });
    this.#last = done.catch(() => {});
    return untilAborted(done, ends);
  }

  /** Forgets the oldest turns where the context is full. */
  async #makeRoom(messages: readonly WireMessage[]): Promise<void> {
    const { engine, initial } = this.#state;
    const { contextLength } = engine.model;
    requireRoom(await tokensOf(engine, [...initial, ...messages]), contextLength);
    let forgotten = 0;
    const needed = () => tokensOf(engine, [...this.#history, ...messages]);
    while (this.#turns.length > 0 && (await needed()) >= contextLength) {
      this.#turns = this.#turns.slice(1);
      forgotten += 1;
    }
    if (forgotten > 0) this.#tellOverflow();
  }

  #tellOverflow(): void {
    for (const name of ["contextoverflow", "quotaoverflow"] as const) {
      const event = new Event(name);
      this[`on${name}`]?.(event);
      this.dispatchEvent(event);
    }
  }
}
