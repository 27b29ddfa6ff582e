/** Endpoints whose answers only a real engine can give: aborts, tokens, completions, forms of answers. */
import type { Hono } from "hono";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { createApp } from "../../../src/server/app.ts";
import { complete, openEngine } from "../../support/engines/engine.ts";
import {
  answer,
  errorMessage,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";
import { until } from "../../support/until.ts";

let engine: Engine;
let app: Hono;
let client: OpenAI;

beforeAll(async () => {
  engine = await openEngine({ maxRunningRequests: 4 });
  app = createApp(engine, { cacheReport: true });
  const fetch = async (input: unknown, init?: RequestInit) => app.request(input as string, init);
  client = new OpenAI({ baseURL: "http://wisp.test/v1", apiKey: "none", maxRetries: 0, fetch });
});
afterAll(() => engine.close());

const QUESTION = [{ role: "user" as const, content: "What is the capital of Japan?" }];
const ANSWER = "The capital of Japan is Tokyo.";

test("special tokens that follow each other have no space between, whatever spaces_between_special_tokens is", async () => {
  const mark = "<｜begin▁of▁sentence｜>";
  const [token] = await engine.tokenize({ prompt: mark, addSpecialTokens: false });
  const texts = [undefined, true, false].map(async (spaces_between_special_tokens) => {
    const sampling_params = {
      max_new_tokens: 3,
      ignore_eos: true,
      logit_bias: { [token!]: 1e9 },
      skip_special_tokens: false,
      spaces_between_special_tokens,
    };
    return (
      await answer<GenerateAnswer>(await post(app, "/generate", { text: "A", sampling_params }))
    ).text;
  });
  expect(await Promise.all(texts)).toEqual(Array(3).fill(mark.repeat(3)));
});

describe("abort", () => {
  test("abort_all ends running and waiting requests, each with status 200", async () => {
    const sampling_params = { max_new_tokens: 1500, ignore_eos: true };
    const responses = Array.from({ length: 32 }, (_, i) =>
      post(app, "/generate", { text: `Number ${i}`, sampling_params }),
    );
    const { status } = engine;
    await until(() => expect(status.call(engine).runningRequests === 4).toBe(true));
    await until(() => expect(engine.status().usedTokens > 40).toBe(true));
    await post(app, "/abort_request", { abort_all: true });
    const answers = await Promise.all(
      responses.map(async (response) => {
        expect((await response).status).toBe(200);
        return answer<GenerateAnswer>(await response);
      }),
    );
    const messages = answers.map(({ meta_info }) => meta_info.finish_reason!.message);
    expect(answers.every(({ meta_info }) => meta_info.finish_reason!.type === "abort")).toBe(true);
    expect(messages.filter((message) => message === "Aborted")).toHaveLength(4);
    expect(messages.filter((message) => message === "Abort before prefill")).toHaveLength(28);
    await until(() => expect(engine.status().runningRequests === 0).toBe(true));
    expect(engine.status()).toMatchObject({ queuedRequests: 0, queuedTokens: 0, usedTokens: 0 });
  });

  test("the requests that stay are as they would be alone", async () => {
    const sampling = { temperature: 0, maxNewTokens: 24, ignoreEos: true };
    const alone = await complete(engine, { prompt: "Once upon a time", sampling });
    const kept = complete(engine, { prompt: "Once upon a time", sampling });
    const other = complete(engine, { prompt: "There was", requestId: "other", sampling });
    await until(() => expect(engine.status().runningRequests === 2).toBe(true));
    engine.abort("other");
    expect((await other).last.finish).toMatchObject({ type: "abort" });
    expect((await kept).tokens).toEqual(alone.tokens);
  });

  test("text that might have become a stop string is given", async () => {
    const sampling = { temperature: 0, maxNewTokens: 1000, stop: `${ANSWER.slice(0, 20)}!` };
    let text = "";
    const tokens: number[] = [];
    for await (const chunk of engine.generate({ messages: QUESTION, sampling, requestId: "r" })) {
      text += chunk.text;
      tokens.push(...chunk.tokens);
      if (chunk.tokens.length > 0 && tokens.length === 2) {
        expect(text).toBe("");
        engine.abort("r");
      }
    }
    expect(text.length).toBeGreaterThan(0);
    expect(ANSWER.startsWith(text)).toBe(true);
  });

  test("a request that waits for its grammar ends before it begins", async () => {
    const sampling = { regex: "[a-z]{3,9}( [a-z]{3,9}){20}" };
    const stream = engine.generate({ prompt: "a", sampling, requestId: "r" });
    const first = stream.next();
    engine.abort("r");
    expect((await first).value).toMatchObject({
      tokens: [],
      finish: { type: "abort", message: "Abort before prefill" },
    });
    expect((await stream.next()).done).toBe(true);
    expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0 });
  });
});

