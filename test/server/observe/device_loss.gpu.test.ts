/** What clients of a server see while its device is lost and replaced: a pause, unless they cause it. */
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { Logger } from "../../../src/node/observe/logger.ts";
import { PrometheusMetrics } from "../../../src/node/observe/prometheus.ts";
import { requestLog } from "../../../src/node/observe/request_log.ts";
import { serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import {
  type LosingEngine,
  loseWithSteps,
  openLosingEngine,
} from "../../support/engines/losing_engine.ts";
import { until } from "../../support/until.ts";

/** A token that only the prompt has that is to lose devices. */
const MARK = 2047;

let losing: LosingEngine;
/** Of the log. */
const lines: string[] = [];
let server: Awaited<ReturnType<typeof serve>>;
beforeAll(async () => {
  if (smallestCaseOnly) return;
  losing = await openLosingEngine({ maxTotalTokens: 512 });
  const metrics = new PrometheusMetrics(losing.engine, { modelName: "m" });
  const log = new Logger({ stderr: { write: (line) => lines.push(line) }, format: "json" });
  const observers = [metrics.observer, requestLog(log, { level: "info", detail: 0 })];
  const app = createApp(losing.engine, { metrics, observers });
  server = await serve(app, { host: "127.0.0.1", port: 0 });
});
afterAll(async () => {
  await server?.close();
  await losing?.engine.close();
});
afterEach(() => {
  vi.restoreAllMocks();
});

const post = (body: object) =>
  fetch(`${server.url}/generate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

test.skipIf(smallestCaseOnly)("a stream goes on, and health checks stay good", async () => {
  const { engine, lose } = losing;
  const sampling_params = { max_new_tokens: 60, ignore_eos: true, temperature: 0 };
  const request = { text: "Once upon", sampling_params };
  const { text: want } = (await (await post(request)).json()) as { text: string };

  const reader = (await post({ ...request, stream: true })).body!.getReader();
  const decoder = new TextDecoder();
  let stream = decoder.decode((await reader.read()).value, { stream: true });
  lose();
  await until(() => expect(engine.status().recovering).toBe(true));
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
  const late = post(request);
  expect((await fetch(`${server.url}/health_generate`)).status).toBe(200);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    stream += decoder.decode(value, { stream: true });
  }
  const events = stream.split("\n\n").filter((line) => line.startsWith("data: {"));
  expect(events).toHaveLength(60);
  expect(JSON.parse(events.at(-1)!.slice(6))).toMatchObject({ text: want });
  expect(await (await late).json()).toMatchObject({ text: want });
  const info = (await (await fetch(`${server.url}/get_server_info`)).json()) as object;
  expect(info).toMatchObject({ internal_states: [{ recovering: false, num_recoveries: 1 }] });
  const recovered = /^wisp:total_device_recoveries\{[^}]*\} 1$/m;
  expect(await (await fetch(`${server.url}/metrics`)).text()).toMatch(recovered);
});

test.skipIf(smallestCaseOnly)(
  "a request that loses every device is answered 500, and no other notices",
  async () => {
    const { engine, events } = losing;
    const sampling_params = { max_new_tokens: 12, ignore_eos: true, temperature: 0 };
    const good = { text: "Once upon", sampling_params };
    const bad = { ...good, rid: "bad", text: undefined, input_ids: [9, 8, MARK, 7] };
    const { text: want } = (await (await post(good)).json()) as { text: string };
    const [began, { recoveries }] = [events.length, engine.status()];

    loseWithSteps(losing, ({ sources }) => sources.includes(MARK));
    const [answer, refused] = await Promise.all([post(good), post(bad)]);
    expect([answer.status, await answer.json()]).toMatchObject([200, { text: want }]);
    expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([500, "false"]);
    const message =
      "Cannot go on with request bad: the device was lost 3 times while its rows were computed, at last while only its rows were";
    const error = { message, code: "request_loses_device" };
    expect(await refused.json()).toMatchObject({ message, code: 500, error });
    await until(() => expect(engine.status()).toMatchObject({ recoveries: recoveries + 3 }));
    const told = events
      .slice(began)
      .filter(({ kind }) => kind !== "started" && kind !== "finished");
    expect(told).toEqual([
      { kind: "searching", suspects: expect.any(Number) },
      { kind: "found", requestId: "bad", losses: 3 },
    ]);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    const entry = { event: "request_failed", rid: "bad", error: "request_loses_device" };
    expect(lines.map((line) => JSON.parse(line))).toContainEqual(expect.objectContaining(entry));
    const failed = /^wisp:num_failed_requests_total\{[^}]*code="request_loses_device"[^}]*\} 1$/m;
    expect(await (await fetch(`${server.url}/metrics`)).text()).toMatch(failed);
  },
);
