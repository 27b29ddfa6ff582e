/**
 * A server in a process of its own, for the bench to put loads on. It tells its address, and its
 * processor time and memory whenever it is asked.
 *
 *   node serve_child.js model|echo OPTIONS
 *
 * @module
 */
import { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions } from "../../src/engine/engine_options.ts";
import { deviceFactory } from "../../src/node/device/device.ts";
import { openFolder } from "../../src/node/files.ts";
import { serve } from "../../src/node/serve/http.ts";
import { createApp } from "../../src/server/app.ts";

interface ChildOptions extends Partial<EngineOptions> {
  readonly model: string;
}

/** Resolves at the next turn of the event loop, for all that wait. */
let turn: Promise<void> | undefined;
function nextTurn(): Promise<void> {
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined;
      resolve();
    });
  });
  return turn;
}

/** What hono itself costs: as many events of the same lengths, without an engine. */
function echoApp(): Hono {
  const app = new Hono();
  app.post("/v1/chat/completions", async (context) => {
    const { max_tokens: count, events } = await context.req.json();
    return streamSSE(context, async (stream) => {
      for (let i = 0; i < count; i++) {
        await nextTurn();
        await stream.writeSSE({ data: events[i % events.length] });
      }
      await stream.writeSSE({ data: "[DONE]" });
    });
  });
  return app;
}

const [mode, options] = process.argv.slice(2) as ["model" | "echo", string];

async function modelApp(): Promise<Hono> {
  const { model, ...engineOptions } = JSON.parse(options) as ChildOptions;
  const device = deviceFactory();
  return createApp(await Engine.load(await openFolder(model), { device, ...engineOptions }));
}

const app = mode === "echo" ? echoApp() : await modelApp();
const { url } = await serve(app, { host: "127.0.0.1", port: 0 });
process.on("message", () => {
  process.send!({ cpu: process.cpuUsage(), memory: process.memoryUsage.rss() });
});
process.on("disconnect", () => process.exit());
process.send!({ url });
