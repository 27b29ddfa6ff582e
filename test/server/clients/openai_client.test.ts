/** The unmodified `openai` client against the app, without a socket. */
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";

const messages = [{ role: "user" as const, content: "hello" }];

function setUp(options: AppOptions = {}) {
  const engine = new ScriptedEngine();
  const app = createApp(engine, { servedModelName: "org/tiny", ...options });
  const client = new OpenAI({
    apiKey: "none",
    baseURL: "http://wisp.test/v1",
    maxRetries: 0,
    fetch: async (input, init) => app.request(input as string, init),
  });
  return { engine, client };
}

describe("openai client", () => {
  test("completes a chat", async () => {
    const { client } = setUp();
    const completion = await client.chat.completions.create({ model: "tiny", messages });
    expect(completion.choices[0]!.message.content).toBe("hello");
    expect(completion.choices[0]!.finish_reason).toBe("stop");
    expect(completion.usage!.total_tokens).toBe(11);
  });

  test("goes on with the answer as history", async () => {
    const { client, engine } = setUp();
    const first = await client.chat.completions.create({ model: "tiny", messages });
    const history = [...messages, first.choices[0]!.message, ...messages];
    await client.chat.completions.create({ model: "tiny", messages: history });
    expect(engine.requests[1]!.messages).toHaveLength(3);
  });

  test("streams a chat with its usage", async () => {
    const { client } = setUp();
    const stream = await client.chat.completions.create({
      model: "tiny",
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    const finishes: string[] = [];
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      if (chunk.choices[0]?.finish_reason) finishes.push(chunk.choices[0].finish_reason);
      usage = chunk.usage;
    }
    expect(text).toBe("hello");
    expect(finishes).toEqual(["stop"]);
    expect(usage!.completion_tokens).toBe(6);
  });

  test("collects a stream into a completion", async () => {
    const { client } = setUp();
    const runner = client.chat.completions.stream({ model: "tiny", messages });
    expect(await runner.finalContent()).toBe("hello");
  });

  test("stops the generation by leaving the loop", async () => {
    const { client, engine } = setUp();
    const stream = await client.chat.completions.create({
      model: "tiny",
      messages: [{ role: "user", content: "x".repeat(1000) }],
      stream: true,
    });
    for await (const _ of stream) break;
    expect(engine.running).toEqual([]);
    expect(engine.cutShort).toHaveLength(1);
  });

  test("stops the generation by its controller", async () => {
    const { client, engine } = setUp();
    const stream = await client.chat.completions.create({
      model: "tiny",
      messages: [{ role: "user", content: "x".repeat(1000) }],
      stream: true,
    });
    for await (const _ of stream) stream.controller.abort();
    expect(engine.running).toEqual([]);
  });

  test("reads several choices", async () => {
    const { client } = setUp();
    const { choices } = await client.chat.completions.create({ model: "tiny", messages, n: 3 });
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2]);
  });

  test("gets a typed error for a refused field", async () => {
    const { client } = setUp();
    const refused = client.chat.completions.create({ model: "tiny", messages, n: 129 });
    await expect(refused).rejects.toBeInstanceOf(OpenAI.BadRequestError);
  });

  test("gets a typed error for a stream that is refused", async () => {
    const { client } = setUp();
    const create = client.chat.completions.create({
      model: "tiny",
      messages: [{ role: "user", content: "x".repeat(5000) }],
      stream: true,
    });
    await expect(create).rejects.toBeInstanceOf(OpenAI.BadRequestError);
  });

  test("completes prompts", async () => {
    const { client } = setUp();
    const completion = await client.completions.create({
      model: "tiny",
      prompt: ["ab", "c"],
      n: 2,
    });
    expect(completion.choices.map(({ text }) => text)).toEqual(["ab", "ab", "c", "c"]);
    expect(completion.usage!.prompt_tokens).toBe(3);
  });

  test("streams a completion", async () => {
    const { client } = setUp();
    const stream = await client.completions.create({ model: "tiny", prompt: "abc", stream: true });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]!.text;
    expect(text).toBe("abc");
  });

  test("asks for an answer of a form", async () => {
    const { client, engine } = setUp();
    const schema = { type: "object", properties: {}, additionalProperties: false };
    await client.chat.completions.create({
      model: "tiny",
      messages,
      response_format: {
        type: "json_schema",
        json_schema: { name: "empty", strict: true, schema },
      },
    });
    expect(engine.requests[0]!.sampling!.jsonSchema).toEqual(schema);
  });

  test("gets a typed error for a key that is wrong or has too little power", async () => {
    const keys = { apiKey: "right", adminApiKey: "admin" };
    const { client } = setUp(keys);
    await expect(client.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    const known = client.withOptions({ apiKey: "right" });
    expect((await known.models.list()).data).toHaveLength(1);
    await expect(known.get("/../flush_cache")).rejects.toBeInstanceOf(OpenAI.PermissionDeniedError);
  });

  test("lists and retrieves the model", async () => {
    const { client } = setUp();
    const models = await client.models.list();
    expect(models.data.map(({ id }) => id)).toEqual(["org/tiny"]);
    expect((await client.models.retrieve("org/tiny")).id).toBe("org/tiny");
    await expect(client.models.retrieve("other")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  });
});
