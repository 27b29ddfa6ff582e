/**
 * A process of the bench: workers' streams, a plain proxy of hono or of Node before them, or the router.
 *
 *   node route_child.js source|hono|pipe|router OPTIONS
 *
 * @module
 */
import { Agent, createServer, request as httpRequest, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Hono } from "hono";
import { proxy } from "hono/proxy";
import { parseOptions } from "../../src/node/options/option_parser.ts";
import { httpUpstream } from "../../src/node/route/http_upstream.ts";
import { policyOf, routerOptions } from "../../src/node/route/map_router_options.ts";
import { RouterMetrics } from "../../src/node/route/router_metrics.ts";
import { ROUTER_OPTIONS } from "../../src/node/route/router_options.ts";
import { serve } from "../../src/node/serve/http.ts";
import { createRouter } from "../../src/router/app.ts";
import { eventOf } from "./events.ts";

interface ChildOptions {
  /** Addresses of what is proxied. */
  readonly urls?: readonly string[];
  /** Options of the router. */
  readonly args?: readonly string[];
}

interface Asked {
  readonly events: number;
  /** Streams that begin together. */
  readonly streams: number;
  /** Milliseconds from one event of a stream to its next. */
  readonly interval: number;
}

/** Like steps of a model: at each tick every stream has its next event, written by itself. */
async function source(): Promise<string> {
  let waiting: { readonly response: ServerResponse; readonly asked: Asked }[] = [];
  const server = createServer(async (request, response) => {
    if (request.method === "GET") return void response.end("{}");
    let body = "";
    for await (const piece of request) body += piece;
    const asked = JSON.parse(body) as Asked;
    response.writeHead(200, { "content-type": "text/event-stream" });
    waiting.push({ response, asked });
    if (waiting.length < asked.streams) return;
    const streams = waiting;
    waiting = [];
    let at = 0;
    const timer = setInterval(() => {
      for (const one of streams) one.response.write(eventOf(at));
      at += 1;
      if (at < asked.events) return;
      clearInterval(timer);
      for (const one of streams) one.response.end("data: [DONE]\n\n");
    }, asked.interval);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 4096, resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function honoProxy([url]: readonly string[]): Promise<string> {
  const app = new Hono();
  app.all("*", ({ req }) => proxy(url + req.path, { ...req, headers: req.header() }));
  return (await serve(app, { host: "127.0.0.1", port: 0 })).url;
}

/** The least that a proxy in Node does: the bytes of one stream into the other. */
async function nodePipe([url]: readonly string[]): Promise<string> {
  const agent = new Agent({ keepAlive: true });
  const server = createServer((incoming, response) => {
    const { method, headers } = incoming;
    const outgoing = httpRequest(url + incoming.url!, { method, headers, agent }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    incoming.pipe(outgoing);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 4096, resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function router(urls: readonly string[], args: readonly string[]): Promise<string> {
  const { values: options } = parseOptions(ROUTER_OPTIONS, args);
  const policy = policyOf(options);
  const metrics = new RouterMetrics();
  const routes = createRouter({
    ...routerOptions(options),
    policy,
    upstream: httpUpstream().send,
    observer: metrics.observer(() => {}),
    reportError: (error) => console.error(error),
  });
  metrics.watch(routes, policy);
  for (const url of urls) await routes.checks.admit(routes.workers.add(url));
  return (await serve(routes.app, { host: "127.0.0.1", port: 0 })).url;
}

const [mode, given] = process.argv.slice(2) as ["source" | "hono" | "pipe" | "router", string];
const { urls = [], args = [] } = JSON.parse(given) as ChildOptions;
const start = {
  source,
  hono: () => honoProxy(urls),
  pipe: () => nodePipe(urls),
  router: () => router(urls, args),
};
const url = await start[mode]();
process.on("message", (asked) => {
  const figures = { cpu: process.cpuUsage(), memory: process.memoryUsage.rss() };
  if (asked !== "held") return void process.send!(figures);
  globalThis.gc!();
  const { heapUsed, external } = process.memoryUsage();
  process.send!({ ...figures, held: heapUsed + external });
});
process.on("disconnect", () => process.exit());
process.send!({ url });
