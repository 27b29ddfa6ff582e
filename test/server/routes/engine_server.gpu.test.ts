import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { until } from "../../support/until.ts";

let engine: Engine;
let server: RunningServer;
let client: OpenAI;

beforeAll(async () => {
  engine = await openEngine();
  server = await serve(createApp(engine), { host: "127.0.0.1", port: 0 });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});

afterAll(async () => {
  await server.close();
  await engine.close();
});

const post = (path: string, body: unknown) =>
  fetch(`${server.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

/** Waits until the engine has nothing left to do. */
async function idle() {
  const nothing = { healthy: true, runningRequests: 0, usedTokens: 0 };
  await until(() => expect(engine.status()).toMatchObject(nothing));
}

test("the openai client completes and streams a chat", async () => {
  const request: OpenAI.ChatCompletionCreateParamsNonStreaming = {
    model: "any",
    messages: [{ role: "user", content: "What is the capital of Japan?" }],
    temperature: 0,
  };
  const whole = await client.chat.completions.create(request);
  expect(whole.choices[0]!.message.content).toBe("The capital of Japan is Tokyo.");
  expect(whole.choices[0]!.finish_reason).toBe("stop");
  const stream = await client.chat.completions.create({
    ...request,
    stream: true,
    stream_options: { include_usage: true },
  });
  const pieces: string[] = [];
  let finish: string | null = null;
  let usage: OpenAI.CompletionUsage | null | undefined;
  for await (const chunk of stream) {
    pieces.push(chunk.choices[0]?.delta.content ?? "");
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  expect(pieces.join("")).toBe(whole.choices[0]!.message.content);
  expect(pieces.filter((piece) => piece !== "").length).toBeGreaterThan(3);
  expect(finish).toBe("stop");
  expect(usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 11, total_tokens: 21 });
});

test("a client that leaves its stream ends the generation", async () => {
  const stream = await client.chat.completions.create({
    model: "any",
    messages: [{ role: "user", content: "Tell me a story." }],
    stream: true,
    max_completion_tokens: 1500,
    // The engine must not come to an end by itself.
    ...({ ignore_eos: true } as object),
  });
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
  await idle();
});

test("a client that leaves before the answer ends the generation", async () => {
  const controller = new AbortController();
  const answer = fetch(`${server.url}/generate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    signal: controller.signal,
    body: JSON.stringify({
      text: "Once",
      sampling_params: { max_new_tokens: 1500, ignore_eos: true },
    }),
  });
  while (engine.status().runningRequests === 0) await new Promise((go) => setTimeout(go, 5));
  controller.abort();
  await expect(answer).rejects.toThrow();
  await idle();
});

test("a batch is one request for each prompt, and has the answers of each alone", async () => {
  const sampling_params = { max_new_tokens: 12, temperature: 0 };
  const prompts = ["Hello", "The capital of", "1 + 1 ="];
  const batch = (await (await post("/generate", { text: prompts, sampling_params })).json()) as {
    text: string;
    output_ids: number[];
  }[];
  for (const [i, text] of prompts.entries()) {
    const alone = await (await post("/generate", { text, sampling_params })).json();
    expect(batch[i]).toMatchObject({ text: alone.text, output_ids: alone.output_ids });
  }
});

test.each([
  [{ text: "a", sampling_params: { max_new_tokens: 5000 } }, /maximum context length of 2048/],
  [{ input_ids: [99999] }, /^input_ids\[0\] must be .* at most 2047, got 99999$/],
  [{ text: "word ".repeat(5000) }, /longer than the model's context length/],
  [{ text: "", input_ids: [1] }, /input_ids/],
])("a refusal is a 400 that says why, streamed or not (%#)", async (body, message) => {
  for (const stream of [false, true]) {
    const response = await post("/generate", { ...body, stream });
    expect(response.status).toBe(400);
    expect((await response.json()).error.message).toMatch(message);
  }
});

test("GET /health is 503 once the engine is closed", async () => {
  const other = await openEngine();
  const app = createApp(other);
  expect((await app.request("/health")).status).toBe(200);
  await other.close();
  expect((await app.request("/health")).status).toBe(503);
});
