/** The size of what a field says: just kept, and just crossed. */

import { describe, expect, test, vi } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { MAX_CALL_UNITS } from "../../../src/server/fields/field_limits.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, errorMessage, post } from "../../support/server/http_client.ts";
import { writeCalls } from "../../text/tool_calls/written_calls.ts";

const CHAT = "/v1/chat/completions";
const HELLO = [{ role: "user", content: "hello" }];
const APP = { toolCallParser: "qwen25" } as const;

const many = <T>(count: number, item: (i: number) => T) =>
  Array.from({ length: count }, (_, i) => item(i));
const biases = (count: number) => Object.fromEntries(many(count, (i) => [String(i), 1]));
const parts = (count: number) => many(count, () => ({ type: "text", text: "a" }));
const called = (id: string) => ({ id, function: { name: "f", arguments: "{}" } });
const tool = (name: string, more: object = {}) => ({ function: { name, ...more } });

/** The fields of a chat with as much as is taken, and with more; the field that is to blame. */
const CHAT_FIELDS: readonly [string, (size: number) => object, number, string][] = [
  ["stop", (size) => ({ stop: many(size, String) }), 1024, "stop must be at most 1024 strings"],
  [
    "stop text",
    (size) => ({ stop: "x".repeat(size) }),
    16_384,
    "stop must be at most 1024 strings",
  ],
  ["stop_token_ids", (size) => ({ stop_token_ids: many(size, () => 7) }), 1024, "stop_token_ids"],
  ["logit_bias", (size) => ({ logit_bias: biases(size) }), 1024, "logit_bias must be an object of"],
  [
    "messages",
    (size) => ({ messages: many(size, () => HELLO[0]) }),
    16_384,
    "Cannot read messages",
  ],
  [
    "parts and calls",
    (size) => ({
      messages: [
        { role: "user", content: parts(size - 13) },
        { role: "assistant", tool_calls: many(10, (i) => called(String(i))) },
        { role: "user", content: "b" },
      ],
    }),
    16_384,
    "Cannot read messages, their parts and their tool_calls: there are more than 16384",
  ],
  ["rid", (size) => ({ rid: "r".repeat(size) }), 1024, "rid must be at most 1024 characters"],
  ["model", (size) => ({ model: "m".repeat(size) }), 1024, "model must be at most 1024"],
  ["cache_salt", (size) => ({ cache_salt: "s".repeat(size) }), 1024, "cache_salt must be at most"],
  ["extra_key", (size) => ({ extra_key: "s".repeat(size) }), 1024, "extra_key must be at most"],
  [
    "name",
    (size) => ({ messages: [{ ...HELLO[0], name: "n".repeat(size) }] }),
    1024,
    "messages[0].name must be at most 1024",
  ],
  [
    "tools",
    (size) => ({ tools: many(size, (i) => tool(`f${i}`)) }),
    1024,
    "tools must be at most 1024",
  ],
  ["tool", (size) => ({ tools: [tool("f".repeat(size))] }), 1024, "tools[0].function.name must be"],
  [
    "tools' JSON",
    (size) => ({ tools: [tool("f", { description: "d".repeat(size - 44) })] }),
    2 ** 20,
    "tools must be at most 1048576 characters of JSON",
  ],
  [
    "chat_template_kwargs",
    (size) => ({ chat_template_kwargs: { a: "b".repeat(size - 8) } }),
    2 ** 20,
    "chat_template_kwargs must be at most 1048576 characters of JSON",
  ],
];

describe.each(CHAT_FIELDS)("%s", (_, body, most, message) => {
  const chat = (size: number) =>
    post(createApp(new ScriptedEngine(), APP), CHAT, { messages: HELLO, ...body(size) });

  test(`${most} is taken, more is refused`, async () => {
    const taken = await chat(most);
    expect(taken.ok ? "" : await errorMessage(taken)).toBe("");
    const refused = await chat(most + 1);
    expect(refused.status).toBe(400);
    expect(await errorMessage(refused)).toContain(message);
  });
});

