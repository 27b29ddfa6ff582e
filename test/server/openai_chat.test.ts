/** `openaiChat(engine)` beside OpenAI's own client over the endpoint: the same answers and errors. */
import OpenAI, { APIError } from "openai";
import { describe, expect, test } from "vitest";
import { openImage } from "../../src/images/decode_image.ts";
import { createApp } from "../../src/server/app.ts";
import { ChatCompletionError, openaiChat } from "../../src/server/openai_chat.ts";
import { type Script, ScriptedEngine } from "../support/engines/scripted_engine.ts";
import { ALPHA_SIZE, alphaPixel, alphaValues, seenOf } from "../support/images/alpha_pictures.ts";
import { writePng } from "../support/images/write_png.ts";

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
    JSON.stringify(answer, (key, value) => {
      if (/^(id|created)$/.test(key) && value) return key;
      // What the server writes as null, OpenAI's types have not.
      return value ?? undefined;
    }),
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

test("what comes is of the types that OpenAI's package publishes", async () => {
  const { chat } = both();
  const asked: OpenAI.ChatCompletionCreateParamsNonStreaming = body;
  const whole: OpenAI.ChatCompletion = await chat.completions.create(asked);
  expect(whole.choices[0]!.message.refusal).toBe(null);
  const plain = { model: "tiny", messages: body.messages, logprobs: true };
  const [choice] = (await both({ pieces: ["Hi"] }).chat.completions.create(plain)).choices;
  expect(choice!.message).not.toHaveProperty("tool_calls");
  const streamed: OpenAI.ChatCompletionCreateParamsStreaming = { ...body, stream: true };
  const deltas: OpenAI.ChatCompletionChunk.Choice.Delta[] = [];
  for await (const chunk of await chat.completions.create(streamed)) {
    const told: OpenAI.ChatCompletionChunk = chunk;
    for (const { delta } of told.choices) deltas.push(delta);
  }
  expect(deltas[0]!.role).toBe("assistant");
  const calls = deltas.flatMap(({ tool_calls = [] }) => tool_calls);
  expect(calls[0]).toMatchObject({ id: expect.any(String), function: { name: "add" } });
  expect(calls[1]).not.toHaveProperty("id");
  expect(JSON.stringify([whole, ...deltas])).not.toContain('"tool_calls":null');
});

test("an answer that the engine's user aborts is an error", async () => {
  const aborted = { type: "abort", message: "Aborted" } as const;
  const { chat } = both({ pieces: ["Hi"], finish: aborted });
  const { tools: _, ...plain } = body;
  await expect(chat.completions.create(plain)).rejects.toThrow(
    "Cannot complete the chat: it was aborted",
  );
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
  const whole = new AbortController();
  const answering = chat.completions.create(plain, { signal: whole.signal });
  whole.abort();
  await expect(answering).rejects.toMatchObject({ name: "AbortError" });
});

describe("images of a chat", () => {
  const data = Uint8ClampedArray.from(alphaValues());
  const pixels = { ...ALPHA_SIZE, data };
  const png = writePng({
    ...{ ...ALPHA_SIZE, colorType: 6, bitDepth: 8 },
    sample: (x, y, c) => alphaPixel(x, y)[c]!,
  });
  const image = (url: unknown) => ({ type: "image_url", image_url: { url, detail: "low" } });
  const asked = (url: unknown) => ({
    messages: [
      { role: "system", content: "See." },
      { role: "user", content: [image(url), { type: "text", text: "What?" }] },
    ],
  });

  test("are URLs, bytes, blobs and pixels, with the colours that alpha hides", async () => {
    const engine = new ScriptedEngine({
      model: { readsImages: true },
      script: () => ({ pieces: ["ok"] }),
    });
    const { completions } = openaiChat(engine);
    const url = `data:image/png;base64,${Buffer.from(png).toString("base64")}`;
    for (const one of [url, png, new Blob([png]), pixels]) await completions.create(asked(one));
    const files = engine.requests.map(({ images }) => images![0] as Uint8Array);
    expect(files.slice(0, 3)).toEqual([png, png, png]);
    for (const alpha of ["drop", "white"] as const) {
      const { rgb } = await openImage(files[3]!, undefined, alpha).decode();
      expect(Array.from(rgb)).toEqual(seenOf(data, alpha));
    }
    expect(engine.requests[3]!.messages![1]!.content).toEqual([
      { type: "image", detail: "low" },
      { type: "text", text: "What?" },
    ]);
  });

  test.each<[string, unknown, RegExp]>([
    [
      "a bitmap",
      { width: 1, height: 1, [Symbol.toStringTag]: "ImageBitmap" },
      /^Cannot use messages\[1\]\.content\[0\]\.image_url\.url, an ImageBitmap: a chat takes no drawings/,
    ],
    [
      "anything else",
      { width: 1 },
      /^Cannot read messages\[1\]\.content\[0\]\.image_url\.url: it is/,
    ],
    ["pixels that are too few", { ...pixels, height: 7 }, /it is not a URL, a Uint8Array, a Blob/],
  ])("refuses %s by its place", async (_, given, message) => {
    const { completions } = openaiChat(new ScriptedEngine({ model: { readsImages: true } }));
    const error: unknown = await completions.create(asked(given)).catch((one: unknown) => one);
    expect(error).toBeInstanceOf(ChatCompletionError);
    expect((error as ChatCompletionError).message).toMatch(message);
    expect(error).toMatchObject({ status: 400, param: "messages[1].content[0].image_url.url" });
  });
});
