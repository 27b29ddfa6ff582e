/** `openaiChat(engine)` beside OpenAI's own client over the endpoint: the same answers and errors. */
import OpenAI, { APIError } from "openai";
import { expect, test } from "vitest";
import { createApp } from "../../src/server/app.ts";
import { ChatCompletionError, openaiChat } from "../../src/server/openai_chat.ts";
import { type Script, ScriptedEngine } from "../support/engines/scripted_engine.ts";

const CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 12}}\n</tool_call>';
const ANSWER = ["<think>", "Hm", ".", "</think>", "Adding.", ...CALL];
const body = {
  model: "tiny",
  messages: [{ role: "user" as const, content: "12 + 35?" }],
  tools: [{ type: "function" as const, function: { name: "add", parameters: {} } }],
};

function both(script: Script = { pieces: ANSWER }) {
  const engine = new ScriptedEngine({ model: { family: "qwen3" }, script: () => script });
  const app = createApp(engine, {
    toolCallParser: "qwen25",
    reasoningParser: "qwen3",
    cacheReport: true,
    reportError: () => {},
  });
  const fetch = async (url: string | URL | Request, init?: RequestInit) =>
    app.request(url as string, init);
  const client = new OpenAI({
    baseURL: "http://localhost/v1",
    apiKey: "none",
    fetch,
    maxRetries: 0,
  });
  return { engine, client, chat: openaiChat(engine) };
}

/** Without what differs from one answer to the next. */
const settled = (answer: object) =>
  JSON.parse(
    JSON.stringify(answer, (key, value) => (/^(id|created)$/.test(key) && value ? key : value)),
  );

test("an answer is what OpenAI's client gets", async () => {
  const { client, chat } = both();
  const own = await chat.completions.create(body);
  expect(settled(own)).toEqual(settled(await client.chat.completions.create(body)));
  const [{ message, finish_reason }] = own.choices as [(typeof own.choices)[number]];
  expect([message.reasoning_content, message.content, finish_reason]).toEqual([
    "Hm.",
    "Adding.",
    "tool_calls",
  ]);
  expect(message.tool_calls![0]!.function).toEqual({ name: "add", arguments: '{"a": 12}' });
});

test("a stream has the chunks that OpenAI's client gets", async () => {
  const { client, chat } = both();
  const streamed = { ...body, stream: true as const, stream_options: { include_usage: true } };
  const [own, theirs]: [object[], object[]] = [[], []];
  for await (const chunk of await chat.completions.create(streamed)) own.push(settled(chunk));
  for await (const chunk of await client.chat.completions.create(streamed))
    theirs.push(settled(chunk));
  expect(own.length).toBeGreaterThan(5);
  expect(own).toEqual(theirs);
});

test("a refusal has the status, the sentence and the field that OpenAI's client is told", async () => {
  const { client, chat } = both();
  const wrong = { ...body, temperature: -1 };
  const theirs = await client.chat.completions.create(wrong).catch((error: unknown) => error);
  const own = await chat.completions.create(wrong).catch((error: unknown) => error);
  expect(theirs).toBeInstanceOf(APIError);
  expect(own).toBeInstanceOf(ChatCompletionError);
  const { status, param, error } = theirs as APIError & { error: { message: string } };
  expect(own).toMatchObject({ status, param, message: error.message });
  expect(param).toBe("temperature");
});

test("a failure within a stream is thrown behind what came before it", async () => {
  const { chat } = both({ pieces: ANSWER, failure: { at: 2, error: new Error("broken") } });
  let count = 0;
  const reading = (async () => {
    for await (const _ of await chat.completions.create({ ...body, stream: true })) count++;
  })();
  await expect(reading).rejects.toBeInstanceOf(ChatCompletionError);
  expect(count).toBeGreaterThan(0);
});

test("a signal, and a loop that is left, end the request", async () => {
  const { engine, chat } = both({ gate: () => new Promise((resolve) => setTimeout(resolve)) });
  const { tools: _, ...plain } = body;
  for await (const { choices } of await chat.completions.create({ ...plain, stream: true })) {
    if (choices[0]?.delta.content) break;
  }
  expect(engine.cutShort).toHaveLength(1);
  const abort = new AbortController();
  const { signal } = abort;
  const reading = (async () => {
    const chunks = await chat.completions.create({ ...plain, stream: true }, { signal });
    for await (const _ of chunks) abort.abort();
  })();
  await expect(reading).rejects.toMatchObject({ name: "AbortError" });
  await expect(chat.completions.create(plain, { signal })).rejects.toMatchObject({
    name: "AbortError",
  });
});
