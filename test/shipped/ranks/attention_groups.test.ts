/**
 * The installed server whose ranks attend in two groups: who answers, with the bits of one rank, and what
 * it tells of each.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort, lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { adapterName, type ServingWisp, serveWisp, stopAll } from "../support/wisp.ts";

const COMMON = ["--adapter", adapterName(), "--max-total-tokens", "4096"];
const GROUPS = ["--tp", "2", "--dp", "2", "--enable-dp-attention"];
const lack = lackOfMpi();
tellLack(lack);

let alone: ServingWisp;
/** By where its ranks are. */
const servers = new Map<string, ServingWisp>();
const PLACES = ["one process", ...(lack === undefined ? ["two machines"] : [])];

beforeAll(async () => {
  const options = [
    ...COMMON,
    ...GROUPS,
    ...["--enable-dp-lm-head", "--moe-dense-tp-size", "1", "--max-running-requests", "6"],
    "--enable-two-batch-overlap",
    ...["--chunked-prefill-size", "64", "--speculative-algorithm", "EAGLE", "--enable-metrics"],
  ];
  alone = await serveWisp(COMMON);
  servers.set("one process", await serveWisp(options));
  if (lack !== undefined) return;
  const address = `127.0.0.1:${await freePort()}`;
  const nodes = [...options, "--nnodes", "2", "--dist-init-addr", address, "--node-rank"];
  const [first] = await Promise.all([
    serveWisp([...nodes, "0"]),
    serveWisp([...nodes, "1"], { listens: /Health of node 1 at (http:\/\/\S+);/ }),
  ]);
  servers.set("two machines", first!);
});
afterAll(stopAll);

async function generate(at: ServingWisp, body: object) {
  const response = await at.post("/generate", { return_logprob: true, ...body });
  expect(response.status).toBe(200);
  const { text, meta_info } = (await response.json()) as {
    readonly text: string;
    readonly meta_info: Readonly<Record<string, unknown>>;
  };
  return { text, logprobs: meta_info.output_token_logprobs, rank: meta_info.dp_rank };
}

test.each(PLACES)(
  "either group of %s gives the bits of one rank, and says which it is",
  async (place) => {
    const server = servers.get(place)!;
    const greedy = { temperature: 0, max_new_tokens: 16, ignore_eos: true };
    const sampled = { ...greedy, temperature: 0.9, sampling_seed: 3 };
    for (const sampling_params of [greedy, sampled, { ...greedy, regex: "[0-9]{3}( [a-z]{3})+" }]) {
      const body = { text: "The capital of Japan is", sampling_params };
      const { text, logprobs } = await generate(alone, body);
      const answers = await Promise.all([
        generate(server, { ...body, data_parallel_rank: 0 }),
        generate(server, { ...body, data_parallel_rank: 1 }),
      ]);
      expect(answers).toEqual([0, 1].map((rank) => ({ text, logprobs, rank })));
    }
  },
);

test.each(PLACES)("the server of %s tells of each group by its number", async (place) => {
  const server = servers.get(place)!;
  expect(server.output()).toMatch(
    /^Attention groups: 2, each of 1 of 2 ranks, attend to different requests with caches, weights of attention and output heads of their own and share experts, while each rank has all dense layers; /m,
  );
  expect(server.output()).toMatch(/^DP0 Steps: up to 32 prompt tokens/m);
  expect(server.output()).toMatch(/DP1 Prefill batch\./);
  const load = await (await server.get("/get_load")).json();
  const ofGroups = [0, 1].map((rank) => ({ dp_rank: rank, ranks: [{ tp_rank: rank }] }));
  expect(load).toMatchObject({ load: 0, loads: ofGroups });
  const info = await (await server.get("/get_server_info")).json();
  expect(info).toMatchObject({
    dp_size: 2,
    enable_dp_attention: true,
    enable_dp_lm_head: true,
    moe_dense_tp_size: 1,
    enable_two_batch_overlap: true,
    internal_states: ofGroups,
  });
  const metrics = await (await server.get("/metrics")).text();
  for (const rank of [0, 1]) {
    const labels = `tp_rank="${rank}",pp_rank="0",dp_rank="${rank}"`;
    expect(metrics).toMatch(new RegExp(`num_running_reqs\\{.*${labels}.*\\} 0`));
    expect(metrics).toMatch(new RegExp(`weight_bytes\\{.*${labels}.*\\} [1-9]`));
  }
});
