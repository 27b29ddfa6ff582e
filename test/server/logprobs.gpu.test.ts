/** What holds of log-probabilities whatever the weights are, over HTTP and with a real engine. */
import type { Hono } from "hono";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { createApp } from "../../src/server/app.ts";
import { openEngine } from "../support/engine.ts";
import { answer, errorMessage, post } from "../support/http_client.ts";

type Triple = readonly [logprob: number | null, token: number, text: string | null];

interface Scored {
  readonly text: string;
  readonly output_ids: readonly number[];
  readonly meta_info: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly input_token_logprobs: readonly Triple[];
    readonly output_token_logprobs: readonly Triple[];
    readonly input_top_logprobs: readonly (readonly Triple[] | null)[];
    readonly output_top_logprobs: readonly (readonly Triple[])[];
    readonly output_token_ids_logprobs: readonly (readonly Triple[])[];
  };
}

let engine: Engine;
let app: Hono;

beforeAll(async () => {
  engine = await openEngine();
  app = createApp(engine);
});
afterAll(() => engine.close());

const ids = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 131 + i * 37) % 2000));

const generate = async <T = Scored>(body: object) =>
  answer<T>(await post(app, "/generate", { return_logprob: true, ...body }));

test("lists are as long as what they tell about, in a batch of lengths and starts", async () => {
  const starts = [0, 3, 10, -1];
  const input_ids = starts.map((_, i) => ids(i, 11 + i));
  const answers = await generate<Scored[]>({
    input_ids,
    logprob_start_len: starts,
    top_logprobs_num: 5,
    sampling_params: { max_new_tokens: 6, ignore_eos: true, temperature: 0 },
  });
  answers.forEach(({ meta_info }, i) => {
    const start = starts[i]! < 0 ? meta_info.prompt_tokens - 1 : starts[i]!;
    expect(meta_info.prompt_tokens).toBe(11 + i);
    expect(meta_info.completion_tokens).toBe(6);
    expect(meta_info.input_token_logprobs.length + start).toBe(meta_info.prompt_tokens);
    expect(meta_info.input_token_logprobs.map(([, token]) => token)).toEqual(
      input_ids[i]!.slice(start),
    );
    expect(meta_info.input_token_logprobs[0]![0]).toBeNull();
    expect(meta_info.input_top_logprobs[0]).toBeNull();
    expect(meta_info.input_top_logprobs).toHaveLength(meta_info.input_token_logprobs.length);
    expect(meta_info.output_token_logprobs).toHaveLength(6);
    meta_info.output_top_logprobs.forEach((list, j) => {
      expect(list).toHaveLength(5);
      // Greedy: the token is the first of the likeliest, as a whole.
      expect(meta_info.output_token_logprobs[j]).toEqual(list[0]);
    });
  });
});

test("an answer scored as a prompt has the log-probabilities it was generated with", async () => {
  const prompt = ids(7, 20);
  const first = await generate({
    input_ids: prompt,
    sampling_params: { max_new_tokens: 64, ignore_eos: true, temperature: 1, sampling_seed: 3 },
  });
  const again = await generate({
    input_ids: [...prompt, ...first.output_ids],
    logprob_start_len: 0,
    sampling_params: { max_new_tokens: 0, temperature: 0 },
  });
  expect(again.meta_info.completion_tokens).toBe(1);
  const rescored = again.meta_info.input_token_logprobs.slice(20);
  const apart = rescored.map(([value], i) =>
    Math.abs(value! - first.meta_info.output_token_logprobs[i]![0]!),
  );
  expect(apart).toHaveLength(64);
  // Prompt rows and generated rows run different forms of attention over rounded entries.
  expect(Math.max(...apart)).toBeLessThan(0.35);
  expect(apart.sort((a, b) => a - b)[32]).toBeLessThan(0.02);
});

test("a scoring call reads given tokens from its one completion token", async () => {
  const { meta_info } = await generate({
    text: "The capital of Japan is",
    token_ids_logprob: [5, 9],
    return_text_in_logprobs: true,
    sampling_params: { max_new_tokens: 0, temperature: 0 },
  });
  const [given] = meta_info.output_token_ids_logprobs;
  expect(given!.map(([, token]) => token)).toEqual([5, 9]);
  for (const [logprob, , text] of given!) {
    expect(logprob).toBeLessThan(0);
    expect(typeof text).toBe("string");
  }
});

test("a bias forces its token, forbids it, and stays with its request", async () => {
  const greedy = { max_new_tokens: 4, ignore_eos: true, temperature: 0 };
  const [plain, forced, forbidden] = await generate<Scored[]>({
    input_ids: [ids(1, 9), ids(1, 9), ids(1, 9)],
    sampling_params: [
      greedy,
      { ...greedy, logit_bias: { "77": 1e9 } },
      { ...greedy, logit_bias: { "77": 1e9, "78": 1e10, "79": -1e10 }, min_p: 0.5 },
    ],
  });
  expect(forced!.output_ids).toEqual([77, 77, 77, 77]);
  expect(forbidden!.output_ids).toEqual([78, 78, 78, 78]);
  const alone = await generate({ input_ids: ids(1, 9), sampling_params: greedy });
  expect(plain!.output_ids).toEqual(alone.output_ids);
});

test.each([
  [{ logprob_start_len: 5 }, "logprob_start_len must be -1 or a prompt position below 5, got 5"],
  [
    { sampling_params: { min_new_tokens: 5000, max_new_tokens: null } },
    "sampling_params.min_new_tokens must be 0 or below max_new_tokens (2043), got 5000",
  ],
])("%j is refused by its own name", async (fields, message) => {
  const response = await post(app, "/generate", {
    input_ids: ids(1, 5),
    return_logprob: true,
    ...fields,
  });
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toBe(message);
});
