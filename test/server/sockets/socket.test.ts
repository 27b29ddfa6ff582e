/** The app behind a real socket: what only a connection can show. */
import { once } from "node:events";
import type { IncomingMessage, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { serve } from "@hono/node-server";
import { afterEach, expect, test, vi } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import {
  ScriptedEngine,
  type ScriptedEngineOptions,
} from "../../support/engines/scripted_engine.ts";
import { until } from "../../support/until.ts";

let closeServer = async () => {};
afterEach(() => closeServer());

async function listen(options: ScriptedEngineOptions = {}) {
  const engine = new ScriptedEngine(options);
  const reportError = vi.fn();
  const app = createApp(engine, { maxBodyBytes: 10_000, reportError });
  const server = await new Promise<ReturnType<typeof serve>>((resolve) => {
    const started = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, () =>
      resolve(started),
    );
  });
  closeServer = () =>
    new Promise((resolve) => {
      server.close(() => resolve());
      (server as Server).closeAllConnections();
    });
  const { port } = server.address() as AddressInfo;
  return { engine, port, reportError, server, url: `http://127.0.0.1:${port}` };
}

function init(body: unknown, signal: AbortSignal | null = null): RequestInit {
  const headers = { "content-type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body), signal };
}

/** Goes on behind its first chunk only when it is ended. */
const held = () => ({
  gate: (chunk: number) => (chunk === 0 ? Promise.resolve() : new Promise<void>(() => {})),
});
const endless = { max_new_tokens: null, ignore_eos: true };

test("a stream arrives piece by piece", async () => {
  let arrived = 0;
  let goOn = () => {};
  // The engine makes a piece when the client has the one before it.
  const gate = (chunk: number) => {
    return new Promise<void>((resolve) => {
      goOn = () => {
        if (arrived >= chunk) resolve();
      };
      goOn();
    });
  };
  const { url } = await listen({ script: () => ({ gate }) });
  const response = await fetch(`${url}/generate`, init({ text: "abc", stream: true }));
  let text = "";
  for await (const bytes of response.body!.pipeThrough(new TextDecoderStream())) {
    text += bytes;
    arrived = text.split("\n\n").length - 1;
    goOn();
  }
  expect(arrived).toBe(5);
  expect(text).toMatch(/\n\ndata: \[DONE\]\n\n$/);
});

test("a closed connection ends a stream, without an error being reported", async () => {
  const { url, engine, reportError } = await listen({ script: held });
  const client = new AbortController();
  const body = { text: "abc", stream: true, rid: "r", sampling_params: endless };
  const response = await fetch(`${url}/generate`, init(body, client.signal));
  await response.body!.getReader().read();
  client.abort();
  await until(() => expect(engine.cutShort).toEqual(["r"]));
  expect(engine.running).toEqual([]);
  expect(reportError).not.toHaveBeenCalled();
});

test("a closed connection ends a batch that is not streamed", async () => {
  const { url, engine, reportError } = await listen({ script: held });
  const client = new AbortController();
  const body = { text: ["abc", "def"], rid: "r", sampling_params: endless };
  const response = fetch(`${url}/generate`, init(body, client.signal));
  await until(() => expect(engine.running).toHaveLength(2));
  client.abort();
  await expect(response).rejects.toThrow();
  await until(() => expect(engine.cutShort).toEqual(["r_0", "r_1"]));
  expect(reportError).not.toHaveBeenCalled();
});

test("a connection that breaks within the body starts nothing", async () => {
  const { port, engine, reportError, server, url } = await listen();
  const socket = connect(port, "127.0.0.1");
  const began = once(server, "request");
  socket.write("POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{");
  const [request] = (await began) as [IncomingMessage];
  const broke = new Promise((resolve) => request.once("close", resolve));
  socket.destroy();
  await broke;
  // What the app does about it, it has done before it answers the next request.
  expect((await fetch(`${url}/health`)).status).toBe(200);
  expect(engine.requests).toEqual([]);
  expect(reportError).not.toHaveBeenCalled();
});

test("a body over the limit is answered with 413, and the server lives on", async () => {
  const { url } = await listen();
  const response = await fetch(`${url}/generate`, init({ text: "x".repeat(20_000) }));
  expect(response.status).toBe(413);
  await response.text();
  expect((await fetch(`${url}/health`)).status).toBe(200);
});
