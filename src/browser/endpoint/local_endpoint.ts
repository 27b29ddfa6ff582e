/**
 * A local endpoint: the server's HTTP interface inside a page's own origin, for any client that uses
 * `fetch`. Requests never leave the browser: a service worker answers them with the page's engine.
 *
 * Only pages of the same origin below the scope reach it. Other origins and other programs of the
 * machine do not.
 *
 * A client that leaves a stream ends its request. Browsers do not tell a service worker of one that
 * leaves before the answer begins, so an answer that is not streamed is generated to its end.
 *
 * @module
 */
import { errorOf } from "../../engine/remote/error_data.ts";
import { InvalidRequestError, UnsupportedError, WorkerError } from "../../errors.ts";
import {
  type EndpointCall,
  type EndpointNews,
  type EndpointOptions,
  isEndpointMessage,
} from "./endpoint_messages.ts";

/** An engine that gives ports to itself, such as a `WorkerEngine`. */
export interface Connectable {
  connect(): MessagePort;
  /** Resolves when there is nothing to connect to any more. */
  readonly ended: Promise<void>;
}

export interface LocalEndpointOptions extends EndpointOptions {
  /**
   * Where the package's `browser_service_worker.js` is served, on the page's own origin. Default: in
   * the page's folder.
   */
  readonly scriptUrl?: string | URL | undefined;
  /**
   * The folder below which pages use the endpoint, at its paths: `<scope>/v1/chat/completions`.
   * Default: the script's, which a server has to allow a wider one.
   */
  readonly scope?: string | URL | undefined;
}

export interface LocalEndpoint {
  /** The scope, ending in a slash: `/generate` is at `${url}generate`. */
  readonly url: string;
  /** What clients of OpenAI's interface are given as their `baseURL`. */
  readonly baseURL: string;
  /**
   * Takes the engine away again, which itself goes on. Other tabs' engines answer from here on; after
   * the last one, the service worker leaves too.
   */
  close(): Promise<void>;
}

const SCRIPT = "browser_service_worker.js";
/** Milliseconds after which a service worker that does not answer counts as broken. */
const PATIENCE_MS = 30_000;

/**
 * Starts to answer requests of this origin's pages with the engine. Where several tabs offer one, the
 * newest answers.
 *
 * @throws {UnsupportedError} where pages have no service workers, as without HTTPS.
 * @throws {InvalidRequestError} when this page is outside of the scope, or an option is out of range.
 * @throws {WorkerError} when the service worker cannot be loaded or started.
 */
export async function startLocalEndpoint(
  engine: Connectable,
  options: LocalEndpointOptions = {},
): Promise<LocalEndpoint> {
  const { scriptUrl = SCRIPT, scope, ...endpoints } = options;
  const workers = globalThis.navigator?.serviceWorker;
  if (workers === undefined) {
    throw new UnsupportedError("a local endpoint", "this page has no service workers");
  }
  const script = new URL(scriptUrl, document.baseURI);
  const folder = new URL(scope ?? ".", scope === undefined ? script : document.baseURI);
  if (!folder.pathname.endsWith("/")) {
    throw new InvalidRequestError(
      `Cannot use scope ${folder.href}: it must end in a slash`,
      "scope",
    );
  }
  if (!location.href.startsWith(folder.href)) {
    const problem = `it must be a folder above this page, ${location.href}`;
    throw new InvalidRequestError(`Cannot use scope ${folder.href}: ${problem}`, "scope");
  }
  const registration = await register(workers, script, folder);
  const endpoint = new OfferedEngine({ workers, registration, engine, options: endpoints });
  await endpoint.open();
  return endpoint;
}

async function register(
  workers: ServiceWorkerContainer,
  script: URL,
  scope: URL,
): Promise<ServiceWorkerRegistration> {
  try {
    return await workers.register(script, { scope: scope.href, updateViaCache: "none" });
  } catch (cause) {
    const { message } = cause as Error;
    throw new WorkerError(`Cannot start the local endpoint: ${message}`, { cause });
  }
}

interface OfferParts {
  readonly workers: ServiceWorkerContainer;
  readonly registration: ServiceWorkerRegistration;
  readonly engine: Connectable;
  readonly options: EndpointOptions;
}

