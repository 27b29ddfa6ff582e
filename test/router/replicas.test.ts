/** A router that chooses among the replicas behind its workers' ports. */
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import type { GenerationEngine } from "../../src/generation.ts";
import { ReplicatedEngine } from "../../src/parallel/replicas/replicated_engine.ts";
import { CacheAwarePolicy } from "../../src/router/policy/cache_aware.ts";
import { powerOfTwoPolicy } from "../../src/router/policy/policy.ts";
import { ScriptedEngine } from "../support/engines/scripted_engine.ts";
import { postTo, type RouterSettings, routerTo } from "../support/router/running_router.ts";
import { closeAll, failingServer, serverOver } from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

const HEALTH = {
  endpoint: "/health",
  interval: 5,
  timeout: 1000,
  failureThreshold: 1,
  successThreshold: 1,
  startupTimeout: 200,
  startupInterval: 5,
};

/** A server with a number of replicas, of which each takes note of what it is asked. */
async function replicatedServer(count: number, script?: () => object) {
  const engines = Array.from({ length: count }, () => new ScriptedEngine(script && { script }));
  const engine: GenerationEngine = count === 1 ? engines[0]! : new ReplicatedEngine(engines);
  const { url } = await serverOver(engine, { description: { dp_size: count } });
  return { url, engines, counts: () => engines.map(({ requests }) => requests.length) };
}

const aware = (settings: RouterSettings = {}): RouterSettings => {
  return { knowsReplicas: true, ...settings };
};

async function generate(router: { readonly url: string }, body: object, init: RequestInit = {}) {
  const answer = await postTo(router.url, "/generate", body, init);
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

describe("replicas of all workers", () => {
  test("take turns as workers do, whatever the workers themselves would choose", async () => {
    const [three, one] = [await replicatedServer(3), await replicatedServer(1)];
    const router = await routerTo([three.url, one.url], aware());
    for (let i = 0; i < 8; i++) expect((await generate(router, { text: "a" })).status).toBe(200);
    expect([three.counts(), one.counts()]).toEqual([[2, 2, 2], [2]]);
    const decisions = router.told.filter(([name]) => name === "decision").map(([, , at]) => at);
    const names = [0, 1, 2].map((replica) => `${three.url}@${replica}`);
    expect(new Set(decisions)).toEqual(new Set([...names, one.url]));
    const list = await (await fetch(`${router.url}/list_workers`)).json();
    expect(list).toEqual({ urls: [...names, one.url], draining: [] });
  });

  test("are one worker each without the option", async () => {
    const [three, one] = [await replicatedServer(3), await replicatedServer(1)];
    const router = await routerTo([three.url, one.url]);
    for (let i = 0; i < 6; i++) await generate(router, { text: "a" });
    expect([three.counts(), one.counts()]).toEqual([[1, 1, 1], [3]]);
    const list = await (await fetch(`${router.url}/list_workers`)).json();
    expect(list).toEqual({ urls: [three.url, one.url], draining: [] });
  });

  test("keep prompts that begin alike together", async () => {
    const server = await replicatedServer(2);
    const options = { cacheThreshold: 0.3, balanceAbsThreshold: 64, balanceRelThreshold: 1.5 };
    const policy = new CacheAwarePolicy({ ...options, maxTreeSize: 2 ** 16 });
    const router = await routerTo([server.url], aware({ policy }));
    const prompts = ["a", "b"].map((letter) => letter.repeat(50));
    for (const text of [...prompts, ...prompts, ...prompts]) await generate(router, { text });
    for (const { requests } of server.engines) {
      expect(requests).toHaveLength(3);
      expect(new Set(requests.map((request) => JSON.stringify(request.prompt))).size).toBe(1);
    }
    const [worker] = router.workers.all;
    expect(policy.sizeOf(worker!)).toBeGreaterThanOrEqual(100);
  });

  test("are told apart by what each has to do", async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const server = await replicatedServer(2, () => ({ gate: () => held }));
    const router = await routerTo([server.url], aware({ policy: powerOfTwoPolicy() }));
    const answers = [];
    for (let i = 0; i < 6; i++) {
      answers.push(generate(router, { text: "a" }));
      await until(() => expect(router.workers.all[0]!.inFlight).toBe(i + 1));
    }
    await until(() => expect(server.counts()).toEqual([3, 3]));
    expect(router.workers.all[0]!.targets.map(({ inFlight }) => inFlight)).toEqual([3, 3]);
    release();
    for (const answer of answers) expect((await answer).status).toBe(200);
    const [worker] = router.workers.all;
    await until(() => expect(worker!.inFlight).toBe(0));
    expect([worker!.processed, ...worker!.targets.map(({ inFlight }) => inFlight)]).toEqual([
      6, 0, 0,
    ]);
  });

  test("tell what others have given them", async () => {
    const loads = [5, 1].map((num_reqs) => ({ num_reqs }));
    const server = await failingServer((response) => response.end('{"dp_size": 2}'));
    const router = await routerTo([server.url], aware());
    const [worker] = router.workers.all;
    worker!.reportLoads(loads.map(({ num_reqs }) => num_reqs));
    expect(worker!.targets.map(({ load }) => load)).toEqual([5, 1]);
    worker!.reportLoads([9]);
    expect(worker!.targets.map(({ load }) => load)).toEqual([5, 1]);
  });
});

