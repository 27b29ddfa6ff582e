import { afterEach, describe, expect, test } from "vitest";
import { ScriptedEngine } from "../support/engines/scripted_engine.ts";
import { postTo, routerTo } from "../support/router/running_router.ts";
import {
  closeAfterwards,
  closeAll,
  failingServer,
  freeUrl,
  serverOver,
} from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

const HEALTH = {
  endpoint: "/health",
  interval: 5,
  timeout: 1000,
  failureThreshold: 3,
  successThreshold: 2,
  startupTimeout: 10_000,
  startupInterval: 5,
};

/** Asks the router to change its workers, or for them. */
async function manage(router: { url: string }, path: string, worker?: string, init = {}) {
  const query = worker === undefined ? "" : `?url=${encodeURIComponent(worker)}`;
  const answer = await fetch(router.url + path + query, { method: "POST", ...init });
  return { status: answer.status, text: await answer.text() };
}

async function listed(router: { url: string }): Promise<unknown> {
  return (await fetch(`${router.url}/list_workers`)).json();
}

async function statusOf(router: { url: string }, path: string): Promise<[number, string]> {
  const answer = await fetch(router.url + path);
  return [answer.status, await answer.text()];
}

describe("a worker is added", () => {
  test("once it is healthy, and only once", async () => {
    const worker = await failingServer((response) => response.end("ok"));
    worker.health = 503;
    const router = await routerTo([], { health: HEALTH });
    expect(await statusOf(router, "/readiness")).toEqual([
      503,
      '{"status":"not_ready","reason":"no healthy workers available","total_workers":0}',
    ]);
    expect(await statusOf(router, "/health")).toEqual([200, "All servers healthy"]);
    const adding = manage(router, "/add_worker", `${worker.url}/`);
    await until(async () => {
      expect(await listed(router)).toEqual({ urls: [worker.url], draining: [] });
    });
    expect((await postTo(router.url, "/generate", {})).status).toBe(503);
    expect(await statusOf(router, "/health")).toEqual([
      503,
      `Unhealthy servers: ["${worker.url}"]`,
    ]);
    worker.health = 200;
    expect(await adding).toEqual({ status: 200, text: `Successfully added worker: ${worker.url}` });
    expect((await postTo(router.url, "/generate", {})).status).toBe(200);
    const again = await manage(router, "/add_worker", worker.url);
    expect(again.status).toBe(400);
    expect(again.text).toContain(`Worker ${worker.url} already exists`);
    const ready = '{"status":"ready","healthy_workers":1,"total_workers":1}';
    expect(await statusOf(router, "/readiness")).toEqual([200, ready]);
  });

  test("not where it does not become healthy, is removed meanwhile, or its client leaves", async () => {
    const url = await freeUrl();
    const slow = await routerTo([], { health: { ...HEALTH, startupTimeout: 50 } });
    const late = await manage(slow, "/add_worker", url);
    expect(late.status).toBe(503);
    expect(late.text).toContain("it did not become healthy in time");
    expect(await listed(slow)).toEqual({ urls: [], draining: [] });

    const router = await routerTo([], { health: HEALTH });
    const adding = manage(router, "/add_worker", url);
    await until(() => expect(router.workers.all).toHaveLength(1));
    await manage(router, "/remove_worker", url);
    expect((await adding).status).toBe(503);

    const client = new AbortController();
    const left = manage(router, "/add_worker", url, { signal: client.signal });
    await until(() => expect(router.workers.all).toHaveLength(1));
    client.abort();
    await expect(left).rejects.toThrow();
    await until(() => expect(router.workers.all).toEqual([]));
    expect([slow.errors, router.errors]).toEqual([[], []]);
  });

  test.each([
    undefined,
    "",
    "10.0.0.1:30000",
    "grpc://10.0.0.1:1",
    "http://user:password@host",
    "http://host/?q=1",
    `http://${"h".repeat(3000)}`,
  ])("not from %s", async (url) => {
    const router = await routerTo([]);
    const { status, text } = await manage(router, "/add_worker", url);
    expect(status).toBe(400);
    expect(text).toMatch(/Worker URL required|url must be the http or https address of a worker/);
    expect(text.length).toBeLessThan(1000);
  });
});

test("a worker that is removed ends what it answers, and is sent nothing more", async () => {
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const slow = new ScriptedEngine({ script: () => ({ pieces: ["a", "b"], gate: () => gate }) });
  const [first, other] = [await serverOver(slow), await serverOver()];
  const router = await routerTo([first.url]);
  const answer = postTo(router.url, "/generate", { text: "x", stream: true });
  await until(() => expect(slow.running).toHaveLength(1));
  await manage(router, "/add_worker", other.url);
  const removed = await manage(router, "/remove_worker", first.url);
  expect(removed).toEqual({ status: 200, text: `Successfully removed worker: ${first.url}` });
  expect(await listed(router)).toEqual({ urls: [other.url], draining: [first.url] });
  for (let i = 0; i < 4; i++) await (await postTo(router.url, "/generate", { text: "x" })).text();
  expect(slow.requests).toHaveLength(1);
  // A draining worker is still told of aborts.
  expect((await postTo(router.url, "/abort_request", { rid: "none" })).status).toBe(200);
  open();
  expect(await (await answer).text()).toContain('"text":"ab"');
  await until(async () => {
    expect(await listed(router)).toEqual({ urls: [other.url], draining: [] });
  });
  // One that is not known is no error, as nothing of it is left.
  expect((await manage(router, "/remove_worker", first.url)).status).toBe(200);
  expect((await manage(router, "/remove_worker")).status).toBe(400);
});

