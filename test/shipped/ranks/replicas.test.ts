/**
 * The installed server with two replicas of a model behind one port: who answers, with the same bits, and
 * what it tells of each.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../../support/until.ts";
import {
  adapterName,
  type EndedWisp,
  type ServingWisp,
  scratch,
  serveWisp,
  stopAll,
} from "../support/wisp.ts";

let server: ServingWisp;

beforeAll(async () => {
  server = await serveWisp([
    ...["--adapter", adapterName(), "--dp-size", "2", "--load-balance-method", "shortest_queue"],
    ...["--enable-metrics", "--log-requests", "--random-seed", "7", "--max-total-tokens", "4096"],
    ...["--profile-dir", scratch("profiles"), "--max-running-requests", "4"],
  ]);
});
afterAll(stopAll);

interface Answer {
  readonly text: string;
  readonly output_ids: readonly number[];
  readonly meta_info: Readonly<Record<string, unknown>>;
}

async function generate(body: object): Promise<Answer> {
  const response = await server.post("/generate", body);
  expect(response.status).toBe(200);
  return (await response.json()) as Answer;
}

const greedy = { temperature: 0, max_new_tokens: 12, ignore_eos: true };
const PROMPT = "The capital of Japan is";

test("either replica gives the same bits, and says which it is", async () => {
  const sampled = { ...greedy, temperature: 0.9, sampling_seed: 3 };
  for (const sampling_params of [greedy, sampled, { ...greedy, regex: "[0-9]{3}( [a-z]{3})+" }]) {
    const answers = await Promise.all(
      [0, 1].map((data_parallel_rank) =>
        generate({ text: PROMPT, sampling_params, data_parallel_rank, return_logprob: true }),
      ),
    );
    const [first, second] = answers as [Answer, Answer];
    expect([first.meta_info.dp_rank, second.meta_info.dp_rank]).toEqual([0, 1]);
    expect(first.output_ids).toEqual(second.output_ids);
    expect(first.meta_info.output_token_logprobs).toEqual(second.meta_info.output_token_logprobs);
  }
});

test("a batch is shared out, and requests without a seed draw apart", async () => {
  const response = await server.post("/generate", {
    text: Array(8).fill(PROMPT),
    sampling_params: { ...greedy, temperature: 2, max_new_tokens: 16 },
  });
  const answers = (await response.json()) as readonly Answer[];
  const ranks = answers.map(({ meta_info }) => meta_info.dp_rank);
  expect(ranks.filter((rank) => rank === 0)).toHaveLength(4);
  expect(ranks.filter((rank) => rank === 1)).toHaveLength(4);
  expect(new Set(answers.map(({ text }) => text)).size).toBe(8);
});

test("chats and completions name a replica, and none that is not there", async () => {
  const before = server.output().length;
  const messages = [{ role: "user", content: "Hello" }];
  const ranked = { data_parallel_rank: 1, max_tokens: 2 };
  const chat = await server.post("/v1/chat/completions", { messages, ...ranked });
  const completion = await server.post("/v1/completions", { prompt: "Hello", ...ranked });
  expect([chat.status, completion.status]).toEqual([200, 200]);
  await until(() => {
    const lines = server.output().slice(before);
    expect(lines.match(/Finish request\. rid: \S+, dp_rank: 1,/g)).toHaveLength(2);
    expect(lines).toMatch(/^\[[^\]]*\] DP1 Prefill batch\./m);
  });
  for (const data_parallel_rank of [2, -1]) {
    const refused = await server.post("/generate", { text: "a", data_parallel_rank });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain("data_parallel_rank must be");
  }
});

test("the server tells of each replica by its number", async () => {
  expect(server.output()).toMatch(/^DP0 Memory: /m);
  expect(server.output()).toMatch(/^DP1 Memory: /m);
  expect(server.output()).toMatch(/^Replicas: 2 answer different requests/m);
  const load = await (await server.get("/get_load")).json();
  expect(load).toMatchObject({ load: 0, num_reqs: 0, loads: [{ dp_rank: 0 }, { dp_rank: 1 }] });
  const info = await (await server.get("/get_server_info")).json();
  const state = (dp_rank: number) => ({
    dp_rank,
    healthy: true,
    last_gen_throughput: expect.any(Number),
    memory_usage: { token_capacity: 4096 },
  });
  expect(info).toMatchObject({
    dp_size: 2,
    load_balance_method: "shortest_queue",
    max_total_num_tokens: 4096,
    internal_states: [state(0), state(1)],
  });
  const page = await (await server.get("/metrics")).text();
  for (const rank of [0, 1]) {
    const labels = `engine_type="unified",tp_rank="0",pp_rank="0",dp_rank="${rank}"`;
    expect(page).toContain(`wisp:num_running_reqs{${labels},model_name="tiny-deepseek-v3"} 0\n`);
  }
  expect((await server.get("/health_generate")).status).toBe(200);
  expect((await server.post("/flush_cache", {})).status).toBe(200);
});

test("a profile has both, abort ends both, and the server ends in order", async () => {
  expect((await server.post("/start_profile", {})).status).toBe(200);
  const endless = { ...greedy, max_new_tokens: 2000 };
  const answers = ["x", "y"].map((rid, data_parallel_rank) =>
    generate({ text: PROMPT, rid, data_parallel_rank, sampling_params: endless }),
  );
  const running = async () => {
    const load = await (await server.get("/get_load")).json();
    expect(load).toMatchObject({ loads: [{ num_reqs: 1 }, { num_reqs: 1 }] });
  };
  await until(running);
  expect((await server.post("/stop_profile", {})).status).toBe(200);
  await server.sees(/Profile: .*\n\d+ steps, 2 ranks together; the adapter/);
  expect((await server.post("/abort_request", { abort_all: true })).status).toBe(200);
  for (const { meta_info } of await Promise.all(answers)) {
    expect(meta_info.finish_reason).toMatchObject({ type: "abort" });
  }
  const { code }: EndedWisp = await server.stop();
  expect(code).toBe(0);
});
