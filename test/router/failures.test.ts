import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import { CapacityError, RequestLosesDeviceError } from "../../src/errors.ts";
import { ScriptedEngine } from "../support/engines/scripted_engine.ts";
import { postTo, routerTo } from "../support/router/running_router.ts";
import { closeAll, failingServer, serverOver } from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

const EVENTS = { "content-type": "text/event-stream" };
const STREAMED = { text: "x", stream: true };

/** A worker that answers every request by a status. */
const answering = (status: number, headers: Record<string, string> = {}) =>
  failingServer((response) => response.writeHead(status, headers).end(`of ${status}`));

describe("a request is tried again", () => {
  test.each([408, 429, 500, 502, 503, 504])("at another worker after %i", async (status) => {
    const bad = await answering(status);
    const { url } = await serverOver();
    const router = await routerTo([bad.url, url]);
    expect((await postTo(router.url, "/generate", { text: "x" })).status).toBe(200);
    expect(bad.requests).toHaveLength(1);
    expect(router.told.filter(([name]) => name === "retry")).toHaveLength(1);
  });

  test("where a worker cannot be reached, or breaks off before the first byte of its answer", async () => {
    const silent = await failingServer((response) => response.destroy());
    const begun = await failingServer((response) => {
      response.writeHead(200, EVENTS).flushHeaders();
      setTimeout(() => response.destroy(), 20);
    });
    const gone = await failingServer(() => {});
    const { url } = await serverOver();
    const router = await routerTo([gone.url, silent.url, begun.url, url]);
    await gone.kill();
    const answer = await postTo(router.url, "/generate", STREAMED);
    expect(await answer.text()).toContain('"text":"x"');
    expect(begun.requests).toHaveLength(1);
    // What a kept connection ends without an answer is sent over a new one first.
    expect([1, 2]).toContain(silent.requests.length);
    expect(router.told.filter(([name]) => name === "retry")).toHaveLength(3);
    const failed = router.told.filter(
      ([name, , outcome]) => name === "outcome" && outcome === "failure",
    );
    expect(failed.map(([, worker]) => worker)).toEqual([gone.url, silent.url, begun.url]);
  });

  test("with the same body and id, at most as often as it may be, and the last answer counts", async () => {
    const bad = await answering(503, { "retry-after": "7" });
    const router = await routerTo([bad.url], { retries: retries({ attempts: 3 }) });
    const answer = await postTo(router.url, "/generate", { text: "x" });
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "7"]);
    expect(await answer.text()).toBe("of 503");
    expect(bad.requests).toHaveLength(3);
    expect(new Set(bad.requests.map(({ headers }) => headers["x-request-id"])).size).toBe(1);
    expect(router.told).toContainEqual(["exhausted", "/generate"]);
  });

  test("not where the answer says that it would be of no use", async () => {
    const error = new RequestLosesDeviceError("r", 3);
    const engine = new ScriptedEngine({ script: () => ({ failure: { at: 0, error } }) });
    const [{ url }, other] = [await serverOver(engine), await answering(200)];
    const router = await routerTo([url, other.url], { breaker: breaker({ failureThreshold: 1 }) });
    const answer = await postTo(router.url, "/generate", { text: "x" });
    expect(answer.status).toBe(500);
    expect(await answer.text()).toContain("request_loses_device");
    expect([engine.requests.length, other.requests.length]).toEqual([1, 0]);
    expect(router.workers.available).toHaveLength(2);
  });

  test("not once a byte of an answer was sent", async () => {
    const bad = await failingServer((response) => {
      response.writeHead(200, EVENTS).write('data: {"text":"a"}\n\n');
      setTimeout(() => response.destroy(), 20);
    });
    const other = await answering(200);
    const router = await routerTo([bad.url, other.url]);
    await (await postTo(router.url, "/generate", STREAMED)).text();
    expect([bad.requests.length, other.requests.length]).toEqual([1, 0]);
  });

  test("over a new connection, and unnoticed, where a worker closes a kept one as a request comes", async () => {
    const served = new WeakSet<object>();
    const worker = await failingServer((response, { socket }) => {
      if (served.has(socket)) return void socket.destroy();
      served.add(socket);
      response.end("ok");
    });
    const router = await routerTo([worker.url]);
    for (let i = 0; i < 4; i++) {
      expect(await (await postTo(router.url, "/generate", { text: "x" })).text()).toBe("ok");
    }
    expect(router.told.filter(([name]) => name === "retry")).toEqual([]);
    expect(worker.requests.length).toBeGreaterThan(4);
  });
});