test("a worker is unhealthy after checks that fail in a row, and healthy after some that do not", async () => {
  const worker = await failingServer((response) => response.end("ok"));
  const router = await routerTo([worker.url], { health: HEALTH });
  worker.health = 500;
  await until(() => expect(router.workers.available).toEqual([]));
  expect(await statusOf(router, "/health")).toEqual([503, `Unhealthy servers: ["${worker.url}"]`]);
  expect((await statusOf(router, "/readiness"))[0]).toBe(503);
  expect((await postTo(router.url, "/generate", {})).status).toBe(503);
  expect(worker.requests).toEqual([]);
  worker.health = 200;
  await until(() => expect(router.workers.available).toHaveLength(1));
  const texts = router.events.map(({ text }) => text).filter((text) => text.startsWith("Worker"));
  expect(texts).toEqual(
    ["healthy", "unhealthy", "healthy"].map((how) => `Worker ${worker.url} is ${how}`),
  );
});

describe("every worker", () => {
  test("is told to flush its cache", async () => {
    const engine = new ScriptedEngine();
    const [{ url }, other] = [
      await serverOver(engine),
      await failingServer((response) => response.end()),
    ];
    const router = await routerTo([url, other.url]);
    const good = { status: 200, text: "Cache flushed on all servers" };
    expect(await manage(router, "/flush_cache")).toEqual(good);
    expect([engine.flushes.length, other.requests.length]).toEqual([1, 1]);
    await other.kill();
    const bad = { status: 500, text: "Cache flush failed on one or more servers" };
    expect(await manage(router, "/flush_cache")).toEqual(bad);
    expect(router.events.at(-1)!.text).toContain(`failed at ${other.url}`);
  });

  test("is told to abort a request, which only one of them knows", async () => {
    const gate = () => new Promise<void>(() => {});
    const engines = [0, 1].map(() => new ScriptedEngine({ script: () => ({ gate }) }));
    const servers = await Promise.all(engines.map((engine) => serverOver(engine)));
    const router = await routerTo(servers.map(({ url }) => url));
    const asked = ["a", "b"].map((rid) => postTo(router.url, "/generate", { text: "x", rid }));
    await until(() => expect(engines.map(({ running }) => running.length)).toEqual([1, 1]));
    expect((await postTo(router.url, "/abort_request", { rid: "b" })).status).toBe(200);
    const { meta_info } = (await (await asked[1]!).json()) as { meta_info: object };
    expect(meta_info).toMatchObject({ id: "b", finish_reason: { type: "abort" } });
    expect(engines.map(({ running }) => running.length)).toEqual([1, 0]);
    expect((await postTo(router.url, "/abort_request", { abort_all: true })).status).toBe(200);
    expect((await asked[0]!).status).toBe(200);
  });
});

describe("a key", () => {
  const headers = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });

  test("protects the router, and is what its workers are shown", async () => {
    const engine = new ScriptedEngine();
    const { url } = await serverOver(engine, { apiKey: "k" });
    const router = await routerTo([url], { apiKey: "k", adminApiKey: "admin" });
    for (const path of ["/liveness", "/readiness", "/health"]) {
      expect((await statusOf(router, path))[0]).toBe(200);
    }
    for (const path of ["/list_workers", "/get_load", "/v1/models"]) {
      expect((await statusOf(router, path))[0]).toBe(401);
    }
    expect((await postTo(router.url, "/generate", { text: "x" })).status).toBe(401);
    expect((await postTo(router.url, "/generate", { text: "x" }, headers("k"))).status).toBe(200);
    const loads = await fetch(`${router.url}/get_loads`, headers("k"));
    expect(await loads.json()).toEqual({ workers: [{ worker: url, load: 0 }] });
    expect((await manage(router, "/remove_worker", url, headers("k"))).status).toBe(403);
    expect((await manage(router, "/remove_worker", url, headers("admin"))).status).toBe(200);
  });
});

test("as many workers as one likes are asked at once, without a warning of the platform", async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => {
    if (warning.name === "MaxListenersExceededWarning") warnings.push(warning);
  };
  process.on("warning", note);
  closeAfterwards(async () => process.off("warning", note));
  const worker = await failingServer((response) => response.end());
  const urls = Array.from({ length: 24 }, (_, i) => `${worker.url}/${i}`);
  const router = await routerTo(urls, { health: HEALTH });
  expect(router.workers.available).toHaveLength(24);
  expect((await manage(router, "/flush_cache")).status).toBe(200);
  expect((await fetch(`${router.url}/get_loads`)).status).toBe(200);
  await new Promise((resolve) => setImmediate(resolve));
  expect(warnings).toEqual([]);
});

test("a page of a stranger cannot change the workers", async () => {
  const router = await routerTo([]);
  const origin = { headers: { origin: "https://stranger.example" } };
  expect((await manage(router, "/add_worker", "http://10.0.0.1", origin)).status).toBe(403);
  const get = await fetch(`${router.url}/remove_worker?url=http://10.0.0.1`);
  expect(get.status).toBe(405);
  const profile = await manage(router, "/start_profile");
  expect([profile.status, profile.text]).toEqual([400, expect.stringContaining("/start_profile")]);
});
