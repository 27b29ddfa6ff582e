/**
 * Puts an app, a function of `Request`, on a socket.
 *
 * @module
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { getRequestListener, type Http2Bindings, type HttpBindings } from "@hono/node-server";
import { setClient } from "../../http/client_of.ts";
import { setConnection } from "../../http/connection_of.ts";
import { errorBody, errorResponse, HttpError } from "../../http/error_response.ts";
import { REQUEST_ID_HEADER, requestIdOf } from "../../http/request_id.ts";
import { clientOfAddress } from "./client_address.ts";
import { SOCKET_LIMITS, type SocketLimits } from "./socket_limits.ts";

/** Anything with a `fetch`, such as a Hono app. */
export interface App {
  fetch(request: Request): Response | Promise<Response>;
}

export interface ServeOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Default: those of `SOCKET_LIMITS`. */
  readonly limits?: Partial<SocketLimits> | undefined;
  /** Takes connections that are to leave HTTP. Default: such requests are answered as others are. */
  readonly upgrade?:
    | ((incoming: IncomingMessage, socket: Socket, head: Buffer) => void)
    | undefined;
}

/** Milliseconds; Node's timers take no more. */
const LONGEST_TIMER = 2 ** 31 - 1;

export interface RunningServer {
  /** Where it listens, such as `http://127.0.0.1:30000`. */
  readonly url: string;
  /**
   * Waits until the requests that run now are answered, while the server still takes new ones.
   *
   * @param timeout Milliseconds.
   * @returns Whether they all were.
   */
  settle(timeout: number): Promise<boolean>;
  /**
   * Takes no more connections, lets running requests finish, and resolves after the last one.
   *
   * @param grace Milliseconds after which the connections of those that still run are cut. Default:
   * never.
   */
  close(grace?: number): Promise<void>;
}

/**
 * Serves `app` until it is closed. A client that leaves aborts the `signal` of its request and
 * cancels the body of its response.
 *
 * @throws {Error} when the address cannot be used.
 */
export async function serve(app: App, options: ServeOptions): Promise<RunningServer> {
  const { host, port } = options;
  const limits = { ...SOCKET_LIMITS, ...options.limits };
  const fetch = (request: Request, { incoming }: HttpBindings | Http2Bindings) => {
    const client = clientOfAddress(incoming.socket.remoteAddress);
    if (client !== undefined) setClient(request, client);
    setConnection(request, () => incoming.socket.destroy());
    return app.fetch(request);
  };
  const answer = getRequestListener(fetch, {
    overrideGlobalObjects: false,
    errorHandler: unmadeRequest,
  });
  const server = createServer({
    maxHeaderSize: limits.headerBytes,
    headersTimeout: limits.headersTime,
    requestTimeout: limits.requestTime,
    keepAliveTimeout: limits.idleTime,
    connectionsCheckingInterval: limits.lookTime,
  });
  // By their size there is a limit on headers already; Node would leave out those behind a count.
  server.maxHeadersCount = 0;
  server.maxConnections = limits.connections;
  const connections = new Connections(server, limits);
  server.on("request", (incoming, outgoing) => {
    if (connections.admits(incoming.socket, outgoing)) void answer(incoming, outgoing);
  });
  if (options.upgrade !== undefined) server.on("upgrade", options.upgrade);
  await listen(server, host, port);
  const address = server.address() as AddressInfo;
  const shownHost = host.includes(":") ? `[${host}]` : host;
  return {
    url: `http://${shownHost}:${address.port}`,
    settle: (timeout) => connections.settle(timeout),
    close: (grace) => connections.close(grace),
  };
}

/** What is no HTTP, or never comes to its end, by Node's code for it. */
const MESSAGE_ERRORS: Readonly<Record<string, HttpError>> = {
  HPE_HEADER_OVERFLOW: new HttpError("headers_too_large", "Cannot read the headers: too long"),
  ERR_HTTP_REQUEST_TIMEOUT: new HttpError(
    "timed_out",
    "Cannot read the request: its rest did not come in time",
  ),
};

