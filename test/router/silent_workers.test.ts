/** Workers that give no sign of life any more, whose connections stay: those who wait for them are told. */
import { afterEach, expect, test } from "vitest";
import { roundRobinPolicy } from "../../src/router/policy/policy.ts";
import { postTo, routerTo } from "../support/router/running_router.ts";
import {
  closeAll,
  type FailingServer,
  failingServer,
  serverOver,
} from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

/** A worker is lost after 300 ms without a sign of life. */
const health = {
  endpoint: "/health",
  interval: 60_000,
  timeout: 100,
  failureThreshold: 3,
  successThreshold: 2,
  startupTimeout: 10_000,
  startupInterval: 10,
};
const EVENTS = { "content-type": "text/event-stream" };
const STREAMED = { text: "x", stream: true };

/** Questions whether a worker lives. */
const looksAt = ({ requests }: FailingServer, path = "/liveness") =>
  requests.filter(({ url }) => url === path).length;

/** Nothing is waited for any more, so nothing is asked. */
async function expectNoMoreLooks(worker: FailingServer): Promise<void> {
  const before = looksAt(worker);
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(looksAt(worker)).toBeLessThanOrEqual(before + 1);
}

test("a stream of a worker that falls silent ends with an event that says so", async () => {
  const frozen = await failingServer((response, { url }) => {
    if (url !== "/generate") return;
    response.writeHead(200, EVENTS).write('data: {"text":"a"}\n\n');
  });
  const router = await routerTo([frozen.url], { health });
  const text = await (await postTo(router.url, "/generate", STREAMED)).text();
  expect(text).toContain('data: {"text":"a"}\n\n');
  expect(text).toContain("the worker has given no sign of life for 0.3 s");
  expect(text).toContain('"code":502');
  expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  // It gets no more until it answers checks.
  expect(router.workers.available).toEqual([]);
  expect(router.workers.all[0]!.inFlight).toBe(0);
  expect((await postTo(router.url, "/generate", STREAMED)).status).toBe(503);
});

test("what a worker has not begun to answer is sent to another one", async () => {
  const frozen = await failingServer(() => {});
  const { url } = await serverOver();
  const router = await routerTo([frozen.url, url], { health });
  const answer = await postTo(router.url, "/generate", STREAMED);
  expect([answer.status, await answer.text()]).toEqual([
    200,
    expect.stringContaining('"text":"x"'),
  ]);
  expect(router.told.filter(([name]) => name === "retry")).toHaveLength(1);
  expect(router.workers.available.map((worker) => worker.url)).toEqual([url]);
});

test("a worker that lives may take its time", async () => {
  let finish = () => {};
  const slow = await failingServer((response, { url }) => {
    // Whatever it answers shows that it is there.
    if (url === "/liveness") response.writeHead(404).end();
    else finish = () => response.end("late");
  });
  const router = await routerTo([slow.url], { health });
  const answer = postTo(router.url, "/generate", { text: "x" });
  await until(() => expect(looksAt(slow)).toBeGreaterThan(30));
  finish();
  expect([(await answer).status, await (await answer).text()]).toEqual([200, "late"]);
  await expectNoMoreLooks(slow);
});

test("a worker that lives may take longer than one check to say so", async () => {
  const timeout = 200;
  const slow = await failingServer((response, { url }) => {
    const time = url === "/liveness" ? 1.2 * timeout : 10 * timeout;
    setTimeout(() => response.end("late"), time);
  });
  const router = await routerTo([slow.url], { health: { ...health, timeout } });
  const answer = await postTo(router.url, "/generate", { text: "x" });
  expect([answer.status, await answer.text()]).toEqual([200, "late"]);
});

test("a worker that does not answer has few questions open", async () => {
  let [open, most] = [0, 0];
  const frozen = await failingServer((response, { url }) => {
    if (url !== "/liveness") return;
    open += 1;
    most = Math.max(most, open);
    response.on("close", () => {
      open -= 1;
    });
  });
  const router = await routerTo([frozen.url], { health: { ...health, failureThreshold: 6 } });
  await (await postTo(router.url, "/generate", { text: "x" })).text();
  expect(most).toBe(5);
});

test("the router asks no worker for an answer that it has left, as where the other server of a pair has said more", async () => {
  const told = { "x-wisp-failed-side": "prefill" };
  const decode = await failingServer((response, { url }) => {
    if (url === "/liveness") response.end();
    else response.writeHead(500, told).write("{");
  });
  const prefill = await failingServer((response, { headers }) => {
    const isClients = headers["x-request-id"] !== undefined;
    // After the decode server.
    setTimeout(() => response.writeHead(isClients ? 400 : 200).end("{}"), 100);
  });
  const pairPolicies = { prefill: roundRobinPolicy(), decode: roundRobinPolicy() };
  const { url, workers, checks } = await routerTo([], { health, pairPolicies });
  await checks.admit(workers.add(prefill.url, { role: "prefill" }));
  await checks.admit(workers.add(decode.url, { role: "decode" }));
  expect((await postTo(url, "/generate", STREAMED)).status).toBe(400);
  await expectNoMoreLooks(decode);
});

test("a router that stops asks nothing more", async () => {
  const slow = await failingServer((response, { url }) => {
    if (url === "/liveness") response.end();
  });
  const router = await routerTo([slow.url], { health });
  const leaving = new AbortController();
  const { signal } = leaving;
  const answer = postTo(router.url, "/generate", { text: "x" }, { signal });
  await until(() => expect(looksAt(slow)).toBeGreaterThan(0));
  router.stop();
  await expectNoMoreLooks(slow);
  leaving.abort();
  await expect(answer).rejects.toThrow();
});

test("of two workers behind one address, the one that was sent the request is watched", async () => {
  const both = await failingServer((response, { url }) => {
    if (url === "/b/health" || url === "/b/get_load") response.end();
  });
  const router = await routerTo([both.url, `${both.url}/b`], { health });
  const [outer, inner] = router.workers.all;
  outer!.health = "unhealthy";
  expect((await postTo(router.url, "/generate", STREAMED)).status).toBe(503);
  expect([looksAt(both), looksAt(both, "/b/liveness") > 0]).toEqual([0, true]);
  expect(inner!.health).toBe("unhealthy");
});

test("a worker that starts is not taken for one that was lost, nor one that was removed", async () => {
  const frozen = await failingServer(() => {});
  const { url, workers, events, checks } = await routerTo([], { health });
  const starting = workers.add(frozen.url);
  expect((await postTo(url, "/flush_cache", "")).status).toBe(500);
  expect(starting.health).toBe("starting");
  starting.health = "healthy";
  workers.remove(frozen.url);
  checks.lose(starting);
  expect(events.map(({ text }) => text).filter((text) => text.endsWith("unhealthy"))).toEqual([]);
});
