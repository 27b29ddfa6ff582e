/**
 * The engine in a worker, so that a page stays smooth while a model is loaded and answers.
 *
 * @module
 */
import { errorOf } from "../../engine/remote/error_data.ts";
import { messagePort } from "../../engine/remote/port.ts";
import { type OpenedPort, openPort } from "../../engine/remote/remote_engine.ts";
import { UnsupportedError, WorkerError } from "../../errors.ts";
import { RemoteEngine } from "../../openai/remote_engine.ts";
import type { OpenDeviceOptions } from "../device.ts";
import type { ModelAddress } from "./model_address.ts";
import type {
  EngineFacts,
  ListenerName,
  Listeners,
  PlainEngineOptions,
  WorkerCall,
  WorkerNews,
} from "./worker_messages.ts";

/** Options of the engine that are plain data, and what is called on the page. */
export interface WorkerEngineOptions extends PlainEngineOptions, Listeners, OpenDeviceOptions {
  /**
   * Where the package's `browser_worker.js` is served, with `browser_grammar_worker.js` and
   * `browser_image_worker.js` beside it.
   * Default: the address that the page's bundler has given it; few bundlers give it none.
   */
  readonly workerUrl?: string | URL | undefined;
  /** Ends the loading, and the worker with it. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Loads a model in a new worker.
 *
 * @throws {DeviceError} when workers of this browser have no WebGPU, or the model does not fit.
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with the model.
 * @throws {InvalidRequestError | UnsupportedError} naming an option that is out of range, or that
 * cannot be sent to a worker.
 * @throws {WorkerError} when the worker cannot be started, or ends.
 * @throws `signal.reason` when the signal is aborted.
 */
export async function loadWorkerEngine(
  address: ModelAddress,
  options: WorkerEngineOptions = {},
): Promise<WorkerEngine> {
  const { onPlan, onProgress, onRecovery, onStep, onPrefixProblem, onPages, ...others } = options;
  const { signal, powerPreference, workerUrl, ...plain } = others;
  const told = { onPlan, onProgress, onRecovery, onStep, onPrefixProblem, onPages };
  const listeners = told as Listeners;
  const listenerNames = Object.keys(listeners) as ListenerName[];
  requirePlain(plain);
  signal?.throwIfAborted();
  const worker = new EngineWorker(startWorker(workerUrl), listeners);
  const giveUp = () => worker.end("the loading is given up", signal!.reason);
  signal?.addEventListener("abort", giveUp);
  try {
    worker.send({
      type: "load",
      address: fromHere(address),
      options: { ...plain, draftModel: plain.draftModel && fromHere(plain.draftModel) },
      device: { powerPreference },
      listeners: listenerNames.filter((name) => listeners[name] !== undefined),
    });
    const facts = await worker.loaded;
    const opened = await Promise.race([openPort(messagePort(worker.connect())), worker.failed]);
    const takesPages = options.transfersPages ?? false;
    return new WorkerEngine({ worker, facts, opened, takesPages });
  } catch (error) {
    worker.end("it could not be loaded", error);
    throw error;
  } finally {
    signal?.removeEventListener("abort", giveUp);
  }
}

interface WorkerEngineParts {
  readonly worker: EngineWorker;
  readonly facts: EngineFacts;
  readonly opened: OpenedPort;
  readonly takesPages: boolean;
}

/** An engine in a worker of this page, by `loadWorkerEngine`. */
export class WorkerEngine extends RemoteEngine implements EngineFacts {
  readonly adapter: EngineFacts["adapter"];
  readonly memoryPlan: EngineFacts["memoryPlan"];
  readonly selfTest: EngineFacts["selfTest"];
  readonly quantizationErrors: EngineFacts["quantizationErrors"];
  readonly pipelines: EngineFacts["pipelines"];
  /** Whether pages of prompts may come from servers: see `joinAsDecodeNode`. */
  readonly takesPages: boolean;
  readonly #worker: EngineWorker;
  #isClosing = false;

  constructor({ worker, facts, opened, takesPages }: WorkerEngineParts) {
    super(opened);
    this.takesPages = takesPages;
    this.#worker = worker;
    this.adapter = facts.adapter;
    this.memoryPlan = facts.memoryPlan;
    this.selfTest = facts.selfTest;
    this.quantizationErrors = facts.quantizationErrors;
    this.pipelines = facts.pipelines;
    worker.onEnd = (problem, reason) => this.fail(problem, reason);
  }