const retries = (given: object) => ({
  attempts: 5,
  initialBackoff: 1,
  maxBackoff: 10,
  multiplier: 1.5,
  jitter: 0,
  ...given,
});
const breaker = (given: object) => ({
  failureThreshold: 10,
  successThreshold: 3,
  openTime: 60_000,
  window: 120_000,
  ...given,
});

describe("where no worker answers", () => {
  test("there is none", async () => {
    const router = await routerTo([]);
    const answer = await postTo(router.url, "/v1/chat/completions", { messages: [] });
    expect(answer.status).toBe(503);
    const { message, error } = (await answer.json()) as { message: string; error: object };
    expect(message).toContain("No available workers (all circuits open or unhealthy)");
    expect(error).toMatchObject({ type: "server_error" });
  });

  test("it cannot be reached", async () => {
    const worker = await failingServer(() => {});
    const router = await routerTo([worker.url]);
    await worker.kill();
    const answer = await postTo(router.url, "/generate", { text: "x" });
    expect(answer.status).toBe(502);
    expect(((await answer.json()) as { message: string }).message).toMatch(
      /^Cannot reach the worker: ECONNREFUSED$/,
    );
  });

  test("in time", async () => {
    const worker = await failingServer(() => {});
    const router = await routerTo([worker.url], { requestTimeout: 50 });
    const answer = await postTo(router.url, "/generate", { text: "x" });
    expect(answer.status).toBe(504);
    await until(() => expect(worker.requests[0]!.socket.destroyed).toBe(true));
    // A slow request says nothing of the worker.
    expect(router.told.filter(([name]) => name === "outcome")).toEqual([]);
  });
});

describe("a worker that breaks off within an answer", () => {
  const PIECE = 'data: {"text":"a"}\n\n';

  /** What a client reads of an answer that a worker begins so and then breaks off. */
  async function read(path: string, begin: string, headers: Record<string, string> = EVENTS) {
    let break_ = () => {};
    const worker = await failingServer((response: ServerResponse) => {
      response.writeHead(200, headers).write(begin);
      break_ = () => response.destroy();
    });
    const router = await routerTo([worker.url]);
    const answer = await postTo(router.url, path, STREAMED);
    const reader = answer.body!.getReader();
    let text = new TextDecoder().decode((await reader.read()).value);
    break_();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { text, worker, router };
      text += new TextDecoder().decode(value);
    }
  }

  test("ends a stream of a chat with an event that says so, and counts as failed", async () => {
    const { text, worker, router } = await read("/v1/chat/completions", PIECE);
    const [first, failure, last, ...rest] = text.split("\n\n");
    expect([first, last, ...rest]).toEqual([PIECE.trim(), "data: [DONE]", ""]);
    expect(JSON.parse(failure!.slice("data: ".length))).toEqual({
      error: {
        object: "error",
        message: "Cannot finish the answer: the worker broke off (ECONNRESET)",
        type: "BadGatewayError",
        param: null,
        code: 502,
      },
    });
    expect(router.told).toContainEqual(["brokenStream", worker.url]);
    expect(router.told).toContainEqual(["outcome", worker.url, "failure"]);
    expect(router.workers.all[0]!.inFlight).toBe(0);
  });

  test("ends one of /generate in the form of such events", async () => {
    const { text } = await read("/generate", PIECE);
    const failure: unknown = JSON.parse(text.split("\n\n")[1]!.slice("data: ".length));
    expect(failure).toMatchObject({ error: { type: "server_error", code: 502 } });
  });

  test("breaks off where an event is not whole, or the answer is no stream of events", async () => {
    await expect(read("/generate", 'data: {"te')).rejects.toThrow();
    await expect(read("/v1/messages", `event: ping\n${PIECE}`)).rejects.toThrow();
    await expect(read("/v1/responses", `event: a\n${PIECE}`)).rejects.toThrow();
    const json = { "content-type": "application/json" };
    await expect(read("/generate", '{"text":"a"}\n\n', json)).rejects.toThrow();
  });

  test("says nothing behind the last event", async () => {
    const { text } = await read("/v1/completions", `${PIECE}data: [DONE]\n\n`);
    expect(text).toBe(`${PIECE}data: [DONE]\n\n`);
  });

  test("ends a stream that takes too long in the same way, and leaves the worker", async () => {
    const engine = new ScriptedEngine({
      script: () => ({
        pieces: ["a", "b"],
        gate: (chunk) => (chunk === 0 ? Promise.resolve() : new Promise(() => {})),
      }),
    });
    const { url } = await serverOver(engine);
    const router = await routerTo([url], { requestTimeout: 500 });
    const text = await (await postTo(router.url, "/generate", STREAMED)).text();
    expect(text).toContain('"code":504');
    await until(() => expect(engine.running).toEqual([]));
  });
});

