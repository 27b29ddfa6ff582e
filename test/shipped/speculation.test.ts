/**
 * Speculation with the installed program and the embedded model, which has a draft layer: the same
 * answers in fewer steps, and what clients and operators are told of them.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import type { Answer } from "./support/server.ts";
import { adapterName, type ServingWisp, serveWisp, stopAll, wisp } from "./support/wisp.ts";

const SHARED = ["--adapter", adapterName(), "--random-seed", "7", "--max-total-tokens", "4096"];
const DRAFTED = [
  "--decode-log-interval",
  "1",
  "--enable-metrics",
  "--enable-deterministic-inference",
];
/** Whether drafts pay or not. */
const ALWAYS = ["--speculative-adaptive", "off"];
const TREE = [
  ...["--speculative-num-steps", "3", "--speculative-eagle-topk", "2"],
  ...["--speculative-num-draft-tokens", "6"],
];
const TREES_ON_RANKS = "STANDALONE, trees on two ranks";
const PROMPTS = [
  "Repeat after me: apple river zobrax apple river zobrax apple river zobrax",
  "Who are you?",
];

let plain: ServingWisp;
let servers: Readonly<Record<string, ServingWisp>>;

beforeAll(async () => {
  const start = (...args: string[]) => serveWisp([...SHARED, ...DRAFTED, ...args]);
  const model = [
    ...["--speculative-algorithm", "STANDALONE"],
    ...["--speculative-draft-model-path", EMBEDDED_MODEL, ...ALWAYS],
  ];
  const [without, ngram, eagle, standalone, trees] = await Promise.all([
    start(),
    start("--speculative-algorithm", "NGRAM", ...ALWAYS),
    start("--speculative-algorithm", "EAGLE", ...ALWAYS),
    start(...model),
    start("--tp-size", "2", ...model, ...TREE),
  ]);
  plain = without;
  servers = { NGRAM: ngram, EAGLE: eagle, STANDALONE: standalone, [TREES_ON_RANKS]: trees };
});

afterAll(stopAll);

async function answers(server: ServingWisp, temperature: number): Promise<readonly Answer[]> {
  const sampling_params = { temperature, max_new_tokens: 48, ignore_eos: true };
  const body = { text: PROMPTS, sampling_params, return_logprob: true };
  const response = await server.post("/generate", body);
  expect(response.status).toBe(200);
  return (await response.json()) as readonly Answer[];
}

const told = ({ text, output_ids, meta_info }: Answer) => ({
  text,
  output_ids,
  logprobs: meta_info.output_token_logprobs,
});

describe.each([
  ["NGRAM", 11],
  ["EAGLE", 3],
  ["STANDALONE", 3],
  [TREES_ON_RANKS, 5],
] as const)("%s", (name, most) => {
  const algorithm = name.split(",")[0]!;

  test("answers are those without drafts, and say how many drafts were right", async () => {
    const server = servers[name]!;
    const [wanted, got] = [await answers(plain, 0), await answers(server, 0)];
    expect(got.map(told)).toEqual(wanted.map(told));
    for (const { meta_info } of wanted) expect(meta_info).not.toHaveProperty("spec_verify_ct");
    for (const { meta_info } of got) {
      const { spec_verify_ct: steps, spec_num_correct_drafts: correct } = meta_info;
      const { spec_num_proposed_drafts: proposed, completion_tokens } = meta_info;
      expect(correct).toBeGreaterThan(0);
      expect(steps! + correct!).toBe(completion_tokens - 1);
      expect(meta_info.spec_accept_length).toBeCloseTo(1 + correct! / steps!);
      expect(meta_info.spec_accept_rate).toBeCloseTo(correct! / proposed!);
    }
  });

  test("sampled answers are those of their seeds", async () => {
    const sampling_params = { temperature: 1.5, max_new_tokens: 32, sampling_seed: 11 };
    const ask = async (server: ServingWisp) => {
      const response = await server.post("/generate", { text: PROMPTS[1], sampling_params });
      expect(response.status).toBe(200);
      return told((await response.json()) as Answer);
    };
    expect(await ask(servers[name]!)).toEqual(await ask(plain));
  });

  test("the log, the metrics and the server's information tell of it", async () => {
    const server = servers[name]!;
    await server.sees(/Decode batch\..* accept len: [\d.]+, gen throughput/);
    expect(plain.output()).not.toContain("accept len");
    expect(server.output()).toContain(
      `Speculation: ${algorithm}, up to ${most} drafts of a request in a step`,
    );
    const info = (await (await server.get("/get_server_info")).json()) as {
      readonly speculative_algorithm: string;
      readonly internal_states: readonly [{ readonly avg_spec_accept_length: number }];
    };
    expect(info.speculative_algorithm).toBe(algorithm);
    expect(info.internal_states[0].avg_spec_accept_length).toBeGreaterThan(1);
    const page = await (await server.get("/metrics")).text();
    const gauge = /^wisp:spec_accept_length\S* ([\d.]+)/m.exec(page)![1];
    expect(Number(gauge)).toBeGreaterThan(1);
  });
});

test("a start says what the model that drafts takes", () => {
  expect(servers.STANDALONE!.output()).toMatch(
    /Draft model: \S+tiny-deepseek-v3, [\d.]+ MiB of the weights and [\d.]+ MiB of the KV cache/,
  );
});

describe.concurrent("what is not done yet ends the start, with the option and what is done", () => {
  test.for<[string, readonly string[], string]>([
    [
      "a tree that is too deep",
      [
        ...["--speculative-algorithm", "EAGLE", "--speculative-num-steps", "17"],
        ...["--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "6"],
      ],
      "Cannot use option --speculative-num-steps 17: with a top-k above 1, 16 are the most",
    ],
    [
      "a model in place of a draft head",
      ["--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", EMBEDDED_MODEL],
      `Cannot use option --speculative-draft-model-path ${EMBEDDED_MODEL}: its architecture is DeepseekV3ForCausalLM`,
    ],
    [
      "an attention backend without drafts",
      ["--speculative-algorithm", "EAGLE", "--attention-backend", "cutlass_mla"],
      "Cannot use speculative decoding: it does not go with attention backend cutlass_mla",
    ],
  ])("%s", async ([, args, message], { expect }) => {
    const { code, stdout, stderr } = await wisp(["launch_server", "--port", "0", ...args]);
    expect([code, stdout + stderr]).toEqual([2, expect.stringContaining(message)]);
  });
});
