/** Every field of chats with the installed server and the embedded model, and every field of answers. */
import { describe, expect, test } from "vitest";
import { type Chat, chat, events, refused, server, WEATHER, withServer } from "./support/server.ts";

withServer();

/** Sections 2.3 and 2.4. */
const CHAT_FIELDS: Readonly<Record<string, () => Promise<unknown>>> = {
  model: async () => {
    const { data } = (await (await server.get("/v1/models")).json()) as { data: [{ id: string }] };
    expect(data[0].id).toBe("tiny-deepseek-v3");
    const { model } = await chat({ model: "tiny-deepseek-v3", max_tokens: 1 });
    expect(model).toBe("tiny-deepseek-v3");
  },
  messages: async () => {
    const { choices } = await chat({ max_tokens: 30 });
    expect(choices[0]!.message).toMatchObject({ role: "assistant" });
    expect(choices[0]!.message.content).toContain("Tokyo");
  },
  max_tokens: async () => {
    const { choices, usage } = await chat({ max_tokens: 2 });
    expect([choices[0]!.finish_reason, usage.completion_tokens]).toEqual(["length", 2]);
  },
  temperature: async () => {
    const first = await chat({ max_tokens: 12 });
    expect((await chat({ max_tokens: 12 })).choices).toEqual(first.choices);
    const hot = await chat({ max_tokens: 12, temperature: 2, top_p: 1, top_k: -1, min_p: 0 });
    expect(hot.choices).not.toEqual(first.choices);
  },
  stream: async () => {
    const messages = [{ role: "user", content: "What is the capital of Japan?" }];
    const body = { messages, temperature: 0, max_tokens: 30 };
    const chunks = (await events("/v1/chat/completions", body)) as unknown as {
      object: string;
      choices: [{ delta: { content: string | null }; finish_reason: string | null }];
    }[];
    const text = chunks.map(({ choices }) => choices[0].delta.content ?? "").join("");
    expect(text).toBe((await chat({ max_tokens: 30 })).choices[0]!.message.content);
    expect(chunks.at(-1)!.choices[0].finish_reason).not.toBeNull();
  },
  tools: async () => {
    const question = "What is the weather in Paris?";
    const { choices } = await chat({ tools: [WEATHER], max_tokens: 80 }, question);
    const [{ message, finish_reason }] = choices as [Chat["choices"][number]];
    expect([message.content, finish_reason]).toEqual([null, "tool_calls"]);
    const [call] = message.tool_calls!;
    expect([call!.type, call!.function.name]).toEqual(["function", "get_weather"]);
    expect(JSON.parse(call!.function.arguments)).toHaveProperty("city");
  },
  data_parallel_rank: async () => {
    await chat({ data_parallel_rank: 0, max_tokens: 1 });
    await refused(
      "/v1/chat/completions",
      { messages: [{ role: "user", content: "a" }], data_parallel_rank: 1 },
      "data_parallel_rank",
    );
  },
  rid: async () => {
    expect((await chat({ rid: "chat-1", max_tokens: 1 })).id).toBe("chat-1");
  },
  response: async () => {
    const answer = await chat({ max_tokens: 4 });
    expect(answer).toEqual({
      id: expect.any(String),
      object: "chat.completion",
      created: expect.any(Number),
      model: expect.any(String),
      choices: [
        expect.objectContaining({
          index: 0,
          logprobs: null,
          finish_reason: "length",
          matched_stop: null,
        }),
      ],
      usage: expect.objectContaining({ completion_tokens: 4, prompt_tokens_details: null }),
      ...("metadata" in answer && { metadata: expect.anything() }),
    });
    const { message } = answer.choices[0]!;
    expect(message).toMatchObject({ role: "assistant", tool_calls: null });
    expect(answer.usage.total_tokens).toBe(answer.usage.prompt_tokens! + 4);
  },
};

describe("fields of chats", () => {
  test.each(Object.keys(CHAT_FIELDS))("%s", async (name) => {
    await CHAT_FIELDS[name]!();
  });
});
