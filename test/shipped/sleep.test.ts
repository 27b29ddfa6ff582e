/** The installed server with `--sleep-idle-seconds`: the model leaves the device, and comes back. */
import { afterAll, expect, test } from "vitest";
import { until } from "../support/until.ts";
import { type ServingWisp, serveWisp, stopAll, wisp } from "./support/wisp.ts";

afterAll(stopAll);

const body = {
  text: "The capital of Japan is",
  sampling_params: { temperature: 0, max_new_tokens: 8 },
};

async function textOf(server: ServingWisp): Promise<string> {
  const answer = await server.post("/generate", body);
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { text: string }).text;
}

async function stateOf(server: ServingWisp) {
  const info = await (await server.get("/get_server_info")).json();
  const [state] = (info as { internal_states: [Record<string, unknown>] }).internal_states;
  const metrics = await (await server.get("/metrics")).text();
  const health = await server.get("/health");
  return {
    sleep: state.sleep,
    weights: (state.memory_usage as { weight_bytes: number }).weight_bytes,
    asleep: /^wisp:engine_asleep\{.*\} (\d)$/m.exec(metrics)![1],
    health: [health.status, health.headers.get("x-engine-state")],
  };
}

test("a server sleeps, tells so, and answers the same when it is asked again", async () => {
  const server = await serveWisp(["--sleep-idle-seconds", "1", "--enable-metrics"]);
  const before = await textOf(server);
  const awake = await stateOf(server);
  expect(awake).toMatchObject({ asleep: "0", health: [200, null] });
  expect(awake.weights).toBeGreaterThan(1e6);
  await server.sees(/No request for 1 seconds: the model leaves the device/);
  expect(await stateOf(server)).toEqual({
    sleep: "asleep",
    weights: 0,
    asleep: "1",
    health: [200, "asleep"],
  });
  // Several at once have one load.
  const abort = new AbortController();
  const left = fetch(`${server.url}/generate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: abort.signal,
  });
  const refused = expect(left).rejects.toThrow();
  const answers = Promise.all([textOf(server), textOf(server), textOf(server)]);
  await until(async () => expect((await stateOf(server)).sleep).toBe("waking"));
  abort.abort();
  await refused;
  expect(await answers).toEqual([before, before, before]);
  expect(server.output().match(/The model is back on the device after/g)).toHaveLength(1);
  expect((await stateOf(server)).weights).toBe(awake.weights);
  expect((await server.stop()).code).toBe(0);
});

test("a profile of all kernels cannot sleep", async () => {
  const args = ["launch_server", "--sleep-idle-seconds", "5", "--profile-kernels"];
  const { code, stderr } = await wisp(args);
  expect(code).toBe(2);
  expect(stderr).toContain(
    "Cannot use option --profile-kernels together with --sleep-idle-seconds",
  );
});
