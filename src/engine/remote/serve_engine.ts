/**
 * The far side of a `RemoteEngine`: carries out what comes through a port.
 *
 * One engine may serve several ports. Each has its own requests, which end when it does.
 *
 * @module
 */
import { WorkerError } from "../../errors.ts";
import type { EngineStatus, GenerationEngine } from "../../generation.ts";
import { SilenceWatch } from "../../http/silence.ts";
import { LIBRARY_VERSION } from "../prefix/prefix_options.ts";
import { WakeUp } from "../step/wake_up.ts";
import {
  CHUNK_WINDOW,
  type EngineAnswer,
  type EngineCall,
  type OptionalMethod,
} from "./engine_messages.ts";
import { errorData } from "./error_data.ts";
import { Outbox } from "./outbox.ts";
import { packChunk } from "./packed_chunk.ts";
import type { Port } from "./port.ts";

/** Milliseconds after which the status is looked at again, while there is work and while there is none. */
const BUSY_MS = 100;
const IDLE_MS = 1000;

const OPTIONAL_METHODS: Readonly<Record<OptionalMethod, true>> = {
  profile: true,
  cacheTree: true,
  recordExperts: true,
};

/**
 * Serves the engine through the port, until the port's other end closes it.
 *
 * @returns Ends what the port has running and tells its other end that the engine is gone. What has
 * been answered until then still gets there.
 */
export function serveEngine(engine: GenerationEngine, port: Port): () => void {
  const served = servePort(engine, port);
  return () => served.end("the engine is closed");
}

/** An engine as it is served through one port. */
export interface ServedPort {
  /** As what `serveEngine` returns. @param problem What the other end is told. */
  end(problem: string): void;
  /** Ends once all that the port has asked until then is answered. */
  drain(problem: string): Promise<void>;
}

/** As `serveEngine`, with both ways to end it. */
export function servePort(engine: GenerationEngine, port: Port): ServedPort {
  return new EngineServer(engine, port);
}

interface RunningRequest {
  readonly requestId: string;
  readonly leaving: AbortController;
  /** Chunks that are on their way or wait to be taken. */
  ahead: number;
  readonly taken: WakeUp;
  /** Resolves once its last answer is on its way. */
  done: Promise<void>;
}

