import { connect } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { ScriptedEngine } from "../support/engines/scripted_engine.ts";
import { postTo, routerTo } from "../support/router/running_router.ts";
import { closeAll, failingServer, serverOver } from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

const never = () => new Promise<void>(() => {});

/** A router to one worker whose requests do not end by themselves. */
async function stuck(settings: Parameters<typeof routerTo>[1] = {}) {
  const engine = new ScriptedEngine({
    script: () => ({
      pieces: ["a", "b"],
      gate: (chunk) => (chunk === 0 ? Promise.resolve() : never()),
    }),
  });
  const { url } = await serverOver(engine);
  return { engine, router: await routerTo([url], settings) };
}

const admission = (given: object) => ({
  maxConcurrentRequests: 1,
  queueSize: 0,
  queueTimeout: 60_000,
  ...given,
});

describe("a client that leaves", () => {
  test.each([true, false])(
    "ends its request at the worker at once (stream: %s)",
    async (stream) => {
      const { engine, router } = await stuck();
      const client = new AbortController();
      const answer = postTo(
        router.url,
        "/generate",
        { text: "x", stream },
        { signal: client.signal },
      );
      answer.catch(() => {});
      await until(() => expect(engine.running).toHaveLength(1));
      if (stream) expect((await answer).status).toBe(200);
      client.abort();
      await until(() => expect(engine.running).toEqual([]));
      await until(() => expect(router.workers.all[0]!.inFlight).toBe(0));
      expect(router.admission.running).toBe(0);
      expect(router.errors).toEqual([]);
    },
  );

  test("while its request waits gives the place up, and no worker hears of it", async () => {
    const { engine, router } = await stuck({ admission: admission({ queueSize: 1 }) });
    const first = postTo(router.url, "/generate", { text: "first", stream: true });
    await until(() => expect(engine.running).toHaveLength(1));
    const client = new AbortController();
    const waiting = postTo(router.url, "/generate", { text: "second" }, { signal: client.signal });
    waiting.catch(() => {});
    await until(() => expect(router.admission.waiting).toBe(1));
    client.abort();
    await until(() => expect(router.admission.waiting).toBe(0));
    await (await first).body!.cancel();
    await until(() => expect(router.admission.running).toBe(0));
    expect(engine.requests).toHaveLength(1);
  });

  test("between two attempts ends them", async () => {
    const worker = await failingServer((response) => response.writeHead(503).end());
    const retries = {
      attempts: 5,
      initialBackoff: 60_000,
      maxBackoff: 60_000,
      multiplier: 1,
      jitter: 0,
    };
    const router = await routerTo([worker.url], { retries });
    const client = new AbortController();
    const answer = postTo(router.url, "/generate", { text: "x" }, { signal: client.signal });
    answer.catch(() => {});
    await until(() => expect(router.told.some(([name]) => name === "retry")).toBe(true));
    client.abort();
    await until(() => expect(router.admission.running).toBe(0));
    expect(worker.requests).toHaveLength(1);
    expect(router.told.at(-1)).toEqual(["request", "/generate", expect.any(Number), "client_left"]);
  });
});

test("a stream holds its place until its end, and what finds none is refused with 429", async () => {
  const { engine, router } = await stuck({ admission: admission({}) });
  const first = await postTo(router.url, "/generate", { text: "x", stream: true });
  const refused = await postTo(router.url, "/v1/chat/completions", { messages: [] });
  expect(refused.status).toBe(429);
  expect(await refused.json()).toMatchObject({ code: 429, error: { code: "rate_limit_exceeded" } });
  // What asks how the router and its workers are waits for nothing.
  expect((await fetch(`${router.url}/v1/models`)).status).toBe(200);
  await first.body!.cancel();
  await until(() => expect(router.admission.running).toBe(0));
  expect((await postTo(router.url, "/tokenize", { prompt: "x" })).status).toBe(200);
  expect(engine.requests).toHaveLength(1);
});

test("a request that waits too long for a place is refused with 408", async () => {
  const { router } = await stuck({ admission: admission({ queueSize: 1, queueTimeout: 20 }) });
  await postTo(router.url, "/generate", { text: "x", stream: true });
  expect((await postTo(router.url, "/generate", { text: "x" })).status).toBe(408);
});

describe("bodies", () => {
  test("that are too large are refused before any worker is asked, said so or not", async () => {
    const worker = await failingServer((response) => response.end("ok"));
    const router = await routerTo([worker.url], { maxBodyBytes: 1000 });
    const fits = await postTo(router.url, "/generate", "x".repeat(1000));
    expect(fits.status).toBe(200);
    expect((await postTo(router.url, "/generate", "x".repeat(1001))).status).toBe(413);
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(600)),
    });
    const init = { method: "POST", body: endless, duplex: "half" } as RequestInit;
    expect((await fetch(`${router.url}/generate`, init)).status).toBe(413);
    expect((await postTo(router.url, "/abort_request", "x".repeat(1001))).status).toBe(413);
    expect(worker.requests).toHaveLength(1);
  });

  test("of all requests find room together or are refused with 503", async () => {
    const { engine, router } = await stuck({ requestMemory: 4000 });
    const body = { text: "x".repeat(900) };
    const waiting: Promise<Response>[] = [];
    for (let running = 1; running <= 3; running++) {
      waiting.push(postTo(router.url, "/generate", body));
      await until(() => expect(engine.running).toHaveLength(running));
    }
    expect((await postTo(router.url, "/generate", body)).status).toBe(503);
    engine.abort();
    for (const answer of waiting) expect((await answer).status).toBe(200);
    const again = postTo(router.url, "/generate", body);
    await until(() => expect(engine.running).toHaveLength(1));
    engine.abort();
    expect((await again).status).toBe(200);
  });

  test("that never come to their end hold no place of others", async () => {
    const { url } = await serverOver();
    const router = await routerTo([url], {
      admission: admission({}),
      limits: { headersTime: 200, requestTime: 200, lookTime: 20 },
    });
    const { hostname, port } = new URL(router.url);
    const socket = connect(Number(port), hostname);
    const head = "POST /generate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n";
    const closed = new Promise((resolve) => socket.on("close", resolve).on("error", () => {}));
    socket.write(`${head}{"te`);
    expect((await postTo(router.url, "/generate", { text: "x" })).status).toBe(200);
    socket.resume();
    await closed;
    expect(router.admission.running).toBe(0);
  });
});

test("a client that reads nothing holds its worker back, and is left after a time", async () => {
  const PIECE = Buffer.alloc(64 * 1024, "data: x\n\n");
  const PIECES = 4096;
  let written = 0;
  const worker = await failingServer((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const write = () => {
      while (written < PIECES && !response.destroyed) {
        written += 1;
        if (!response.write(PIECE)) return void response.once("drain", write);
      }
    };
    write();
  });
  const router = await routerTo([worker.url], { limits: { sendTime: 300, lookTime: 50 } });
  const { hostname, port } = new URL(router.url);
  const socket = connect(Number(port), hostname);
  const closed = new Promise((resolve) => socket.on("close", resolve).on("error", () => {}));
  socket.pause().write("POST /generate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}");
  // The request ends at the worker, which has not got rid of much more than sockets hold.
  await until(() => expect(worker.requests[0]?.socket.destroyed).toBe(true));
  expect(written).toBeLessThan(PIECES / 4);
  await until(() => expect(router.workers.all[0]!.inFlight).toBe(0));
  socket.resume();
  await closed;
});
