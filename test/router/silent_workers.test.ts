/** Workers that give no sign of life any more, whose connections stay: those who wait for them are told. */
import { afterEach, expect, test } from "vitest";
import { postTo, routerTo } from "../support/router/running_router.ts";
import { closeAll, failingServer, serverOver } from "../support/router/worker_servers.ts";
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
  const looks = () => slow.requests.filter(({ url }) => url === "/liveness").length;
  await until(() => expect(looks()).toBeGreaterThan(30));
  finish();
  expect([(await answer).status, await (await answer).text()]).toEqual([200, "late"]);
  const before = looks();
  // Nothing is waited for any more, so nothing is asked.
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(looks()).toBeLessThanOrEqual(before + 1);
});