/** The answer to a message that no app gets to see, as it stands on the wire. */
function refusal({ code, message }: NodeJS.ErrnoException): string {
  const error =
    MESSAGE_ERRORS[code ?? ""] ??
    new HttpError("malformed_request", `Cannot read the request: ${message}`);
  const { type, code: status } = errorBody(error);
  const body = JSON.stringify(errorBody(error));
  return [
    `HTTP/1.1 ${status} ${type}`,
    "connection: close",
    `${REQUEST_ID_HEADER}: ${requestIdOf(new Headers())}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    "",
    body,
  ].join("\r\n");
}

/** The answer to HTTP of which no `Request` can be made, such as a host with a space in it. */
function unmadeRequest(cause: unknown): Response {
  const isOfClient = cause instanceof Error && cause.name === "RequestError";
  const error = isOfClient
    ? new HttpError("malformed_request", `Cannot read the request: ${cause.message}`, { cause })
    : cause;
  return errorResponse(error, { [REQUEST_ID_HEADER]: requestIdOf(new Headers()) });
}

/**
 * Finds out whether `serve` could listen there, without keeping the address.
 *
 * @throws {Error} when the address cannot be used.
 */
export async function requireFreeAddress({ host, port }: ServeOptions): Promise<void> {
  const server = createServer();
  await listen(server, host, port);
  await new Promise((resolve) => server.close(resolve));
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (cause: NodeJS.ErrnoException) => {
      const problems: Readonly<Record<string, string>> = {
        EADDRINUSE: "the port is in use",
        EACCES: "this user may not use the port",
        EADDRNOTAVAIL: "this machine has no such address",
        ENOTFOUND: "there is no such host",
      };
      const problem = problems[cause.code ?? ""] ?? cause.message;
      reject(new Error(`Cannot listen on ${host}:${port}: ${problem}`, { cause }));
    };
    server.once("error", onError);
    server.listen(port, host, () => {
      server.off("error", onError);
      // Such as a connection that could not be accepted for want of file handles; later ones will
      // be.
      server.on("error", (error) => console.error(error));
      resolve();
    });
  });
}

/** A connection on which something waits for its client. */
interface Unsent {
  /** Changes whenever the system has taken some of what was written. */
  readonly progress: string;
  /** The first look that found no more, in milliseconds. */
  readonly since: number;
}

/**
 * The system takes large writes piece by piece, which Node tells by the handle alone: `writableLength`
 * counts a write until all of it is taken.
 */
function progressOf(socket: Socket): string {
  const { _handle: handle } = socket as { readonly _handle?: { readonly writeQueueSize?: number } };
  return `${socket.bytesWritten - socket.writableLength} ${handle?.writeQueueSize}`;
}

/**
 * The server's connections and what runs on them.
 *
 * A connection kept alive for a next request, or opened for none, would hold a closing server open
 * until the client lets go, and Node's own `closeIdleConnections` misses the latter kind.
 */
class Connections {
  readonly #server: Server;
  readonly #limits: SocketLimits;
  /** Requests that run, by connection. */
  readonly #running = new Map<Socket, Set<ServerResponse>>();
  readonly #unsent = new WeakMap<Socket, Unsent>();
  #closing = false;
  #closed: Promise<void> | undefined;

  constructor(server: Server, limits: SocketLimits) {
    this.#server = server;
    this.#limits = limits;
    const looks = setInterval(() => this.#leaveStalled(), limits.lookTime).unref();
    server.once("close", () => clearInterval(looks));
    server.on("connection", (socket: Socket) => {
      this.#running.set(socket, new Set());
      socket.once("close", () => this.#running.delete(socket));
    });
    server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
      // Within an answer to another request there is no place for this one.
      const isAnswering = (this.#running.get(socket)?.size ?? 0) > 0;
      if (socket.writable && !isAnswering) socket.end(refusal(error));
      else socket.destroy();
    });
  }

  /**
   * A request has come.
   *
   * @returns Whether it is to be answered: thousands of requests fit into what is read of a socket
   * at once, and each would begin before the first is answered.
   */
  admits(socket: Socket, response: ServerResponse): boolean {
    const responses = this.#running.get(socket);
    if (responses === undefined || responses.size >= this.#limits.pipelined) {
      socket.destroy();
      return false;
    }
    responses.add(response);
    response.once("close", () => {
      responses.delete(response);
      if (this.#closing && responses.size === 0) socket.destroySoon();
    });
    return true;
  }

  /** Closes the connections of clients that take nothing of what is there for them. */
  #leaveStalled(): void {
    const now = performance.now();
    for (const socket of this.#running.keys()) {
      const progress = progressOf(socket);
      const before = this.#unsent.get(socket);
      if (socket.writableLength === 0) this.#unsent.delete(socket);
      else if (before?.progress !== progress) this.#unsent.set(socket, { progress, since: now });
      else if (now - before.since >= this.#limits.sendTime) socket.destroy();
    }
  }

  settle(timeout: number): Promise<boolean> {
    const left = new Set([...this.#running.values()].flatMap((responses) => [...responses]));
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), Math.min(timeout, LONGEST_TIMER));
      const finish = () => {
        clearTimeout(timer);
        resolve(true);
      };
      if (left.size === 0) finish();
      for (const response of left) {
        response.once("close", () => {
          left.delete(response);
          if (left.size === 0) finish();
        });
      }
    });
  }

  /** Called again, as when a group is lost while its server drains, it waits for the same end. */
  async close(grace?: number): Promise<void> {
    this.#closing = true;
    this.#closed ??= new Promise((resolve, reject) => {
      this.#server.close((error) => (error === undefined ? resolve() : reject(error)));
    });
    for (const [socket, responses] of this.#running) {
      if (responses.size === 0) socket.destroySoon();
    }
    const cut = () => {
      for (const socket of this.#running.keys()) socket.destroy();
    };
    const timer = grace === undefined ? undefined : setTimeout(cut, grace);
    try {
      await this.#closed;
    } finally {
      clearTimeout(timer);
    }
  }
}