  /**
   * A further port to the same engine, to be handed to another thread, such as a service worker. A
   * `RemoteEngine` opens it there: `RemoteEngine.connect(messagePort(port))`.
   *
   * @throws {WorkerError} when the engine is closed, or its worker has ended.
   */
  connect(): MessagePort {
    if (this.#isClosing) throw new WorkerError("Cannot connect: the engine is closed");
    return this.#worker.connect();
  }

  /** Ends running requests with an abort, those of all ports, then the engine and its worker. */
  override async close(): Promise<void> {
    if (!this.#isClosing) this.#worker.send({ type: "close" });
    this.#isClosing = true;
    await this.ended;
    this.#worker.end("the engine is closed");
  }
}

/** Bundlers look for just this form of an address that they know. */
function startWorker(url: string | URL | undefined): Worker {
  return url === undefined
    ? new Worker(new URL("../worker.ts", import.meta.url), { type: "module" })
    : new Worker(url, { type: "module" });
}

/** A worker that runs worker.ts. */
class EngineWorker {
  readonly loaded: Promise<EngineFacts>;
  /** Rejects when the worker has ended; never resolves. */
  readonly failed: Promise<never>;
  onEnd: ((problem: string, reason: unknown) => void) | undefined;
  readonly #worker: Worker;
  readonly #listeners: Listeners;
  #settle!: {
    readonly resolve: (facts: EngineFacts) => void;
    readonly reject: (error: unknown) => void;
  };
  #fail!: (error: unknown) => void;
  #hasEnded = false;

  constructor(worker: Worker, listeners: Listeners) {
    this.#worker = worker;
    this.#listeners = listeners;
    this.failed = new Promise((_, reject) => {
      this.#fail = reject;
    });
    this.loaded = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    for (const promise of [this.failed, this.loaded]) promise.catch(() => {});
    this.#worker.onmessage = ({ data }: MessageEvent<WorkerNews>) => this.#take(data);
    this.#worker.onmessageerror = () => this.end("a message of its worker cannot be read");
    this.#worker.onerror = ({ message }) => {
      this.end(`its worker ${message ? `failed: ${message}` : "cannot be loaded"}`);
    };
  }

  send(call: WorkerCall, transfer: Transferable[] = []): void {
    this.#worker.postMessage(call, transfer);
  }

  connect(): MessagePort {
    if (this.#hasEnded) throw new WorkerError("Cannot connect: the worker has ended");
    const { port1, port2 } = new MessageChannel();
    this.send({ type: "connect", port: port1 }, [port1]);
    return port2;
  }

  /** @param reason What those get who wait for it. */
  end(
    problem: string,
    reason: unknown = new WorkerError(`Cannot run the engine: ${problem}`),
  ): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#worker.terminate();
    this.#settle.reject(reason);
    this.#fail(reason);
    this.onEnd?.(problem, reason);
  }

  #take(news: WorkerNews): void {
    switch (news.type) {
      case "called":
        this.#call(news);
        break;
      case "loaded":
        this.#settle.resolve(news.facts);
        break;
      case "failed":
        this.#settle.reject(errorOf(news.error));
        break;
      default:
        news satisfies never;
    }
  }

  #call({ listener, argument }: Extract<WorkerNews, { type: "called" }>): void {
    try {
      (this.#listeners[listener] as ((argument: unknown) => void) | undefined)?.(argument);
    } catch (error) {
      this.end(`${listener} failed: ${(error as Error).message}`, error);
    }
  }
}

/** @throws {UnsupportedError} naming the option that a worker cannot be sent. */
function requirePlain(options: PlainEngineOptions): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (OWN_OPTIONS.includes(name)) {
      throw new UnsupportedError(name, "an engine in a worker has its own");
    }
    try {
      structuredClone(value);
    } catch (cause) {
      throw new UnsupportedError(name, "it cannot be sent to a worker", { cause });
    }
  }
}

/** What the worker makes itself. */
const OWN_OPTIONS: readonly string[] = [
  ...["decodeImage", "device", "grammarService", "imageService", "textService"],
];

/** Relative addresses count from here, and not from the worker's file. */
function fromHere(address: ModelAddress): ModelAddress {
  if (address.kind !== "url") return address;
  return { ...address, url: new URL(address.url, globalThis.location.href).href };
}
