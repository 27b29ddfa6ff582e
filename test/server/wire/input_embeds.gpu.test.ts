/** Embeddings as prompts, over HTTP and with a real engine. */
import type { Hono } from "hono";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { createApp } from "../../../src/server/app.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { EMBEDDED_MODEL, openEngine } from "../../support/engines/engine.ts";
import { readTokenTable } from "../../support/engines/token_table.ts";
import {
  answer,
  errorMessage,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";

type Scored = GenerateAnswer & {
  readonly meta_info: {
    readonly input_token_logprobs: readonly unknown[];
    readonly output_token_logprobs: readonly unknown[];
  };
};

let engine: Engine;
let app: Hono;
let rowOf: (token: number) => Float32Array;

beforeAll(async () => {
  engine = await openEngine();
  app = createApp(engine);
  rowOf = await readTokenTable(folderSource(EMBEDDED_MODEL));
});
afterAll(() => engine.close());

const ids = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 131 + i * 37) % 2000));
const rows = (tokens: readonly number[]) => tokens.map((token) => [...rowOf(token)]);
const sampling_params = { max_new_tokens: 5, ignore_eos: true, temperature: 0 };

async function generate<T>(body: object): Promise<T> {
  const response = await post(app, "/generate", { sampling_params, return_logprob: true, ...body });
  expect(response.status).toBe(200);
  return answer<T>(response);
}

test("one prompt and a batch answer as their tokens do, cached by content", async () => {
  const prompts = [ids(1, 13), ids(2, 6)];
  const single = await generate<Scored>({ input_embeds: rows(prompts[0]!) });
  const batch = await generate<Scored[]>({ input_embeds: prompts.map(rows) });
  const tokens = await generate<Scored[]>({ input_ids: prompts });
  expect(single.meta_info).toMatchObject({ prompt_tokens: 13, cached_tokens: 0 });
  expect(batch.map(({ meta_info }) => meta_info.prompt_tokens)).toEqual([13, 6]);
  expect(batch.map(({ meta_info }) => meta_info.cached_tokens)).toEqual([12, 0]);
  expect(tokens.map(({ meta_info }) => meta_info.cached_tokens)).toEqual([0, 0]);
  expect(single.meta_info.input_token_logprobs).toEqual([[null, null, null]]);
  const outputs = ({ text, output_ids, meta_info }: Scored) => [
    text,
    output_ids,
    meta_info.output_token_logprobs,
  ];
  expect(outputs(single)).toEqual(outputs(tokens[0]!));
  expect(batch.map(outputs)).toEqual(tokens.map(outputs));
  expect(engine.status()).toMatchObject({ usedTokens: 0, runningRequests: 0 });
});

test("samples of embeddings compute them once", async () => {
  const params = { ...sampling_params, n: 3, temperature: 1, sampling_seed: 3 };
  const answers = await generate<Scored[]>({
    input_embeds: rows(ids(3, 20)),
    sampling_params: params,
  });
  expect(answers.map(({ meta_info }) => meta_info.cached_tokens)).toEqual([0, 19, 19]);
});

test.each([
  [{ logprob_start_len: 0 }, 7],
  [{ logprob_start_len: 3 }, 4],
  [{}, 1],
])("embeddings have nulls, their completion has log-probabilities: %j", async (start, count) => {
  const wish = { top_logprobs_num: 2, token_ids_logprob: [9], return_text_in_logprobs: true };
  const body = { ...wish, ...start };
  const { meta_info } = await generate<Scored>({ input_embeds: rows(ids(4, 7)), ...body });
  const tokens = await generate<Scored>({ input_ids: ids(4, 7), ...body });
  expect(meta_info.prompt_tokens).toBe(7);
  expect(meta_info).toMatchObject({
    input_token_logprobs: new Array(count).fill([null, null, null]),
    input_top_logprobs: new Array(count).fill(null),
    input_token_ids_logprobs: new Array(count).fill(null),
  });
  expect(tokens.meta_info.input_token_logprobs).toHaveLength(count);
  const outputs = ({ meta_info: info }: Scored) =>
    Object.entries(info).filter(([name]) => name.startsWith("output_"));
  expect(outputs({ ...tokens, meta_info })).toEqual(outputs(tokens));
});

test("a start behind the last embedding is refused", async () => {
  const body = { input_embeds: rows([5, 6]), return_logprob: true, logprob_start_len: 2 };
  const response = await post(app, "/generate", body);
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toBe(
    "logprob_start_len must be -1 or a prompt position below 2, got 2",
  );
});