class EngineServer implements ServedPort {
  readonly #engine: GenerationEngine;
  readonly #port: Port;
  readonly #answers = new Outbox<EngineAnswer>((answers) => this.#send(answers));
  readonly #running = new Map<number, RunningRequest>();
  /** Ends the work that a profile is taken of, by the call's id. */
  readonly #profiled = new Map<number, () => void>();
  /** Those that are not answered yet, by the same. */
  readonly #profiles = new Map<number, Promise<void>>();
  /** What else is not answered yet. */
  readonly #replies = new Set<Promise<void>>();
  readonly #silence = new SilenceWatch({
    isWaiting: () => this.#running.size > 0,
    ping: () => this.#answers.add({ type: "ping" }),
    onSilence: () => this.#abandon(),
  });
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** What the other end has. */
  #sentStatus: EngineStatus | undefined;
  #isClosing = false;
  #hasEnded = false;

  constructor(engine: GenerationEngine, port: Port) {
    this.#engine = engine;
    this.#port = port;
    port.onEnd = () => this.#leave();
    port.onMessage = (message) => {
      this.#silence.heard();
      for (const call of message as readonly EngineCall[]) this.#take(call);
    };
    this.#watchStatus();
  }

  end(problem: string): void {
    if (!this.#hasEnded) this.#answers.add({ type: "ended", problem });
  }

  drain(problem: string): Promise<void> {
    const open = [...this.#replies, ...[...this.#running.values()].map(({ done }) => done)];
    if (open.length > 0) return Promise.all(open).then(() => this.drain(problem));
    this.end(problem);
    return Promise.resolve();
  }

  #take(call: EngineCall): void {
    switch (call.type) {
      case "open":
        this.#open(call.version);
        break;
      case "generate":
        this.#generate(call);
        break;
      case "taken":
        this.#noteTaken(call);
        break;
      case "leave":
        this.#running.get(call.id)?.leaving.abort();
        this.#running.get(call.id)?.taken.call();
        break;
      case "abort":
        this.#engine.abort(call.requestId);
        break;
      case "ask":
        this.#reply(call.id, this.#ask(call));
        break;
      case "profile":
        this.#answerProfile(call);
        break;
      case "worked":
        this.#profiled.get(call.id)?.();
        break;
      case "ping":
        this.#post([], this.#engine.status());
        break;
      case "pong":
        break;
      case "close":
        this.#close();
        break;
      default:
        call satisfies never;
    }
  }

  #open(version: string): void {
    if (version !== LIBRARY_VERSION) {
      this.end(`its other end is version ${version} of this library, here is ${LIBRARY_VERSION}`);
      return;
    }
    const names = Object.keys(OPTIONAL_METHODS) as OptionalMethod[];
    this.#answers.add({
      type: "opened",
      model: this.#engine.model,
      status: this.#engine.status(),
      methods: names.filter((name) => this.#engine[name] !== undefined),
    });
  }

  #generate({ id, request }: Extract<EngineCall, { type: "generate" }>): void {
    const running: RunningRequest = {
      requestId: request.requestId!,
      leaving: new AbortController(),
      ahead: 0,
      taken: new WakeUp(),
      done: Promise.resolve(),
    };
    const { signal } = running.leaving;
    const pump = async () => {
      let isOver = false;
      for await (const chunk of this.#engine.generate({ ...request, signal })) {
        this.#answers.add({ type: "chunk", id, chunk: packChunk(chunk) });
        running.ahead += 1;
        isOver = chunk.finish !== null;
        while (!isOver && this.#mustWait(running)) await running.taken.wait();
        if (signal.aborted) return;
      }
      if (!isOver)
        throw new Error("Cannot answer: the engine ended a request without a last chunk");
    };
    this.#running.set(id, running);
    this.#silence.start();
    running.done = pump()
      .catch((error) => {
        if (!signal.aborted) this.#answers.add({ type: "failed", id, error: errorData(error) });
      })
      .finally(() => this.#running.delete(id));
  }

  #mustWait({ ahead, leaving }: RunningRequest): boolean {
    return ahead >= CHUNK_WINDOW && !leaving.signal.aborted && !this.#isClosing;
  }

  #noteTaken({ id, chunks }: Extract<EngineCall, { type: "taken" }>): void {
    const running = this.#running.get(id);
    if (running === undefined) return;
    running.ahead -= chunks;
    running.taken.call();
  }

  async #ask({ method, args }: Extract<EngineCall, { type: "ask" }>): Promise<unknown> {
    const ask = this.#engine[method] as (...args: readonly unknown[]) => Promise<unknown>;
    return ask.apply(this.#engine, [...args]);
  }

  async #profile({ id, options }: Extract<EngineCall, { type: "profile" }>): Promise<unknown> {
    const work = () =>
      new Promise<void>((resolve) => {
        // The caller may have gone while the profile was prepared.
        if (this.#isClosing || this.#hasEnded) return resolve();
        this.#profiled.set(id, resolve);
        this.#answers.add({ type: "profiling", id });
      });
    try {
      return await this.#engine.profile!(work, options);
    } finally {
      this.#profiled.delete(id);
    }
  }

  #answerProfile(call: Extract<EngineCall, { type: "profile" }>): void {
    const { id } = call;
    const answered = this.#reply(id, this.#profile(call));
    this.#profiles.set(id, answered);
    answered.finally(() => this.#profiles.delete(id));
  }

  #reply(id: number, answer: Promise<unknown>): Promise<void> {
    const reply = answer
      .then((value): EngineAnswer => ({ type: "answer", id, value }))
      .catch((error): EngineAnswer => ({ type: "failed", id, error: errorData(error) }))
      .then((settled) => {
        this.#answers.add(settled);
        this.#replies.delete(reply);
      });
    this.#replies.add(reply);
    return reply;
  }

  /** Ends the port's requests as the engine's own `close` does: with a last chunk, and with profiles. */
  async #close(): Promise<void> {
    this.#isClosing = true;
    for (const { requestId, taken } of this.#running.values()) {
      this.#engine.abort(requestId);
      taken.call();
    }
    const begun = [...this.#profiled.keys()].map((id) => this.#profiles.get(id));
    this.#endProfiles();
    await Promise.all([...this.#running.values()].map(({ done }) => done));
    await Promise.all(begun);
    this.end("its connection is closed");
  }

  /** The other end is gone: no caller waits any more. */
  #leave(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    for (const { leaving, taken } of this.#running.values()) {
      leaving.abort();
      taken.call();
    }
    this.#endProfiles();
    this.#port.close();
  }

  /** A page that was away, as sleeping ones are, gets the error when it comes back. */
  #abandon(): void {
    const error = errorData(new WorkerError("Cannot generate: the caller did not answer any more"));
    for (const [id, { leaving, taken }] of this.#running) {
      this.#answers.add({ type: "failed", id, error });
      leaving.abort();
      taken.call();
    }
  }

  #endProfiles(): void {
    for (const finish of this.#profiled.values()) finish();
  }

  #send(answers: readonly EngineAnswer[]): void {
    if (this.#hasEnded) return;
    this.#post(answers, this.#engine.status());
    // A last chunk comes before the engine has put everything away.
    this.#watchStatusIn(BUSY_MS);
    if (answers.some(({ type }) => type === "ended")) this.#leave();
  }

  /** The newest status goes along with all answers, and alone when there are none for a while. */
  #watchStatus(): void {
    const status = this.#engine.status();
    const isBusy = status.runningRequests + status.queuedRequests > 0;
    if (isBusy || JSON.stringify(status) !== JSON.stringify(this.#sentStatus)) {
      this.#post([], status);
    }
    this.#watchStatusIn(isBusy ? BUSY_MS : IDLE_MS);
  }

  #watchStatusIn(milliseconds: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#watchStatus(), milliseconds);
  }

  #post(answers: readonly EngineAnswer[], status: EngineStatus): void {
    this.#sentStatus = status;
    this.#port.post([...answers, { type: "status", status } satisfies EngineAnswer]);
  }
}
