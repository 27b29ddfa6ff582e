/** Specification 1: two styles of requests over one model, and what comes of starting it. */
import { expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, events, type GenerateAnswer, post } from "../../support/server/http_client.ts";

const messages = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "hello" },
];

test("the low level takes text, token ids or embeddings, and applies no chat template", async () => {
  const engine = new ScriptedEngine();
  const app = createApp(engine);
  await post(app, "/generate", { text: "hello" });
  await post(app, "/generate", { input_ids: [104, 105] });
  await post(app, "/generate", { input_embeds: [[0, 1, 2, 3]] });
  const [text, ids, embeddings] = engine.requests;
  expect(text).toMatchObject({ prompt: "hello" });
  expect(ids).toMatchObject({ tokens: [104, 105] });
  expect(embeddings!.inputEmbeds).toHaveLength(1);
  for (const request of engine.requests) expect(request).not.toHaveProperty("messages");
});

test("the high level takes messages, which the engine's chat template renders", async () => {
  const engine = new ScriptedEngine();
  const response = await post(createApp(engine), "/v1/chat/completions", { messages });
  expect(response.status).toBe(200);
  expect(engine.requests[0]).toMatchObject({ messages });
  expect(engine.requests[0]).not.toHaveProperty("prompt");
});

test("the high level has tools, streams and a field of its own for reasoning", async () => {
  const text = '<think>Hm.</think><tool_call>{"name": "now", "arguments": {}}</tool_call>';
  const app = createApp(new ScriptedEngine({ script: () => ({ pieces: [text] }) }), {
    toolCallParser: "qwen25",
    reasoningParser: "qwen3",
  });
  const tools = [{ type: "function", function: { name: "now" } }];
  const response = await post(app, "/v1/chat/completions", { messages, tools, stream: true });
  const chunks = await events<{ choices: { delta: object; finish_reason: string | null }[] }>(
    response,
  );
  const deltas = chunks.map(({ choices }) => choices[0]!.delta);
  expect(deltas).toContainEqual(expect.objectContaining({ reasoning_content: "Hm." }));
  expect(deltas).toContainEqual(
    expect.objectContaining({
      tool_calls: [expect.objectContaining({ function: { name: "now", arguments: "" } })],
    }),
  );
  expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe("tool_calls");
});

test("both answer with JSON", async () => {
  const app = createApp(new ScriptedEngine());
  for (const [path, body] of [
    ["/generate", { text: "a" }],
    ["/v1/chat/completions", { messages }],
  ] as const) {
    const response = await post(app, path, body);
    expect(response.headers.get("content-type")).toMatch(/^application\/json/);
    expect(await answer<GenerateAnswer>(response)).toBeTypeOf("object");
  }
});