describe("a client", () => {
  test.each(["data_parallel_rank", "routed_dp_rank"])("may name a replica by %s", async (field) => {
    const [three, one] = [await replicatedServer(3), await replicatedServer(1)];
    const router = await routerTo([three.url, one.url], aware());
    for (let i = 0; i < 3; i++) {
      expect((await generate(router, { text: "a", [field]: 2 })).status).toBe(200);
    }
    expect([three.counts(), one.counts()]).toEqual([[0, 0, 3], [0]]);
    const { status, body } = await generate(router, { text: "a", [field]: 3 });
    expect([status, JSON.stringify(body)]).toEqual([400, expect.stringContaining("dp_size")]);
  });

  test("gets chats and completions from each replica too, and other answers as ever", async () => {
    const server = await replicatedServer(2);
    const router = await routerTo([server.url], aware());
    const messages = [{ role: "user", content: "hi" }];
    const post = async (path: string, body: object) =>
      (await postTo(router.url, path, { model: "any", max_tokens: 4, ...body })).status;
    for (let i = 0; i < 2; i++) {
      expect(await post("/v1/chat/completions", { messages })).toBe(200);
      expect(await post("/v1/completions", { prompt: "hi" })).toBe(200);
      expect(await post("/v1/messages", { messages })).toBe(200);
      expect((await postTo(router.url, "/tokenize", { prompt: "hi" })).status).toBe(200);
    }
    expect(server.counts()).toEqual([3, 3]);
  });

  test("is told by the worker what is wrong with its body", async () => {
    const server = await replicatedServer(2);
    const router = await routerTo([server.url], aware());
    const send = async (body: string | Uint8Array, headers = {}) =>
      (await postTo(router.url, "/generate", body, { headers })).status;
    expect(await send('{"text": ')).toBe(400);
    expect(await send("[1]")).toBe(400);
    expect(await send('{"text": "a", "data_parallel_rank": "two"}')).toBe(400);
    expect(server.counts()).toEqual([0, 0]);
    // Nothing is written into a body that is compressed: the worker chooses.
    const packed = gzipSync('{"text": "a"}');
    expect(await send(packed, { "content-encoding": "gzip" })).toBe(200);
    expect(server.counts()).toEqual([1, 0]);
  });
});

describe("a worker", () => {
  test.each([
    ["names none", "{}", 1],
    ["has one", '{"dp_size": 1}', 1],
    ["has the most", '{"dp_size": 64}', 64],
  ])("that %s has as many targets", async (_, info, targets) => {
    const server = await failingServer((response) => response.end(info));
    const router = await routerTo([server.url], aware());
    expect(router.workers.all[0]!.targets).toHaveLength(targets);
  });

  test.each([
    ["names more than there may be", '{"dp_size": 65}'],
    ["names no number", '{"dp_size": "2"}'],
    ["names none that could be", '{"dp_size": 0}'],
    ["answers with no JSON", "{"],
  ])("that %s is not taken", async (_, info) => {
    const server = await failingServer((response) => response.end(info));
    const router = await routerTo([], aware({ health: HEALTH }));
    const worker = router.workers.add(server.url);
    expect(await router.checks.admit(worker)).toBe(false);
    expect(worker.health).toBe("starting");
    const told = router.events.find(({ text }) => text.includes("does not say how many replicas"));
    expect(told?.level).toBe("warning");
  });

  test("that says of other replicas how much they have to do is asked again", async () => {
    const loads = [1, 2, 3].map((load) => ({ num_reqs: load }));
    let count = 2;
    const upstream: RouterSettings["upstream"] = async ({ url }) => {
      const text = url.endsWith("/get_load")
        ? JSON.stringify(loads.slice(0, count))
        : `{"dp_size": ${count}}`;
      const pieces = [new TextEncoder().encode(text)];
      const body = { read: async () => pieces.shift(), cancel: () => {} };
      return { status: 200, headers: [["content-type", "application/json"]], body };
    };
    const router = await routerTo(["http://a"], aware({ health: HEALTH, upstream }));
    const [worker] = router.workers.all;
    expect(worker!.targets).toHaveLength(2);
    count = 3;
    await until(() => expect(worker!.targets).toHaveLength(3));
    await until(() => expect(worker!.targets.map(({ load }) => load)).toEqual([1, 2, 3]));
    expect(worker!.health).toBe("healthy");
  });

  test("that comes back is asked again", async () => {
    let count = 2;
    const server = await failingServer((response) => response.end(`{"dp_size": ${count}}`));
    const router = await routerTo([server.url], aware({ health: HEALTH }));
    const [worker] = router.workers.all;
    server.health = 503;
    await until(() => expect(worker!.health).toBe("unhealthy"));
    count = 3;
    server.health = 200;
    await until(() => expect(worker!.health).toBe("healthy"));
    expect(worker!.targets).toHaveLength(3);
    router.workers.remove(server.url);
    const removed = router.told.filter(([name]) => name === "removed").map(([, at]) => at);
    expect(removed).toEqual([
      server.url,
      ...[0, 1, 2].map((replica) => `${server.url}@${replica}`),
    ]);
  });
});
