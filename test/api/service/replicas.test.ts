/** A server of several replicas: requests that name one, and what the server tells of each. */
import { describe, expect, test } from "vitest";
import { ReplicatedEngine } from "../../../src/parallel/replicas/replicated_engine.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage, events, post } from "../../support/server/http_client.ts";

const GENERATE = "/generate";
const BODIES: readonly (readonly [string, object])[] = [
  [GENERATE, { text: "a" }],
  ["/v1/chat/completions", { messages: [{ role: "user", content: "a" }] }],
  ["/v1/completions", { prompt: "a" }],
];

function setUp() {
  const script = () => ({ pieces: ["a", "b"] });
  const engines = [new ScriptedEngine({ script }), new ScriptedEngine({ script })];
  return { engines, app: createApp(new ReplicatedEngine(engines)) };
}

interface Generated {
  readonly meta_info: { readonly dp_rank?: number };
}

describe.each(BODIES)("%s", (path, body) => {
  test("goes to the replica that it names, by either name", async () => {
    const { app, engines } = setUp();
    for (const names of [
      { data_parallel_rank: 1 },
      { routed_dp_rank: 1 },
      { data_parallel_rank: 1, routed_dp_rank: 1 },
    ]) {
      expect((await post(app, path, { ...body, ...names })).status).toBe(200);
    }
    expect(engines.map(({ requests }) => requests.length)).toEqual([0, 3]);
    expect((await post(app, path, { ...body, data_parallel_rank: null })).status).toBe(200);
    expect(engines.map(({ requests }) => requests.length)).toEqual([1, 3]);
  });

  test.each([
    [{ data_parallel_rank: 2 }, "data_parallel_rank must be less than dp_size: 2"],
    [{ data_parallel_rank: -1 }, "data_parallel_rank must be non-negative"],
    [{ routed_dp_rank: 5 }, "routed_dp_rank must be less than dp_size: 2"],
    [{ data_parallel_rank: 0, routed_dp_rank: 1 }, "both name the replica"],
    [{ data_parallel_rank: "1" }, "data_parallel_rank must be an integer"],
  ])("refuses %j", async (fields, message) => {
    const { app, engines } = setUp();
    const response = await post(app, path, { ...body, ...fields });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
    expect(engines.flatMap(({ requests }) => requests)).toEqual([]);
  });

  test("takes the only one where there is one, and refuses others", async () => {
    const app = createApp(new ScriptedEngine());
    expect((await post(app, path, { ...body, data_parallel_rank: 0 })).status).toBe(200);
    const response = await post(app, path, { ...body, data_parallel_rank: 1 });
    expect(await errorMessage(response)).toContain("must be less than dp_size: 1");
  });
});

test("answers name their replica, items of a batch each its own", async () => {
  const { app } = setUp();
  const batch = await post(app, GENERATE, { text: ["a", "b", "c"] });
  const items = (await batch.json()) as readonly Generated[];
  expect(items.map(({ meta_info }) => meta_info.dp_rank)).toEqual([0, 1, 0]);
  const stream = await post(app, GENERATE, { text: "a", stream: true });
  const sent = await events<Generated>(stream);
  expect(sent.length).toBeGreaterThan(1);
  for (const { meta_info } of sent) expect(meta_info.dp_rank).toBe(1);
  const alone = await post(createApp(new ScriptedEngine()), GENERATE, { text: "a" });
  expect(((await alone.json()) as Generated).meta_info).not.toHaveProperty("dp_rank");
});

test("/get_load and /get_server_info tell of each, in order, and of all together", async () => {
  const { app, engines } = setUp();
  const idle = { load: 0, num_reqs: 0, num_waiting_reqs: 0, num_tokens: 0 };
  const status = engines[1]!.status();
  engines[1]!.status = () => ({ ...status, usedTokens: 6, queuedTokens: 3, queuedRequests: 2 });
  const busy = { load: 9, num_reqs: 2, num_waiting_reqs: 2, num_tokens: 6 };
  const load = await (await app.request("/get_load")).json();
  expect(load).toEqual({
    ...busy,
    loads: [
      { dp_rank: 0, ...idle },
      { dp_rank: 1, ...busy },
    ],
  });
  await post(app, GENERATE, { text: "a", data_parallel_rank: 1 });
  const info = (await (await app.request("/get_server_info")).json()) as {
    readonly max_total_num_tokens: number;
    readonly internal_states: readonly Readonly<Record<string, unknown>>[];
  };
  expect(info.max_total_num_tokens).toBe(65536);
  expect(info.internal_states).toMatchObject([
    { dp_rank: 0, load: 0, memory_usage: { token_capacity: 65536 } },
    { dp_rank: 1, load: 9, num_waiting_reqs: 2 },
  ]);
});

test("/health is as well as one replica is", async () => {
  const { app, engines } = setUp();
  const status = engines[0]!.status();
  engines[0]!.status = () => ({ ...status, healthy: false });
  expect((await app.request("/health")).status).toBe(200);
  expect((await app.request("/health_generate")).status).toBe(200);
  expect(engines.map(({ requests }) => requests.length)).toEqual([0, 1]);
  engines[1]!.status = () => ({ ...status, stalledFor: 1000 });
  expect((await app.request("/health")).status).toBe(503);
});