/** An engine at a service worker, which gets a new port whenever it asks for one. */
class OfferedEngine implements LocalEndpoint {
  readonly url: string;
  readonly baseURL: string;
  readonly #parts: OfferParts;
  readonly #id = crypto.randomUUID();
  readonly #listener = ({ data, source }: MessageEvent) => {
    if (isEndpointMessage(data)) this.#take(data as EndpointNews, source as ServiceWorker);
  };
  /** Who waits for an answer of the service worker. */
  #onAnswer: ((news: EndpointNews) => void) | undefined;
  /** Whether the engine is there for a request. */
  #isOffering = true;
  #closing: Promise<void> | undefined;

  constructor(parts: OfferParts) {
    this.#parts = parts;
    this.url = parts.registration.scope;
    this.baseURL = `${this.url}v1`;
  }

  async open(): Promise<void> {
    const { workers, registration, engine } = this.#parts;
    this.#listen();
    workers.startMessages();
    void engine.ended.then(() => this.#leave());
    try {
      this.#offer(await activeWorker(registration));
      const news = await this.#answer();
      if (news.wispEndpoint === "refused") throw errorOf(news.error);
      await controlled(workers, registration);
    } catch (error) {
      this.#leave();
      throw error;
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#withdraw();
    return this.#closing;
  }

  async #withdraw(): Promise<void> {
    const { active } = this.#parts.registration;
    this.#isOffering = false;
    // Where the engine has ended before, the engine's end of the port listens no more.
    this.#listen();
    try {
      const call: EndpointCall = { wispEndpoint: "withdraw", id: this.#id };
      active?.postMessage(call);
      if (active !== null) await this.#answer();
    } finally {
      this.#leave();
    }
  }

  #listen(): void {
    this.#parts.workers.addEventListener("message", this.#listener);
  }

  /** From here on nothing is offered any more. */
  #leave(): void {
    this.#isOffering = false;
    this.#parts.workers.removeEventListener("message", this.#listener);
  }

  #offer(to: ServiceWorker): void {
    const { engine, options } = this.#parts;
    const call: EndpointCall = { wispEndpoint: "offer", id: this.#id, options };
    to.postMessage(call, [engine.connect()]);
  }

  /** To a service worker that has lost its port. */
  #offerAgain(to: ServiceWorker): void {
    if (!this.#isOffering) return;
    try {
      this.#offer(to);
    } catch (error) {
      // An engine that is just being closed has no port to give any more.
      if (!(error instanceof WorkerError)) throw error;
    }
  }

  /** What the service worker says to the message that was just sent. */
  #answer(): Promise<EndpointNews> {
    const answer = new Promise<EndpointNews>((resolve) => {
      this.#onAnswer = resolve;
    });
    return inTime(answer, "its service worker does not answer");
  }

  #take(news: EndpointNews, from: ServiceWorker): void {
    switch (news.wispEndpoint) {
      case "wanted":
        this.#offerAgain(from);
        break;
      case "wake":
        from.postMessage({ wispEndpoint: "awake" } satisfies EndpointCall);
        break;
      case "taken":
      case "refused":
      case "withdrawn":
        if (news.id === this.#id) this.#onAnswer?.(news);
        break;
      default:
        news satisfies never;
    }
  }
}

/** The registered worker, once it is able to take messages. */
async function activeWorker(registration: ServiceWorkerRegistration): Promise<ServiceWorker> {
  const worker = registration.installing ?? registration.waiting ?? registration.active;
  if (worker === null) throw new WorkerError("Cannot start the local endpoint: it is withdrawn");
  const listening = new AbortController();
  const active = new Promise<ServiceWorker>((resolve, reject) => {
    const look = () => {
      if (worker.state === "activated") resolve(worker);
      if (worker.state !== "redundant") return;
      reject(new WorkerError("Cannot start the local endpoint: its service worker failed"));
    };
    worker.addEventListener("statechange", look, listening);
    look();
  });
  return inTime(active, "its service worker does not start").finally(() => listening.abort());
}

/** Resolves once this page's requests go through the registered worker. */
async function controlled(
  workers: ServiceWorkerContainer,
  registration: ServiceWorkerRegistration,
): Promise<void> {
  const isOurs = () =>
    workers.controller !== null && workers.controller.scriptURL === registration.active?.scriptURL;
  if (isOurs()) return;
  const listening = new AbortController();
  const changed = new Promise<void>((resolve) => {
    workers.addEventListener("controllerchange", () => isOurs() && resolve(), listening);
  });
  const ours = inTime(changed, "another service worker controls this page");
  await ours.finally(() => listening.abort());
}

function inTime<T>(promise: Promise<T>, problem: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => {
    const error = new WorkerError(`Cannot use the local endpoint: ${problem}`);
    timer = setTimeout(() => reject(error), PATIENCE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
