import { expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";
import { until } from "../../support/until.ts";

const path = "/flush_cache";

test.each(["GET", "POST"])("%s flushes an idle engine", async (method) => {
  const response = await createApp(new ScriptedEngine()).request(path, { method });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toMatch(/^text\/plain/);
  expect(await response.text()).toMatch(/^Cache flushed/);
});

test("a busy engine is left as it is, or waited for", async () => {
  const app = createApp(new ScriptedEngine());
  const sampling_params = { max_new_tokens: null, ignore_eos: true };
  const busy = await post(app, "/generate", { text: "ab", sampling_params, stream: true });
  const refused = await app.request(path);
  expect(refused.status).toBe(400);
  expect(await refused.text()).toMatch(/^Cache not flushed/);
  const late = await app.request(`${path}?timeout=0.01`);
  expect(late.status).toBe(400);
  const waiting = app.request(`${path}?timeout=30`);
  await busy.body!.cancel();
  expect((await waiting).status).toBe(200);
});

test("no more than 16 clients wait, and those that leave make room", async () => {
  const engine = new ScriptedEngine();
  const app = createApp(engine);
  const sampling_params = { max_new_tokens: null, ignore_eos: true };
  const busy = await post(app, "/generate", { text: "ab", sampling_params, stream: true });
  const leaving = new AbortController();
  const wait = (signal?: AbortSignal) =>
    app.request(`${path}?timeout=30`, signal ? { signal } : undefined);
  const first = Array.from({ length: 16 }, () => wait(leaving.signal));
  await until(() => expect(engine.flushes.length).toBeGreaterThan(16));
  const refused = await wait();
  expect(refused.status).toBe(503);
  expect(await errorMessage(refused)).toContain("all 16 are taken");
  leaving.abort();
  await Promise.all(first);
  const last = wait();
  await busy.body!.cancel();
  expect((await last).status).toBe(200);
});

test.each(["x", "-1", "", "NaN", "1e9"])("timeout=%s is refused", async (timeout) => {
  const response = await createApp(new ScriptedEngine()).request(`${path}?timeout=${timeout}`);
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toContain("timeout must be a number of seconds");
});

test("other methods are not allowed", async () => {
  const response = await createApp(new ScriptedEngine()).request(path, { method: "DELETE" });
  expect(response.status).toBe(405);
});