describe("the circuit breaker", () => {
  test("leaves a worker alone that fails again and again, and says so", async () => {
    const bad = await answering(500);
    const { url } = await serverOver();
    const router = await routerTo([bad.url, url], { breaker: breaker({ failureThreshold: 3 }) });
    for (let i = 0; i < 8; i++) {
      expect((await postTo(router.url, "/generate", { text: "x" })).status).toBe(200);
    }
    expect(bad.requests).toHaveLength(3);
    expect(router.told).toContainEqual(["breaker", bad.url, "closed", "open"]);
    const text = `Circuit breaker state transition: closed -> open (${bad.url})`;
    expect(router.events).toContainEqual(expect.objectContaining({ text, level: "warning" }));
  });

  test("leaves busy workers in: their clients are told to come again", async () => {
    const error = new CapacityError("places in the request queue", 1, "all 1 are taken");
    const engine = new ScriptedEngine({ script: () => ({ failure: { at: 0, error } }) });
    const [{ url }, limited] = [await serverOver(engine), await answering(429)];
    const router = await routerTo([url, limited.url], {
      breaker: breaker({ failureThreshold: 1 }),
    });
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => postTo(router.url, "/generate", { text: "x" })),
    );
    expect(answers.every(({ status }) => status === 503 || status === 429)).toBe(true);
    const full = answers.find(({ status }) => status === 503)!;
    expect(full.headers.get("retry-after")).toBe("1");
    expect(router.workers.available).toHaveLength(2);
    expect(router.told.filter(([name]) => name === "breaker")).toEqual([]);
  });

  test("does not count what clients do wrong, or clients that leave", async () => {
    const engine = new ScriptedEngine({ script: () => ({ gate: () => new Promise(() => {}) }) });
    const { url } = await serverOver(engine);
    const router = await routerTo([url], { breaker: breaker({ failureThreshold: 1 }) });
    expect((await postTo(router.url, "/generate", { text: 5 })).status).toBe(400);
    const client = new AbortController();
    const left = postTo(router.url, "/generate", { text: "x" }, { signal: client.signal });
    await until(() => expect(engine.running).toHaveLength(1));
    client.abort();
    await expect(left).rejects.toThrow();
    await until(() => expect(router.workers.all[0]!.inFlight).toBe(0));
    expect(router.workers.available).toHaveLength(1);
    expect(engine.running).toEqual([]);
  });
});
