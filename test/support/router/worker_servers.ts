/**
 * Servers behind a router: real ones, and small ones that fail in a way of their own.
 *
 * @module
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { GenerationEngine } from "../../../src/generation.ts";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../engines/scripted_engine.ts";

const closing: (() => Promise<unknown>)[] = [];

/** To be called after each test: closes what was started in it, the newest first. */
export async function closeAll(): Promise<void> {
  for (const close of closing.splice(0).reverse()) await close();
}

/** Closed after the test. */
export function closeAfterwards(close: () => Promise<unknown>): void {
  closing.push(close);
}

/** A server of this package over an engine. */
export async function serverOver(
  engine: GenerationEngine = new ScriptedEngine(),
  options: AppOptions = {},
): Promise<RunningServer> {
  const app = createApp(engine, { reportError: () => {}, ...options });
  const server = await serve(app, { host: "127.0.0.1", port: 0 });
  closing.push(() => server.close(0));
  return server;
}

export interface FailingServer {
  readonly url: string;
  /** Requests that came, but health checks and questions for the load. */
  readonly requests: IncomingMessage[];
  /** What `/health` answers. Default 200. */
  health: number;
  /** Closes all of its connections and takes no more, as a process does that is killed. */
  kill(): Promise<void>;
}

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** A server that is healthy and answers every other request by `answer`. */
export async function failingServer(answer: Answer): Promise<FailingServer> {
  const requests: IncomingMessage[] = [];
  const server: Server = createServer((request, response) => {
    if (request.url === "/health") {
      response.writeHead(self.health).end();
    } else if (request.url === "/get_load") {
      response.writeHead(404).end();
    } else {
      requests.push(request);
      answer(response, request);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const kill = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  const self = { url: `http://127.0.0.1:${port}`, requests, health: 200, kill };
  closing.push(kill);
  return self;
}

/** An address at which nothing listens. */
export async function freeUrl(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}`;
}
