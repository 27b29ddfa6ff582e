/** What the server's page makes of the server's figures and errors, without a browser. */
import { expect, test } from "vitest";
import { explainServerError } from "../../examples/browser/served/explain_server_error.ts";
import { serverStatus, serverTotals } from "../../examples/browser/served/server_status.ts";
import { ServerError } from "../../src/client/server_error.ts";
import { PrometheusMetrics } from "../../src/node/observe/prometheus.ts";
import { StartTimes } from "../../src/node/serve/start_times.ts";
import { ReplicatedEngine } from "../../src/parallel/replicas/replicated_engine.ts";
import { createApp } from "../../src/server/app.ts";
import { ScriptedEngine } from "../support/engines/scripted_engine.ts";
import { answer, post } from "../support/server/http_client.ts";

test("the panel's figures are those of the server's endpoints", async () => {
  const engine = new ScriptedEngine({ script: () => ({ pieces: ["a", "b"] }) });
  const metrics = new PrometheusMetrics(engine, {
    modelName: "tiny",
    startTimes: new StartTimes(),
  });
  const app = createApp(engine, { metrics, observers: [metrics.observer] });
  const messages = [{ role: "user", content: "Hi" }];
  const { usage } = await answer<{ usage: Record<string, number> }>(
    await post(app, "/v1/chat/completions", { messages }),
  );
  const totals = serverTotals(await (await app.request("/metrics")).text());
  expect(totals).toEqual({
    requests: 1,
    promptTokens: usage.prompt_tokens,
    cachedTokens: 0,
    generatedTokens: usage.completion_tokens,
    firstTokenSeconds: expect.any(Number),
  });
  const status = engine.status();
  expect(serverStatus(await answer(await app.request("/get_server_info")))).toEqual({
    runningRequests: status.runningRequests,
    queuedRequests: status.queuedRequests,
    totalTokens: status.totalTokens,
    usedTokens: status.usedTokens,
    cachedTokens: status.cachedTokens,
    weightBytes: status.weightBytes,
    cacheBytes: status.cacheBytes,
    throughput: expect.any(Number),
    tokensPerStep: "1, no drafts",
  });
});

test("the panel adds up what replicas tell", async () => {
  const engines = [new ScriptedEngine(), new ScriptedEngine()];
  const status = engines[1]!.status();
  engines[1]!.status = () => ({ ...status, runningRequests: 2, usedTokens: 5 });
  const engine = new ReplicatedEngine(engines);
  const shown = serverStatus(await answer(await createApp(engine).request("/get_server_info")));
  expect(shown).toMatchObject({
    runningRequests: 2,
    usedTokens: 5,
    totalTokens: 2 * status.totalTokens,
    weightBytes: 2 * status.weightBytes,
  });
});

test("a server that drafts tells how far its steps go, once it has drafted", () => {
  const info = (state: object) => ({ speculative_algorithm: "NGRAM", internal_states: [state] });
  expect(serverStatus(info({})).tokensPerStep).toBe("–");
  expect(serverStatus(info({ avg_spec_accept_length: 2.5 })).tokensPerStep).toBe("2.50");
  expect(serverStatus("nothing")).toMatchObject({ runningRequests: 0, totalTokens: 0 });
});

test.each<[Error, RegExp | undefined]>([
  [new ServerError("Unauthorized: cannot POST", 401), /another key/],
  [new ServerError("pages of a may not use the server", 403), /--allowed-origins/],
  [new ServerError("the prompt is longer than the context", 400), /new chat/],
  [new ServerError("Cannot reach the server: Failed to fetch"), /whether it runs/],
  [new ServerError("temperature must be at least 0", 400), undefined],
  [new TypeError("a fault of the page"), undefined],
])("%s is told with advice where there is some", (error, advice) => {
  const { text, advice: told } = explainServerError(error);
  expect(text).toBe(error.message);
  if (advice === undefined) expect(told).toBeUndefined();
  else expect(told).toMatch(advice);
});