test.each<[string, object, string]>([
  ["/generate", { text: "a", rid: "r".repeat(1025) }, "rid must be at most"],
  ["/v1/completions", { prompt: "a", rid: "r".repeat(1025) }, "rid must be at most"],
  ["/v1/completions", { prompt: "a", model: "r".repeat(1025) }, "model must be at most"],
  ["/tokenize", { prompt: many(1025, () => "a") }, "prompt must be at most 1024 items, got 1025"],
  ["/detokenize", { tokens: many(1025, () => [1]) }, "tokens must be at most 1024 items, got 1025"],
  [
    CHAT,
    { messages: HELLO, guided_json: { enum: many(600_000, (i) => i) } },
    "longer than 1048576",
  ],
])("%s refuses what is too much: %#", async (path, body, message) => {
  const response = await post(createApp(new ScriptedEngine(), APP), path, body);
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toContain(message);
});

describe.each(["/v1/messages", "/v1/messages/count_tokens", "/api/chat"])("%s", (path) => {
  const call = (i: number, input: object) =>
    path === "/api/chat"
      ? { function: { name: "f", arguments: input } }
      : { type: "tool_use", id: String(i), name: "f", input };
  /** One call with so many characters of JSON each. */
  const ask = (lengths: readonly number[]) => {
    const calls = lengths.map((length, i) => call(i, { abc: "a".repeat(length - 10) }));
    const said = path === "/api/chat" ? { tool_calls: calls } : { content: calls };
    const more = { "/v1/messages": { max_tokens: 3 }, "/api/chat": { stream: false } }[path];
    const history = [...HELLO, { role: "assistant", ...said }, ...HELLO];
    const engine = new ScriptedEngine({ model: { contextLength: 2 ** 20 } });
    return post(createApp(engine, APP), path, { ...more, messages: history });
  };

  test("reads the arguments of calls within a limit for all together", async () => {
    const taken = await ask([MAX_CALL_UNITS / 2, MAX_CALL_UNITS / 4, MAX_CALL_UNITS / 4]);
    expect(taken.ok ? "" : await errorMessage(taken)).toBe("");
    for (const lengths of [
      [MAX_CALL_UNITS / 2, MAX_CALL_UNITS / 2 + 1],
      [MAX_CALL_UNITS - 10, 100_000, 11],
    ]) {
      const refused = await ask(lengths);
      expect(refused.status).toBe(400);
      expect(await errorMessage(refused)).toContain("the arguments of all calls are longer than");
    }
  });
});

describe("texts to parse", () => {
  const app = createApp(new ScriptedEngine(), APP);
  const tools = [tool("now"), tool("now"), tool("f")];

  test.each([
    ["/parse_function_call", { tools }],
    ["/separate_reasoning", { reasoning_parser: "deepseek-r1" }],
  ])("%s takes what an answer can be, and no more", async (path, fields) => {
    expect((await post(app, path, { ...fields, text: "x".repeat(262_144) })).status).toBe(200);
    const refused = await post(app, path, { ...fields, text: "x".repeat(262_145) });
    expect(refused.status).toBe(400);
    expect(await errorMessage(refused)).toBe("text must be at most 262144 characters, got 262145");
  });

  test("many calls take a time that grows with their number, not with its square", async () => {
    const calls = many(3000, () => ({ name: "now", args: {} }));
    const text = `${writeCalls("qwen25", calls)} end`;
    const lengths: number[] = [];
    const map = vi.spyOn(Array.prototype, "map").mockImplementation(function (
      this: unknown[],
      each,
    ) {
      lengths.push(this.length);
      return Array.from(this, (item, i) => each(item, i, this));
    });
    const response = await post(app, "/parse_function_call", { tools, text }).finally(() =>
      map.mockRestore(),
    );
    const body = await answer<{ normal_text: string; calls: object[] }>(response);
    expect(body.normal_text).toBe(" end");
    expect(body.calls).toHaveLength(3000);
    expect(body.calls[0]).toEqual({ tool_index: 0, name: "now", parameters: "{}" });
    expect(lengths.reduce((sum, length) => sum + length, 0)).toBeLessThan(text.length);
  });
});
