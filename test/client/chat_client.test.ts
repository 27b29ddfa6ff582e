/** A server's answers as a client of its HTTP interface reads them: this server's, and any other's. */
import { describe, expect, test } from "vitest";
import { ChatClient } from "../../src/client/chat_client.ts";
import type { ChatPiece, ChatRequest } from "../../src/client/chat_exchange.ts";
import { type AppOptions, createApp } from "../../src/server/app.ts";
import { type Script, ScriptedEngine } from "../support/engines/scripted_engine.ts";

const QUESTION = { messages: [{ role: "user", content: "What is 12 + 35?" }] };
const ADD = { type: "function", function: { name: "add", parameters: { type: "object" } } };
const CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 12}}\n</tool_call>';

function ours(script: Script, options: AppOptions = {}) {
  const model = { family: "qwen3", thinkingVariables: ["enable_thinking"], defaults: { topK: 20 } };
  const engine = new ScriptedEngine({ model, script: () => script });
  const app = createApp(engine, options);
  return { engine, client: new ChatClient((path, init) => app.request(path, init)) };
}

/** A server of another kind: an answer for each path. */
function others(answers: Readonly<Record<string, () => Response>>): ChatClient {
  return new ChatClient(
    (path) => answers[path]?.() ?? new Response("nothing here", { status: 404 }),
  );
}

async function collect(client: ChatClient, request: ChatRequest = QUESTION) {
  const told = { reasoning: "", content: "", calls: [] as string[] };
  let last: ChatPiece | undefined;
  for await (const piece of client.answer(await client.describe(), request)) {
    last = piece;
    for (const event of piece.events) {
      if (event.type === "call") told.calls.push(event.name);
      else if (event.type === "arguments") told.calls.push(event.text);
      else if (event.type !== "callEnd") told[event.type] += event.text;
    }
  }
  return { ...told, usage: last?.usage, finish: last?.finish };
}

describe("a server of this kind", () => {
  test("tells its model, and what it does where a request does not say", async () => {
    expect(await ours({}).client.describe()).toEqual({
      name: "models/scripted",
      readsImages: false,
      contextLength: 4096,
      isOurs: true,
      defaults: { temperature: 1, top_p: 1, top_k: 20 },
      thinkingVariables: ["enable_thinking"],
      unread: { toolCalls: "qwen25", reasoning: "qwen3" },
    });
  });

  test.each<[string, AppOptions]>([
    ["reads thoughts and calls", { toolCallParser: "qwen25", reasoningParser: "qwen3" }],
    ["leaves thoughts to the client", { toolCallParser: "qwen25" }],
    ["leaves calls to the client", { reasoningParser: "qwen3" }],
    ["leaves both to the client", {}],
  ])("that %s: the answer is the same", async (_, options) => {
    const pieces = ["<think>", "Add", " them.", "</think>", "So:", ...CALL];
    const { client, engine } = ours({ pieces }, options);
    const request = { ...QUESTION, tools: [ADD], thinking: true };
    const { calls, usage, ...rest } = await collect(client, request);
    expect(rest).toMatchObject({ reasoning: "Add them.", content: "So:" });
    expect([calls[0], calls.slice(1).join("")]).toEqual(["add", '{"a": 12}']);
    expect(usage).toMatchObject({ completionTokens: pieces.length + 1, cachedTokens: 0 });
    expect(engine.requests[0]).toMatchObject({ templateVariables: { enable_thinking: true } });
  });

  test("has its refusals told with their status and sentence", async () => {
    const { client } = ours({}, { apiKey: "key" });
    await expect(client.describe()).rejects.toMatchObject({
      name: "ServerError",
      status: 401,
      message: expect.stringContaining("Authorization: Bearer KEY"),
    });
    const free = ours({});
    const fields = { temperature: -1 };
    await expect(collect(free.client, { ...QUESTION, fields })).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining("temperature"),
    });
  });

  test("ends the request when the client stops reading, or aborts it", async () => {
    const { client, engine } = ours({ gate: () => new Promise((resolve) => setTimeout(resolve)) });
    const model = await client.describe();
    for await (const { events } of client.answer(model, QUESTION)) if (events.length > 0) break;
    expect(engine.cutShort).toHaveLength(1);
    const abort = new AbortController();
    const reading = (async () => {
      for await (const _ of client.answer(model, { ...QUESTION, signal: abort.signal }))
        abort.abort();
    })();
    await expect(reading).rejects.toMatchObject({ name: "AbortError" });
  });
});

describe("a server of another kind", () => {
  const models = () => Response.json({ data: [{ id: "other" }] });
  const stream = (...events: readonly unknown[]) => {
    const lines = events.map(
      (event) => `data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`,
    );
    return () => new Response(lines.join(""));
  };
  const chat = (...events: readonly unknown[]) =>
    others({ "/v1/models": models, "/v1/chat/completions": stream(...events) });
  const delta = (content: string) => ({ id: "1", choices: [{ delta: { content } }] });
  const end = { id: "1", choices: [{ delta: {}, finish_reason: "length" }] };

  test("is read as far as it tells", async () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2 };
    const client = chat(delta("<think>a"), delta("b"), end, { choices: [], usage }, "[DONE]");
    expect(await client.describe()).toMatchObject({ name: "other", isOurs: false, unread: {} });
    expect(await collect(client)).toEqual({
      reasoning: "",
      content: "<think>ab",
      calls: [],
      usage: { promptTokens: 3, completionTokens: 2, cachedTokens: undefined },
      finish: "length",
    });
  });

  test.each<[string, readonly unknown[], string]>([
    ["breaks off", [delta("a")], "broken off"],
    ["ends without a reason", [delta("a"), "[DONE]"], "does not say why"],
    ["tells of an error", [{ error: { message: "out of luck" } }], "out of luck"],
    ["sends what is no JSON", ["{oh"], "no JSON"],
  ])("that %s in its stream is told", async (_, events, message) => {
    await expect(collect(chat(...events))).rejects.toThrow(message);
  });

  test("that is none, or cannot be reached, is told", async () => {
    await expect(others({}).describe()).rejects.toMatchObject({
      status: 404,
      message: "nothing here",
    });
    const client = new ChatClient(() => Promise.reject(new TypeError("fetch failed")));
    await expect(client.describe()).rejects.toThrow("Cannot reach the server: fetch failed");
  });

  test("cannot fill the memory by an event without end", async () => {
    let pulls = 0;
    const piece = new TextEncoder().encode(`data: ${"a".repeat(2 ** 20)}`);
    const body = () =>
      new ReadableStream<Uint8Array>({
        pull: (controller) => {
          pulls++;
          controller.enqueue(piece);
        },
      });
    const client = others({
      "/v1/models": models,
      "/v1/chat/completions": () => new Response(body()),
    });
    await expect(collect(client)).rejects.toThrow("too long");
    expect(pulls).toBeLessThan(30);
  });
});
