/**
 * Puts an app, a function of `Request`, on a socket.
 *
 * @module
 */

import type { Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { createAdaptorServer } from "@hono/node-server";

/** Anything with a `fetch`, such as a Hono app. */
export interface App {
  fetch(request: Request): Response | Promise<Response>;
}

export interface ServeOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
}

export interface RunningServer {
  /** Where it listens, such as `http://127.0.0.1:30000`. */
  readonly url: string;
  /** Takes no more connections, lets running requests finish, and resolves after the last one. */
  close(): Promise<void>;
}

/**
 * Serves `app` until it is closed. A client that leaves aborts the `signal` of its request and
 * cancels the body of its response.
 *
 * @throws {Error} when the address cannot be used.
 */
export async function serve(app: App, { host, port }: ServeOptions): Promise<RunningServer> {
  const server = createAdaptorServer({
    fetch: (request) => app.fetch(request),
    overrideGlobalObjects: false,
  }) as Server;
  const close = trackConnections(server);
  await listen(server, host, port);
  const address = server.address() as AddressInfo;
  const shownHost = host.includes(":") ? `[${host}]` : host;
  return {
    url: `http://${shownHost}:${address.port}`,
    close,
  };
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
      // Such as a connection that could not be accepted for want of file handles; others will be.
      server.on("error", (error) => console.error(error));
      resolve();
    });
  });
}

/**
 * Watches the server's connections and returns what closes them.
 *
 * A connection kept alive for a next request, or opened for none, would hold a closing server open
 * until the client lets go, and Node's own `closeIdleConnections` misses the latter kind.
 */
function trackConnections(server: Server): () => Promise<void> {
  const running = new Map<Socket, number>();
  let closing = false;
  server.on("connection", (socket: Socket) => {
    running.set(socket, 0);
    socket.once("close", () => running.delete(socket));
  });
  server.on("request", ({ socket }, response) => {
    running.set(socket, (running.get(socket) ?? 0) + 1);
    response.once("close", () => {
      const left = (running.get(socket) ?? 1) - 1;
      if (running.has(socket)) running.set(socket, left);
      if (closing && left === 0) socket.destroySoon();
    });
  });
  return () =>
    new Promise((resolve, reject) => {
      closing = true;
      server.close((error) => (error === undefined ? resolve() : reject(error)));
      for (const [socket, count] of running) if (count === 0) socket.destroySoon();
    });
}
