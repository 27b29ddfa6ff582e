/** Several answers to one prompt, over HTTP and with a real engine. */
import type { Hono } from "hono";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { createApp } from "../../src/server/app.ts";
import { openEngine } from "../support/engine.ts";
import { answer, type GenerateAnswer, post } from "../support/http_client.ts";

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