describe("tokens", () => {
  test("a text has those that its prompt has", async () => {
    const prompt = "Hello world, здравствуй 世界";
    const { tokens, count } = await answer<{ tokens: number[]; count: number }>(
      await post(app, "/tokenize", { prompt }),
    );
    expect(count).toBe(tokens.length);
    const sampling_params = { max_new_tokens: 1, temperature: 0 };
    const generated = await post(app, "/generate", { text: prompt, sampling_params });
    const { meta_info } = await answer<GenerateAnswer>(generated);
    expect(meta_info.prompt_tokens).toBe(count);
    const back = await answer(await post(app, "/detokenize", { tokens }));
    expect(back).toEqual({ text: prompt });
  });

  test("special tokens come and go as they are asked for", async () => {
    const read = async (path: string, body: object) =>
      answer<{ tokens: number[]; text: string }>(await post(app, path, body));
    const { tokens } = await read("/tokenize", { prompt: "Hello" });
    const bare = await read("/tokenize", { prompt: "Hello", add_special_tokens: false });
    expect(bare.tokens).toEqual(tokens.slice(1));
    const shown = await read("/detokenize", { tokens, skip_special_tokens: false });
    expect(shown.text).not.toBe("Hello");
    expect(shown.text.endsWith("Hello")).toBe(true);
    expect((await read("/detokenize", { tokens })).text).toBe("Hello");
  });

  test("a conversation has those of its chat", async () => {
    const { count } = await answer<{ count: number }>(
      await post(app, "/tokenize", { messages: QUESTION }),
    );
    const { usage } = await client.chat.completions.create({
      model: "any",
      messages: QUESTION,
      max_tokens: 1,
    });
    expect(usage!.prompt_tokens).toBe(count);
  });
});

