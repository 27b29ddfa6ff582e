/**
 * Sends the router's requests to workers by Node's own HTTP client, whose answers are neither decoded
 * nor limited in time.
 *
 * @module
 */
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { HttpError } from "../../http/error_response.ts";
import type {
  Upstream,
  UpstreamAnswer,
  UpstreamBody,
  UpstreamRequest,
} from "../../router/worker/upstream.ts";

/** Milliseconds in which a worker must accept a connection. */
const CONNECT_TIMEOUT = 5000;

/** Connections to one worker that are kept for later requests. */
const KEPT_CONNECTIONS = 256;

/** Bytes of an answer that wait here while the client takes none. */
const WAITING_BYTES = 64 * 1024;

export interface HttpUpstream {
  readonly send: Upstream;
  /** Closes the connections that are kept. */
  close(): void;
}

export function httpUpstream(): HttpUpstream {
  const kept = { keepAlive: true, maxFreeSockets: KEPT_CONNECTIONS };
  const agents = { http: new HttpAgent(kept), https: new HttpsAgent(kept) };
  return {
    send: (request) => send(request, agents),
    close: () => {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

/**
 * Asks the cluster over a connection of its own.
 *
 * @param ca Certificates that are trusted in place of the system's.
 */
export function askCluster(request: UpstreamRequest, ca?: string): Promise<UpstreamAnswer> {
  const agents = { http: new HttpAgent(), https: new HttpsAgent({ ca }) };
  return exchange(request, agents, "cluster");
}

/** Who is asked, as messages say it. */
type Asked = "worker" | "cluster";

interface Agents {
  readonly http: HttpAgent;
  readonly https: HttpsAgent;
}

async function send(request: UpstreamRequest, agents: Agents): Promise<UpstreamAnswer> {
  try {
    return await exchange(request, agents);
  } catch (error) {
    // A worker closes connections that nothing came over; one may close as a request comes.
    if (!(error instanceof StaleConnection)) throw error;
    return await exchange(request, undefined);
  }
}

/** A kept connection turned out to be closed before anything came of an answer. */
class StaleConnection extends Error {}

/** Messages of the system have addresses in them, which are no matter of clients. */
function problemOf(cause: NodeJS.ErrnoException): string {
  return cause.code ?? cause.message;
}

function unreachable(asked: Asked, problem: string, cause?: Error): HttpError {
  return new HttpError("worker_failed", `Cannot reach the ${asked}: ${problem}`, { cause });
}

/** @param agents Undefined: over a connection of its own. */
function exchange(
  request: UpstreamRequest,
  agents: Agents | undefined,
  asked: Asked = "worker",
): Promise<UpstreamAnswer> {
  const { url, method, headers, body, signal } = request;
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const isSecure = url.startsWith("https:");
    const agent = agents === undefined ? false : isSecure ? agents.https : agents.http;
    const length = body === undefined ? {} : { "content-length": String(body.length) };
    const options = { method, agent, headers: { ...headers, ...length } };
    const outgoing = (isSecure ? httpsRequest : httpRequest)(url, options);
    const onAbort = () => outgoing.destroy();
    signal.addEventListener("abort", onAbort, { once: true });
    const release = () => signal.removeEventListener("abort", onAbort);
    outgoing.once("close", release);
    outgoing.once("response", (incoming) => {
      if (incoming.statusCode! < 200 || incoming.statusCode! > 599) {
        outgoing.destroy(unreachable(asked, `it answered with status ${incoming.statusCode}`));
        return;
      }
      resolve({
        status: incoming.statusCode!,
        headers: headersOf(incoming),
        body: new IncomingBody(incoming, signal, asked),
      });
    });
    outgoing.on("error", (cause: NodeJS.ErrnoException) => {
      if (signal.aborted) return reject(signal.reason);
      if (cause instanceof HttpError) return reject(cause);
      const isClosed = cause.code === "ECONNRESET" || cause.code === "EPIPE";
      reject(
        outgoing.reusedSocket && isClosed
          ? new StaleConnection()
          : unreachable(asked, problemOf(cause), cause),
      );
    });
    limitConnect(outgoing, isSecure ? "secureConnect" : "connect", asked);
    outgoing.end(body);
  });
}

/** A machine that is gone says nothing, and the system would wait for minutes. */
function limitConnect(
  outgoing: ClientRequest,
  connected: "connect" | "secureConnect",
  asked: Asked,
): void {
  outgoing.once("socket", (socket: Socket) => {
    if (!socket.connecting) return;
    const timer = setTimeout(() => {
      outgoing.destroy(unreachable(asked, `no connection in ${CONNECT_TIMEOUT / 1000} seconds`));
    }, CONNECT_TIMEOUT);
    const end = () => clearTimeout(timer);
    socket.once(connected, end);
    socket.once("close", end);
  });
}

/** Those of several values each as often as they came. */
function headersOf({ rawHeaders }: IncomingMessage): readonly (readonly [string, string])[] {
  const headers: (readonly [string, string])[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    headers.push([rawHeaders[i]!.toLowerCase(), rawHeaders[i + 1]!]);
  }
  return headers;
}

type Next = Uint8Array | undefined;

/** An answer's body, read as its client takes it. */
class IncomingBody implements UpstreamBody {
  readonly #incoming: IncomingMessage;
  readonly #signal: AbortSignal;
  readonly #asked: Asked;
  /** What has come and was not read. */
  readonly #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #reading: { resolve: (next: Next) => void; reject: (error: unknown) => void } | undefined;
  #isOver = false;
  #error: unknown;

  constructor(incoming: IncomingMessage, signal: AbortSignal, asked: Asked) {
    this.#incoming = incoming;
    this.#signal = signal;
    this.#asked = asked;
    incoming.on("data", (bytes: Uint8Array) => this.#take(bytes));
    incoming.once("end", () => this.#end());
    incoming.once("error", (cause) => this.#fail(problemOf(cause), cause));
    // Without an error where the request was destroyed.
    incoming.once("close", () => this.#fail("the connection was closed"));
  }

  read(): Promise<Next> {
    const bytes = this.#waiting.shift();
    if (bytes !== undefined) {
      this.#waitingBytes -= bytes.length;
      if (this.#incoming.isPaused() && this.#waitingBytes < WAITING_BYTES) this.#incoming.resume();
      return Promise.resolve(bytes);
    }
    if (this.#error !== undefined) return Promise.reject(this.#error);
    if (this.#isOver) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => {
      this.#reading = { resolve, reject };
    });
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#incoming.destroy();
  }

  #take(bytes: Uint8Array): void {
    const reading = this.#reading;
    if (reading !== undefined) {
      this.#reading = undefined;
      reading.resolve(bytes);
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#waitingBytes >= WAITING_BYTES) this.#incoming.pause();
  }

  #end(): void {
    this.#isOver = true;
    this.#reading?.resolve(undefined);
    this.#reading = undefined;
  }

  #fail(problem: string, cause?: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const message = `Cannot finish the answer: the ${this.#asked} broke off (${problem})`;
    const broken = new HttpError("worker_failed", message, { cause });
    this.#error = this.#signal.aborted ? this.#signal.reason : broken;
    this.#reading?.reject(this.#error);
    this.#reading = undefined;
  }
}
