/** `/health_generate` costs the same however many ask. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CapacityError, DeviceError } from "../../../src/errors.ts";
import type { EngineStatus } from "../../../src/generation.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { post } from "../../support/server/http_client.ts";

beforeEach(() => {
  const toFake = [
    "setTimeout",
    "clearTimeout",
    "setInterval",
    "clearInterval",
    "performance",
  ] as const;
  vi.useFakeTimers({ toFake: [...toFake] });
});
afterEach(() => {
  vi.useRealTimers();
});

const path = "/health_generate";

function probes({ requests }: ScriptedEngine): number {
  return requests.filter(({ requestId }) => requestId?.startsWith("HEALTH_CHECK_")).length;
}

test("a thousand who ask at once share one token", async () => {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const engine = new ScriptedEngine({ script: () => ({ gate: () => opened }), stalledFor: 100 });
  const app = createApp(engine);
  const answers = Array.from({ length: 1000 }, () => app.request(path));
  await vi.advanceTimersByTimeAsync(5000);
  const late = app.request(path);
  expect(probes(engine)).toBe(1);
  // One look of one probe, and its end.
  expect(vi.getTimerCount()).toBe(2);
  open();
  for (const response of await Promise.all([...answers, late])) expect(response.status).toBe(200);
  expect(probes(engine)).toBe(1);
  expect(engine.running).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

test("at most one token is made in a second", async () => {
  const engine = new ScriptedEngine();
  const app = createApp(engine);
  for (let tenths = 0; tenths < 35; tenths++) {
    expect((await app.request(path)).status).toBe(200);
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(probes(engine)).toBe(4);
});

test("none is made for a model that others have just seen work", async () => {
  const engine = new ScriptedEngine();
  const app = createApp(engine);
  const body = { text: "ab", sampling_params: { max_new_tokens: 2 } };
  const answer = await post(app, "/generate", body);
  expect([answer.status, await answer.text()]).toEqual([
    200,
    expect.stringContaining("output_ids"),
  ]);
  await vi.advanceTimersByTimeAsync(999);
  expect((await app.request(path)).status).toBe(200);
  expect(probes(engine)).toBe(0);
  await vi.advanceTimersByTimeAsync(1000);
  expect((await app.request(path)).status).toBe(200);
  expect(probes(engine)).toBe(1);
});

test("a client that leaves ends the probe of no other", async () => {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const engine = new ScriptedEngine({ script: () => ({ gate: () => opened }) });
  const app = createApp(engine);
  const leaving = new AbortController();
  const first = app.request(path, { signal: leaving.signal });
  const second = app.request(path);
  await vi.advanceTimersByTimeAsync(0);
  leaving.abort();
  await vi.advanceTimersByTimeAsync(0);
  expect(engine.running).toHaveLength(1);
  open();
  expect((await second).status).toBe(200);
  expect((await first).status).toBe(200);
});

test("an error is reported once, and asked for again after a second", async () => {
  let isBroken = true;
  const failure = { at: 0, error: new DeviceError("gone") };
  const engine = new ScriptedEngine({ script: () => (isBroken ? { failure } : {}) });
  const reportError = vi.fn();
  const app = createApp(engine, { reportError });
  const answers = await Promise.all(Array.from({ length: 100 }, () => app.request(path)));
  expect(answers.map(({ status }) => status)).toEqual(new Array(100).fill(503));
  expect(reportError).toHaveBeenCalledOnce();
  isBroken = false;
  expect((await app.request(path)).status).toBe(503);
  await vi.advanceTimersByTimeAsync(1000);
  expect((await app.request(path)).status).toBe(200);
});

test("of a full engine, a token of another request or a step of a long prompt will do", async () => {
  class Full extends ScriptedEngine {
    stalledFor = 1000;

    override status(): EngineStatus {
      return { ...super.status(), runningRequests: 8, stalledFor: this.stalledFor };
    }
  }
  const full = new CapacityError("places in the request queue", 8, "all 8 are taken");
  const engine = new Full({
    script: ({ prompt }) =>
      prompt === undefined ? { failure: { at: 0, error: full } } : { pieces: ["a"] },
  });
  const app = createApp(engine, { watchdogTimeout: 2000 });
  const first = app.request(path);
  await vi.advanceTimersByTimeAsync(500);
  await (await post(app, "/generate", { text: "ab" })).text();
  expect((await first).status).toBe(200);
  await vi.advanceTimersByTimeAsync(2000);
  let answered = 0;
  const second = Promise.resolve(app.request(path)).then(({ status }) => {
    answered = status;
  });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(answered).toBe(0);
  engine.stalledFor = 0.01;
  await vi.advanceTimersByTimeAsync(1000);
  await second;
  expect(answered).toBe(200);
});
