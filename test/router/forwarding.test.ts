import { afterEach, describe, expect, test } from "vitest";
import { CacheAwarePolicy } from "../../src/router/policy/cache_aware.ts";
import { powerOfTwoPolicy } from "../../src/router/policy/policy.ts";
import { UNSUPPORTED_ENDPOINTS } from "../../src/server/routes/unsupported_endpoints.ts";
import { ScriptedEngine } from "../support/engines/scripted_engine.ts";
import { postTo, routerTo } from "../support/router/running_router.ts";
import { closeAll, failingServer, serverOver } from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

/** Servers over engines of their own. */
async function servers(count: number) {
  const engines = Array.from({ length: count }, () => new ScriptedEngine());
  const running = await Promise.all(engines.map((engine) => serverOver(engine)));
  return { engines, urls: running.map(({ url }) => url) };
}

/** What a request was to a worker, and its answer `ok`. */
async function recorded() {
  const bodies: Buffer[] = [];
  const worker = await failingServer(async (response, request) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    bodies.push(Buffer.concat(pieces));
    response.writeHead(200, { "x-of-worker": "1", "set-cookie": ["a=1", "b=2"] }).end("ok");
  });
  return { worker, bodies };
}

describe("a request", () => {
  test("reaches the worker byte by byte, with its query and headers", async () => {
    const { worker, bodies } = await recorded();
    const router = await routerTo([worker.url]);
    const body = Buffer.from(' { "text" : "h\\u00e9" , "unknown":[1.0, {}],\n"rid":"r" } ');
    const headers = { "x-own": "kept", authorization: "Bearer k", "x-correlation-id": "corr-1" };
    const answer = await postTo(router.url, "/generate?a=1&b=%20", body, { headers });
    expect(await answer.text()).toBe("ok");
    expect(bodies).toEqual([body]);
    const [seen] = worker.requests;
    expect(seen).toMatchObject({ method: "POST", url: "/generate?a=1&b=%20" });
    expect(seen!.headers).toMatchObject({
      ...headers,
      "x-request-id": "corr-1",
      host: new URL(worker.url).host,
      "content-length": String(body.length),
    });
    expect(answer.headers.get("x-of-worker")).toBe("1");
    expect(answer.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect(answer.headers.get("x-request-id")).toBe("corr-1");
  });

  test("does not bring what belongs to its connection or its browser", async () => {
    const { worker } = await recorded();
    const router = await routerTo([worker.url], { allowedOrigins: ["https://page.example"] });
    const headers = {
      origin: "https://page.example",
      cookie: "secret=1",
      "user-agent": "Mozilla/5.0",
      te: "trailers",
    };
    const answer = await postTo(router.url, "/generate", {}, { headers });
    expect(answer.headers.get("access-control-allow-origin")).toBe("https://page.example");
    const { headers: seen } = worker.requests[0]!;
    for (const name of Object.keys(headers)) expect(seen[name]).toBeUndefined();
    const stranger = { headers: { origin: "https://other.example" } };
    expect((await postTo(router.url, "/generate", {}, stranger)).status).toBe(403);
    expect(worker.requests).toHaveLength(1);
  });

  test.each([
    ["/generate", /^gnt-[a-zA-Z0-9]{24}$/],
    ["/v1/chat/completions", /^chatcmpl-[a-zA-Z0-9]{24}$/],
    ["/v1/completions", /^cmpl-[a-zA-Z0-9]{24}$/],
    ["/tokenize", /^req-[a-zA-Z0-9]{24}$/],
  ])("of %s without an id is given one, which the worker is told", async (path, form) => {
    const { worker } = await recorded();
    const router = await routerTo([worker.url]);
    const id = (await postTo(router.url, path, {})).headers.get("x-request-id");
    expect(id).toMatch(form);
    expect(worker.requests[0]!.headers["x-request-id"]).toBe(id);
  });
});

describe("an answer", () => {
  const asked: readonly (readonly [string, string, object?])[] = [
    ["GET", "/v1/models"],
    ["GET", "/v1/models/models/scripted"],
    ["GET", "/v1/models/none"],
    ["GET", "/get_model_info"],
    ["GET", "/model_info"],
    ["GET", "/get_server_info"],
    ["GET", "/get_load"],
    ["GET", "/health_generate"],
    ["POST", "/tokenize", { prompt: "text" }],
    ["POST", "/v1/detokenize", { tokens: [104, 105] }],
    ["POST", "/v1/tokenize", { prompt: "text" }],
    ["POST", "/detokenize", { tokens: [104] }],
    ["POST", "/separate_reasoning", { text: "x", reasoning_parser: "none" }],
    ["GET", "/server_info"],
    ["POST", "/parse_function_call", { text: "x", tools: [], tool_call_parser: "none" }],
    ["POST", "/generate", { text: "hello", rid: "same", sampling_params: { max_new_tokens: 3 } }],
    ["POST", "/generate", { text: "hello", rid: "same", stream: true }],
    ["POST", "/generate", { sampling_params: { temperature: -1 } }],
    ["POST", "/v1/chat/completions", { messages: [{ role: "user", content: "a" }], rid: "same" }],
    ["POST", "/v1/completions", { prompt: ["a", "b"], rid: ["one", "two"], stream: true }],
    ["POST", "/v1/completions", { prompt: 5 }],
    ["POST", "/v1/responses", {}],
    ["POST", "/v1/messages", { messages: [] }],
    ["POST", "/v1/messages/count_tokens", { messages: [{ role: "user", content: "a" }] }],
    ["POST", "/api/chat", {}],
    ["POST", "/api/generate", { prompt: "a", raw: 5 }],
    ["POST", "/api/show", { model: "other" }],
    ["GET", "/api/tags"],
    ["GET", "/api/ps"],
    ["GET", "/api/version"],
    ["POST", "/abort_request", { rid: "none" }],
    ["POST", "/abort_request", { rid: 5 }],
    ["GET", "/v1/completions"],
    ["GET", "/nothing"],
    ...[...UNSUPPORTED_ENDPOINTS.keys()].slice(0, 3).map((path) => ["POST", path, {}] as const),
  ];

  test("through the router is that of the worker, for all of its endpoints", async () => {
    const { urls } = await servers(1);
    const router = await routerTo(urls, { policy: cacheAware() });
    const read = async (url: string, [method, path, body]: (typeof asked)[number]) => {
      const headers = { "content-type": "application/json" };
      const sent = body && { headers, body: JSON.stringify(body) };
      const response = await fetch(url + path, { method, ...sent });
      // Times and what follows the clock.
      const text = (await response.text()).replace(/"(created|e2e_latency)":[\d.e-]+/g, "");
      return { status: response.status, text, type: response.headers.get("content-type") };
    };
    for (const one of asked) {
      expect(await read(router.url, one), one.join(" ")).toEqual(await read(urls[0]!, one));
    }
    expect(router.errors).toEqual([]);
  });

  test.each([
    ["/v1/responses", { input: "hello" }],
    ["/v1/messages", { messages: [{ role: "user", content: "hello" }], max_tokens: 5 }],
    ["/api/chat", { messages: [{ role: "user", content: "hello" }] }],
    ["/api/generate", { prompt: "hello" }],
  ])("of %s comes through, whole and streamed", async (path, body) => {
    const { urls, engines } = await servers(1);
    const router = await routerTo(urls);
    for (const stream of [false, true]) {
      const answer = await postTo(router.url, path, { ...body, stream });
      expect(answer.status).toBe(200);
      expect(await answer.text()).toMatch(stream ? /"h/ : /"hello/);
    }
    expect(engines[0]!.requests).toHaveLength(2);
  });

  test("that one worker keeps is not asked for here, nor gone on from", async () => {
    const { urls, engines } = await servers(1);
    const router = await routerTo(urls);
    const problem = "the worker that made a response keeps it; ask the worker itself";
    const body = { input: "a", previous_response_id: "resp_a" };
    const refused = await postTo(router.url, "/v1/responses", body);
    expect(refused.status).toBe(400);
    const told = { message: `Cannot use previous_response_id: ${problem}` };
    expect(await refused.json()).toMatchObject({ ...told, param: "previous_response_id" });
    for (const method of ["GET", "DELETE"]) {
      const answer = await fetch(`${router.url}/v1/responses/resp_a`, { method });
      expect(answer.status).toBe(400);
      expect(await answer.text()).toContain(problem);
    }
    expect(engines[0]!.requests).toEqual([]);
  });

  test.each([
    ["/v1/messages", { type: "error", error: { type: "overloaded_error" } }],
    ["/api/chat", { error: expect.stringContaining("No available workers") as unknown }],
  ])("of the router's own to %s is in its shape", async (path, shape) => {
    const router = await routerTo([]);
    const answer = await postTo(router.url, path, {});
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject(shape);
  });

  test("to a body that is no JSON is the worker's too", async () => {
    const { urls } = await servers(1);
    const router = await routerTo(urls, { policy: cacheAware() });
    for (const body of ["{", "", "[".repeat(5000)]) {
      const [routed, plain] = await Promise.all(
        [router.url, urls[0]!].map((url) => postTo(url, "/generate", body)),
      );
      expect(routed!.status).toBe(400);
      expect(await routed!.text()).toBe(await plain!.text());
    }
  });

  test("is sent on as it comes, not when it is whole", async () => {
    let next = () => {};
    const gate = () => new Promise<void>((resolve) => (next = resolve));
    const engine = new ScriptedEngine({ script: () => ({ pieces: ["a", "b"], gate }) });
    const { url } = await serverOver(engine);
    const router = await routerTo([url]);
    const answer = postTo(router.url, "/generate", { text: "x", stream: true });
    await until(() => expect(engine.running).toHaveLength(1));
    next();
    const reader = (await answer).body!.getReader();
    const decode = (bytes?: Uint8Array) => new TextDecoder().decode(bytes);
    expect(decode((await reader.read()).value)).toContain('"text":"a"');
    next();
    expect(decode((await reader.read()).value)).toContain('"text":"ab"');
    await reader.cancel();
  });
});

function cacheAware() {
  return new CacheAwarePolicy({
    cacheThreshold: 0.3,
    balanceAbsThreshold: 64,
    balanceRelThreshold: 1.5,
    maxTreeSize: 2 ** 20,
  });
}

describe("requests", () => {
  test("go round the workers", async () => {
    const { engines, urls } = await servers(3);
    const router = await routerTo(urls);
    for (let i = 0; i < 9; i++) await (await postTo(router.url, "/generate", { text: "x" })).text();
    expect(engines.map(({ requests }) => requests.length)).toEqual([3, 3, 3]);
  });

  test("go by power of two to workers that others keep less busy", async () => {
    const gate = () => new Promise<void>(() => {});
    const busy = new ScriptedEngine({ script: () => ({ pieces: ["x"], gate }) });
    const idle = new ScriptedEngine();
    const [first, second] = await Promise.all([serverOver(busy), serverOver(idle)]);
    // Sent past the router, which the worker tells of.
    const leave = new AbortController();
    const past = postTo(first.url, "/generate", { text: "x" }, { signal: leave.signal });
    past.catch(() => {});
    await until(() => expect(busy.running).toHaveLength(1));
    const router = await routerTo([first.url, second.url], { policy: powerOfTwoPolicy() });
    for (let i = 0; i < 8; i++) await (await postTo(router.url, "/generate", { text: "x" })).text();
    expect([busy.requests.length, idle.requests.length]).toEqual([1, 8]);
    const loads = [first.url, second.url].map((worker, i) => ({ worker, load: 1 - i }));
    expect(await (await fetch(`${router.url}/get_loads`)).json()).toEqual({ workers: loads });
    expect(await (await fetch(`${router.url}/get_load`)).json()).toMatchObject({ num_reqs: 1 });
    leave.abort();
  });

  test("of one conversation go to the worker that had its turns before", async () => {
    const { engines, urls } = await servers(3);
    const router = await routerTo(urls, { policy: cacheAware() });
    const talks = Array.from({ length: 6 }, (_, i) => [
      { role: "user", content: `${i}`.repeat(99) },
    ]);
    for (let turn = 0; turn < 3; turn++) {
      for (const messages of talks) {
        await (await postTo(router.url, "/v1/chat/completions", { messages })).text();
        messages.push(
          { role: "assistant", content: "yes" },
          { role: "user", content: `and ${turn}` },
        );
      }
    }
    for (const { requests } of engines) {
      const begins = requests.map(({ messages }) => messages![0]!.content);
      // Two talks of three turns each, and no part of another.
      expect(begins).toHaveLength(6);
      expect(new Set(begins).size).toBe(2);
    }
    const hits = router.told.filter(([name]) => name === "prefix").map(([, isHit]) => isHit);
    expect(hits).toEqual([...Array(6).fill(false), ...Array(12).fill(true)]);
  });
});
