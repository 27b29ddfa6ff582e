/** Several answers to one prompt, over HTTP and with a real engine. */
import type { Hono } from "hono";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { createApp } from "../../../src/server/app.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { answer, type GenerateAnswer, post } from "../../support/server/http_client.ts";

let engine: Engine;
let app: Hono;

beforeAll(async () => {
  engine = await openEngine();
  app = createApp(engine);
});
afterAll(() => engine.close());

const ids = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 131 + i * 37) % 2000));

test("samples share the prompt, differ, and are those of their seeds", async () => {
  const sampling = { max_new_tokens: 8, ignore_eos: true, temperature: 1, sampling_seed: 9 };
  const body = { input_ids: [ids(1, 20), ids(2, 50)] };
  const response = await post(app, "/generate", {
    ...body,
    sampling_params: { ...sampling, n: 4 },
  });
  const answers = await answer<GenerateAnswer[]>(response);
  expect(answers.map(({ meta_info }) => meta_info.cached_tokens)).toEqual([
    0, 19, 19, 19, 0, 49, 49, 49,
  ]);
  const outputs = answers.map(({ output_ids }) => output_ids.join());
  expect(new Set(outputs).size).toBe(8);
  // The first sample is the answer to the same request without n.
  const alone = await post(app, "/generate", { ...body, sampling_params: sampling });
  const single = await answer<GenerateAnswer[]>(alone);
  expect(single.map(({ output_ids }) => output_ids.join())).toEqual([outputs[0], outputs[4]]);
  expect(engine.status()).toMatchObject({ usedTokens: 0, runningRequests: 0 });
});

test("a chat's choices share its prompt, and differ", async () => {
  await engine.flushCache();
  const messages = [{ role: "user", content: "Say something." }];
  const body = { messages, n: 3, seed: 4, temperature: 1.5, max_tokens: 12 };
  const response = await post(app, "/v1/chat/completions", body);
  const { choices, usage } = await answer<{
    choices: readonly { readonly index: number; readonly message: { readonly content: string } }[];
    usage: { readonly prompt_tokens: number; readonly completion_tokens: number };
  }>(response);
  expect(choices.map(({ index }) => index)).toEqual([0, 1, 2]);
  expect(new Set(choices.map(({ message }) => message.content)).size).toBeGreaterThan(1);
  expect(usage.prompt_tokens).toBeLessThan(20);
  expect(usage.completion_tokens).toBeGreaterThan(3);
});

test("samples whose prompts are scored compute them each, with the same numbers", async () => {
  await engine.flushCache();
  type Scored = GenerateAnswer & { meta_info: { input_token_logprobs: unknown } };
  const response = await post(app, "/generate", {
    input_ids: ids(3, 40),
    return_logprob: true,
    logprob_start_len: 0,
    sampling_params: { n: 3, max_new_tokens: 2 },
  });
  const [first, ...others] = await answer<Scored[]>(response);
  expect(others).toHaveLength(2);
  for (const { meta_info } of others) {
    expect(meta_info.cached_tokens).toBe(0);
    expect(meta_info.input_token_logprobs).toEqual(first!.meta_info.input_token_logprobs);
  }
});