describe("the openai client", () => {
  test("gets completions of texts and of tokens, with usage and cached tokens", async () => {
    const { tokens } = await answer<{ tokens: number[] }>(
      await post(app, "/tokenize", { prompt: "The capital of" }),
    );
    const request = { model: "any", temperature: 0, max_tokens: 6, n: 2 };
    const texts = await client.completions.create({ ...request, prompt: ["The capital of"] });
    const ids = await client.completions.create({ ...request, prompt: [tokens] });
    expect(texts.choices).toHaveLength(2);
    expect(ids.choices.map(({ text }) => text)).toEqual(texts.choices.map(({ text }) => text));
    expect(ids.usage).toMatchObject({
      prompt_tokens: tokens.length,
      completion_tokens: 12,
      prompt_tokens_details: { cached_tokens: tokens.length - 1 },
    });
  });

  test("streams a completion that begins with its prompt", async () => {
    const prompt = "The capital of";
    const request = { model: "any", prompt, echo: true, temperature: 0, max_tokens: 8 };
    const whole = await client.completions.create(request);
    expect(whole.choices[0]!.text.startsWith(prompt)).toBe(true);
    let text = "";
    let finish: string | null = null;
    for await (const chunk of await client.completions.create({ ...request, stream: true })) {
      text += chunk.choices[0]!.text;
      finish = chunk.choices[0]!.finish_reason ?? finish;
    }
    expect(text).toBe(whole.choices[0]!.text);
    expect(finish).toBe(whole.choices[0]!.finish_reason);
  });

  test("gets a log-probability for each token of prompt and completion", async () => {
    const { choices, usage } = await client.completions.create({
      model: "any",
      prompt: "The capital of Japan",
      ...{ echo: true, logprobs: 2, temperature: 0, max_tokens: 4 },
    });
    const { tokens, token_logprobs, top_logprobs } = choices[0]!.logprobs!;
    expect(tokens).toHaveLength(usage!.total_tokens);
    expect(token_logprobs![0]).toBeNull();
    expect(token_logprobs!.slice(1).every((logprob) => logprob <= 0)).toBe(true);
    expect(top_logprobs![0]).toBeNull();
    expect(Object.keys(top_logprobs![1]!)).toHaveLength(2);
    expect(tokens!.join("").endsWith(choices[0]!.text.slice(-3))).toBe(true);
  });

  test("gets an answer of the form that it asks for", async () => {
    const schema = {
      type: "object",
      properties: {
        city: { enum: ["Tokyo", "Paris"] },
        count: { type: "integer", minimum: 0, maximum: 99 },
        known: { type: "boolean" },
      },
      required: ["city", "count", "known"],
      additionalProperties: false,
    };
    const json_schema = { name: "city", strict: true, schema };
    const { choices } = await client.chat.completions.create({
      model: "any",
      messages: QUESTION,
      response_format: { type: "json_schema", json_schema },
      seed: 5,
      max_tokens: 200,
    });
    expect(choices[0]!.finish_reason).toBe("stop");
    const { city, count, known, ...rest } = JSON.parse(choices[0]!.message.content!);
    expect(["Tokyo", "Paris"]).toContain(city);
    expect(Number.isInteger(count) && count >= 0 && count <= 99).toBe(true);
    expect(typeof known).toBe("boolean");
    expect(rest).toEqual({});
  });

  test("is told what is wrong with a schema", async () => {
    const refused = client.chat.completions.create({
      model: "any",
      messages: QUESTION,
      response_format: {
        type: "json_schema",
        json_schema: { name: "x", schema: { type: "nothing" } },
      },
    });
    await expect(refused).rejects.toBeInstanceOf(OpenAI.BadRequestError);
  });

  test("goes on with an answer that has begun", async () => {
    const begun = ANSWER.slice(0, ANSWER.indexOf(" Tokyo"));
    const { choices } = await client.chat.completions.create({
      model: "any",
      messages: [...QUESTION, { role: "assistant", content: begun }],
      temperature: 0,
      ...({ continue_final_message: true } as object),
    });
    expect(begun + choices[0]!.message.content).toBe(ANSWER);
  });
});

test("there must be an answer to go on with", async () => {
  const body = { messages: QUESTION, continue_final_message: true };
  const response = await post(app, "/v1/chat/completions", body);
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toBe(
    "Cannot use continue_final_message: the last of several messages must be an assistant's text",
  );
});

test("GET /health_generate is 200 while the model works, and 503 once it cannot", async () => {
  expect((await app.request("/health_generate")).status).toBe(200);
  const other = await openEngine();
  await other.close();
  const closed = createApp(other, { reportError: () => {} });
  expect((await closed.request("/health_generate")).status).toBe(503);
});

test("GET /get_server_info tells whether answers depend on the batch", async () => {
  const info = await answer<{ internal_states: Record<string, unknown>[] }>(
    await app.request("/get_server_info"),
  );
  const { weightBytes, cacheBytes } = engine.memoryPlan;
  const gigabytes = (bytes: number) => Math.round((100 * bytes) / 2 ** 30) / 100;
  expect(info.internal_states[0]).toMatchObject({
    batch_invariant: engine.selfTest.batchInvariant,
    numeric_classes: { prefill: "fma128", decode: "fma128" },
    memory_usage: { weight: gigabytes(weightBytes), kvcache: gigabytes(cacheBytes) },
  });
});
