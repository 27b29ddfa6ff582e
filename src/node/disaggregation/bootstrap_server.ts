/**
 * The port at which a prefill server meets decode servers: pages by WebSocket at `/pages`, and by HTTP
 * what others of this kind ask for.
 *
 * @module
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { WebSocketServer } from "ws";
import type { Channel } from "../../disaggregation/channel.ts";
import { MAX_CONTROL_BYTES, MAX_PAGE_CHANNELS } from "../../disaggregation/limits.ts";
import { WebSocketChannel } from "./web_socket_channel.ts";

export const PAGES_PATH = "/pages";

/** Milliseconds in which a client has to say what it wants. */
const REQUEST_TIME = 10_000;
const HEADER_BYTES = 8192;

export interface BootstrapServerOptions {
  readonly host: string;
  readonly port: number;
  /** Whether pages of browsers may connect, which then need tickets. */
  readonly takesPages: boolean;
  /** @param isPage Whether it comes from a page of a browser. */
  readonly accept: (channel: Channel, isPage: boolean) => void;
}

export interface BootstrapServer {
  readonly port: number;
  close(): Promise<void>;
}

/** @throws {Error} when the address cannot be used. */
export async function listenForDecode({
  host,
  port,
  takesPages,
  accept,
}: BootstrapServerOptions): Promise<BootstrapServer> {
  const server = createServer({
    maxHeaderSize: HEADER_BYTES,
    headersTimeout: REQUEST_TIME,
    requestTimeout: REQUEST_TIME,
  });
  server.maxConnections = MAX_PAGE_CHANNELS;
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_CONTROL_BYTES,
    perMessageDeflate: false,
    clientTracking: true,
  });
  let own = { host, port };
  const connections = new Set<Socket>();
  server.on("connection", (socket) => {
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
  });
  server.on("request", (request, response) => answer(request, response, own));
  server.on("upgrade", (request: IncomingMessage, socket: Socket, head) => {
    // A page of a browser names where it comes from; decode servers do not.
    const isPage = request.headers.origin !== undefined;
    if ((isPage && !takesPages) || pathOf(request) !== PAGES_PATH) {
      // Nothing else listens to a socket that has left HTTP, nor ends the other half of it.
      socket.on("error", () => {});
      socket.end("HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n", () => socket.destroy());
      return;
    }
    socket.setNoDelay(true);
    sockets.handleUpgrade(request, socket, head, (client) => {
      accept(new WebSocketChannel(client), isPage);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const problem = cause.code === "EADDRINUSE" ? "the port is in use" : cause.message;
      reject(new Error(`Cannot listen on ${host}:${port}: ${problem}`, { cause }));
    });
    server.listen(port, host, resolve);
  });
  server.on("error", (error) => console.error(error));
  own = { host, port: (server.address() as AddressInfo).port };
  return {
    port: own.port,
    close: () =>
      new Promise((resolve) => {
        for (const client of sockets.clients) client.terminate();
        server.close(() => resolve());
        for (const socket of connections) socket.destroy();
      }),
  };
}

function pathOf({ url = "/" }: IncomingMessage): string {
  return url.split("?", 1)[0]!;
}

function answer(
  { method, url }: IncomingMessage,
  response: ServerResponse,
  own: { readonly host: string; readonly port: number },
): void {
  const [status, body] =
    method === "GET" ? found(url ?? "/", own) : ([405, "Method not allowed"] as const);
  const isText = typeof body === "string";
  response.writeHead(status, { "content-type": isText ? "text/plain" : "application/json" });
  response.end(isText ? body : JSON.stringify(body));
}

/** One rank, which others of this kind ask for by its numbers; -1 asks how many there are. */
function found(
  url: string,
  own: { readonly host: string; readonly port: number },
): readonly [status: number, body: string | object] {
  const [pathname, query = ""] = url.split("?", 2);
  const searchParams = new URLSearchParams(query);
  if (pathname === "/health") return [200, "OK"];
  if (pathname !== "/route") return [404, "Not found"];
  const [rank, group, stage] = ["engine_rank", "target_dp_group", "target_pp_rank"].map((name) =>
    searchParams.get(name) === null ? Number.NaN : Number(searchParams.get(name)),
  );
  if (![rank, group, stage].every(Number.isInteger)) {
    return [400, "Missing inputs for bootstrap server."];
  }
  if (rank === -1 && group === -1) {
    return [200, { prefill_attn_tp_size: 1, prefill_dp_size: 1, prefill_pp_size: 1 }];
  }
  const isHere = rank === 0 && group === 0 && stage === 0;
  return isHere
    ? [200, { rank_ip: own.host, rank_port: own.port }]
    : [404, "Bootstrap info not Found"];
}
