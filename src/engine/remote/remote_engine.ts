/**
 * An engine in another thread, behind a port: what is asked here is done by `serveEngine` there.
 *
 * Requests are copied: the caller keeps what it gave, and may change it at once. What is not plain
 * data, such as logit processors, cannot go there.
 *
 * @module
 */
import { type EngineError, WorkerError } from "../../errors.ts";
import type {
  DetokenizeOptions,
  EngineStatus,
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
  ModelDescription,
  TokenizeRequest,
} from "../../generation.ts";
import { newRequestId } from "../../generation.ts";
import { SilenceWatch } from "../../http/silence.ts";
import type { FlushOptions } from "../../prefix_cache.ts";
import type { Profile, ProfileOptions } from "../../profile.ts";
import { LIBRARY_VERSION } from "../prefix/prefix_options.ts";
import { abortError, ChunkStream } from "../schedule/chunk_stream.ts";
import {
  type AskedMethod,
  CHUNK_WINDOW,
  type EngineAnswer,
  type EngineCall,
} from "./engine_messages.ts";
import { errorOf } from "./error_data.ts";
import { Outbox } from "./outbox.ts";
import { unpackChunk } from "./packed_chunk.ts";
import { plainRequest, plainValue, transferOf } from "./plain_request.ts";
import type { Port } from "./port.ts";

export interface ConnectOptions {
  /** Gives the attempt up. Default: waits for as long as the port does not end. */
  readonly signal?: AbortSignal | undefined;
}

type Opened = Extract<EngineAnswer, { type: "opened" }>;

