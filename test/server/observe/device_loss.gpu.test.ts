/** What clients of a server see while its device is lost and replaced: a pause. */
import { expect, test } from "vitest";
import { PrometheusMetrics } from "../../../src/node/observe/prometheus.ts";
import { serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openLosingEngine } from "../../support/engines/losing_engine.ts";
import { until } from "../../support/until.ts";

test.skipIf(smallestCaseOnly)("a stream goes on, and health checks stay good", async () => {
  const { engine, lose } = await openLosingEngine({ maxTotalTokens: 512 });
  const metrics = new PrometheusMetrics(engine, { modelName: "m" });
  const server = await serve(createApp(engine, { metrics }), { host: "127.0.0.1", port: 0 });
  const post = (body: object) =>
    fetch(`${server.url}/generate`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
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
  await server.close();
  await engine.close();
});
