/** Log-probabilities over HTTP, with a real engine and a trained model behind it. */
import type { Hono } from "hono";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { createApp } from "../../../src/server/app.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { answer, errorMessage, post } from "../../support/server/http_client.ts";

type Triple = readonly [logprob: number | null, token: number, text: string | null];

interface Scored {
  readonly output_ids: readonly number[];
  readonly meta_info: {
    readonly completion_tokens: number;
    readonly input_token_logprobs: readonly Triple[];
    readonly output_token_logprobs: readonly Triple[];
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
  // Measured: at most 0.051, half of them below 1e-6.
  expect(Math.max(...apart)).toBeLessThan(0.15);
  expect(apart.sort((a, b) => a - b)[32]).toBeLessThan(1e-4);
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

test("biases as far apart as there are numbers leave every log-probability a number", async () => {
  const most = 3.4028234663852886e38;
  const sampling = { max_new_tokens: 2, logit_bias: { "77": most, "78": -most } };
  for (const temperature of [0, 1, 0.5]) {
    const { output_ids, meta_info } = await generate({
      input_ids: ids(1, 9),
      token_ids_logprob: [77, 78, 79],
      sampling_params: { ...sampling, temperature },
    });
    expect(output_ids).toEqual([77, 77]);
    for (const given of meta_info.output_token_ids_logprobs) {
      expect(given.map(([logprob]) => logprob)).toEqual([0, -most, -most]);
    }
  }
});

test.each([
  [{ logprob_start_len: 5 }, "logprob_start_len must be -1 or a prompt position below 5, got 5"],
  [
    { sampling_params: { min_new_tokens: 5000, max_new_tokens: null } },
    "sampling_params.min_new_tokens must be 0 or below sampling_params.max_new_tokens (2043), got 5000",
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