/** A port whose other end has answered, and the answer. */
export interface OpenedPort {
  readonly port: Port;
  readonly opened: Opened;
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export class RemoteEngine implements GenerationEngine {
  readonly model: ModelDescription;
  readonly profile?: NonNullable<GenerationEngine["profile"]>;
  readonly cacheTree?: NonNullable<GenerationEngine["cacheTree"]>;
  readonly recordExperts?: NonNullable<GenerationEngine["recordExperts"]>;
  readonly #port: Port;
  readonly #calls = new Outbox<EngineCall>((calls) => this.#send(calls));
  #callCount = 0;
  readonly #streams = new Map<number, ChunkStream>();
  readonly #waiting = new Map<number, Waiting>();
  /** What profiles are taken of, until they may begin. */
  readonly #works = new Map<number, () => void>();
  #status: EngineStatus;
  #statusAt = performance.now();
  readonly #silence = new SilenceWatch({
    isWaiting: () => this.#isWaiting,
    ping: () => this.#calls.add({ type: "ping" }),
    onSilence: () => this.fail("the engine does not answer any more"),
  });
  /** Why nothing can be asked any more. */
  #failure: EngineError | undefined;
  #isClosing = false;
  #onEnded!: () => void;
  /** Resolves once nothing is answered any more. */
  readonly ended = new Promise<void>((resolve) => {
    this.#onEnded = resolve;
  });

  /** To be called as soon as the port is open: what comes through it before that is lost. */
  protected constructor({ port, opened }: OpenedPort) {
    this.#port = port;
    this.model = opened.model;
    this.#status = opened.status;
    const has = new Set(opened.methods);
    if (has.has("profile")) this.profile = (work, options) => this.#profile(work, options);
    if (has.has("recordExperts")) {
      this.recordExperts = (...args) => this.#ask("recordExperts", args);
    }
    if (has.has("cacheTree")) this.cacheTree = (...args) => this.#ask("cacheTree", args);
    port.onEnd = (problem) => this.fail(problem);
    port.onMessage = (message) => {
      this.#silence.heard();
      for (const answer of message as readonly EngineAnswer[]) this.#take(answer);
    };
  }

  /**
   * Opens the engine that `serveEngine` serves at the port's other end.
   *
   * @throws {WorkerError} when the port ends before it has answered.
   */
  static async connect(port: Port, options: ConnectOptions = {}): Promise<RemoteEngine> {
    return new this(await openPort(port, options));
  }

  generate(
    request: GenerationRequest & { readonly signal?: AbortSignal },
  ): AsyncIterableIterator<GenerationChunk, undefined> {
    const { signal, ...asked } = request;
    const id = ++this.#callCount;
    let taken = 0;
    const onAbort = () => stream.fail(abortError());
    const stream = new ChunkStream({
      start: () => {
        if (signal?.aborted) throw abortError();
        const { requestId = newRequestId() } = asked;
        const plain = plainRequest({ ...asked, requestId });
        this.#call({ type: "generate", id, request: plain });
        this.#streams.set(id, stream);
        signal?.addEventListener("abort", onAbort);
      },
      stop: () => {
        signal?.removeEventListener("abort", onAbort);
        if (this.#streams.delete(id)) this.#calls.add({ type: "leave", id });
      },
      onTaken: () => {
        taken += 1;
        if (taken < CHUNK_WINDOW / 2 || !this.#streams.has(id)) return;
        this.#calls.add({ type: "taken", id, chunks: taken });
        taken = 0;
      },
    });
    return stream;
  }

  /** Ends requests of all ports that share the engine, as its own `abort` does. */
  abort(requestId?: string): void {
    if (this.#failure === undefined) this.#calls.add({ type: "abort", requestId });
  }

  tokenize({
    signal: _,
    ...request
  }: TokenizeRequest & { readonly signal?: AbortSignal }): Promise<readonly number[]> {
    return this.#ask("tokenize", [request]);
  }

  detokenize(
    tokens: readonly number[],
    { signal: _, ...options }: DetokenizeOptions = {},
  ): Promise<string> {
    return this.#ask("detokenize", [tokens, options]);
  }

  flushCache(options?: FlushOptions): Promise<boolean> {
    return this.#ask("flushCache", [options]);
  }

  /**
   * The newest that the other side has sent: it comes along with chunks and answers, ten times a
   * second while there is work, and within a second of what changes while there is none.
   * `stalledFor` goes on here, so that it also tells of a thread that hangs.
   */
  status(): EngineStatus {
    const { runningRequests, queuedRequests, recovering, stalledFor } = this.#status;
    const isBusy = runningRequests + queuedRequests > 0 && !recovering;
    const since = (performance.now() - this.#statusAt) / 1000;
    return { ...this.#status, stalledFor: isBusy ? stalledFor + since : 0 };
  }

  /** Ends the requests that came from here with an abort, and leaves. The engine itself goes on. */
  close(): Promise<void> {
    if (!this.#isClosing) this.#calls.add({ type: "close" });
    this.#isClosing = true;
    this.#silence.start();
    return this.ended;
  }

  /** Ends everything that waits for the other side, which does not answer any more. */
  protected fail(problem: string, cause?: unknown): void {
    if (this.#failure !== undefined) return;
    const failure = this.failureOf(problem, cause);
    this.#failure = failure;
    const nothing = { runningRequests: 0, queuedRequests: 0, queuedTokens: 0 };
    this.#status = { ...this.#status, ...nothing, healthy: false };
    for (const stream of this.#streams.values()) stream.fail(failure);
    for (const { reject } of this.#waiting.values()) reject(failure);
    this.#streams.clear();
    this.#waiting.clear();
    this.#works.clear();
    this.#port.close();
    this.#onEnded();
  }

  /** What requests get once the other side does not answer any more. */
  protected failureOf(problem: string, cause: unknown): EngineError {
    return new WorkerError(`Cannot generate: ${problem}`, { cause });
  }

  async #profile(work: () => Promise<unknown>, options?: ProfileOptions): Promise<Profile> {
    let failed: { readonly error: unknown } | undefined;
    const id = ++this.#callCount;
    const begin = async () => {
      try {
        await work();
      } catch (error) {
        failed = { error };
      }
      if (this.#failure === undefined) this.#calls.add({ type: "worked", id });
    };
    this.#works.set(id, begin);
    try {
      const plain = plainValue("options", options) as ProfileOptions | undefined;
      const profile = await this.#answer({ type: "profile", id, options: plain });
      if (failed !== undefined) throw failed.error;
      return profile as Profile;
    } finally {
      this.#works.delete(id);
    }
  }

  async #ask<T>(method: AskedMethod, args: readonly unknown[]): Promise<T> {
    const plain = plainValue(method, args) as readonly unknown[];
    return (await this.#answer({
      type: "ask",
      id: ++this.#callCount,
      method,
      args: plain,
    })) as T;
  }

  #answer(call: Extract<EngineCall, { id: number }>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#call(call);
      this.#waiting.set(call.id, { resolve, reject });
    });
  }

  #call(call: EngineCall): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#isClosing) throw new WorkerError("Cannot generate: the engine is closed");
    this.#calls.add(call);
    this.#silence.start();
  }

  get #isWaiting(): boolean {
    if (this.#failure !== undefined) return false;
    return this.#isClosing || this.#streams.size + this.#waiting.size > 0;
  }

  #send(calls: readonly EngineCall[]): void {
    if (this.#failure !== undefined) return;
    const memory = calls.flatMap((call) =>
      call.type === "generate" ? transferOf(call.request) : [],
    );
    this.#port.post(calls, memory);
  }

  #take(answer: EngineAnswer): void {
    switch (answer.type) {
      case "opened":
        break;
      case "chunk":
        this.#takeChunk(answer);
        break;
      case "answer":
        this.#settle(answer.id)?.resolve(answer.value);
        break;
      case "failed":
        this.#takeFailure(answer.id, errorOf(answer.error));
        break;
      case "profiling":
        this.#works.get(answer.id)?.();
        break;
      case "status":
        this.#status = answer.status;
        this.#statusAt = performance.now();
        break;
      case "ping":
        this.#calls.add({ type: "pong" });
        break;
      case "ended":
        this.fail(answer.problem);
        break;
      default:
        answer satisfies never;
    }
  }

  #takeChunk({ id, chunk }: Extract<EngineAnswer, { type: "chunk" }>): void {
    const stream = this.#streams.get(id);
    // The other side knows of an end that it sent.
    if (chunk.finish !== null) this.#streams.delete(id);
    let unpacked: GenerationChunk;
    try {
      unpacked = unpackChunk(chunk);
    } catch (error) {
      // One stream's matter: the end that it gets leaves the request, and other answers go on.
      stream?.fail(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    stream?.push(unpacked);
  }

  #takeFailure(id: number, error: Error): void {
    const stream = this.#streams.get(id);
    this.#streams.delete(id);
    stream?.fail(error);
    this.#settle(id)?.reject(error);
  }

  /** The caller that waits for a call's answer, and now does not any more. */
  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }
}

/** Opens a port's other end, and leaves the port to the caller that takes the answer. */
export function openPort(port: Port, { signal }: ConnectOptions = {}): Promise<OpenedPort> {
  return new Promise<OpenedPort>((resolve, reject) => {
    const giveUp = () => refuse(signal?.reason);
    const refuse = (error: unknown) => {
      signal?.removeEventListener("abort", giveUp);
      port.close();
      reject(error);
    };
    const end = (problem: string) => refuse(new WorkerError(`Cannot reach the engine: ${problem}`));
    port.onEnd = end;
    port.onMessage = (message) => {
      for (const answer of message as readonly EngineAnswer[]) {
        if (answer.type === "ended") end(answer.problem);
        if (answer.type !== "opened") continue;
        signal?.removeEventListener("abort", giveUp);
        resolve({ port, opened: answer });
      }
    };
    if (signal?.aborted) return giveUp();
    signal?.addEventListener("abort", giveUp);
    port.post([{ type: "open", version: LIBRARY_VERSION } satisfies EngineCall]);
  });
}
