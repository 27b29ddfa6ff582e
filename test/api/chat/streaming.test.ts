/** Section 2.5 of the specification: the shapes of streamed chunks. */
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { type Script, ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import {
  type ChatEvent,
  eventLines,
  events,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";

function scripted(script?: Script): ReturnType<typeof createApp> {
  return createApp(new ScriptedEngine(script === undefined ? {} : { script: () => script }));
}

describe("generate stream", () => {
  test("text and output_ids hold everything so far", async () => {
    const response = await post(scripted(), "/generate", { text: "abc", rid: "r", stream: true });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const chunks = await events<GenerateAnswer>(response);
    expect(chunks.map(({ text }) => text)).toEqual(["a", "ab", "abc", "abc"]);
    expect(chunks.map(({ output_ids }) => output_ids)).toEqual([
      [97],
      [97, 98],
      [97, 98, 99],
      [97, 98, 99, 1],
    ]);
    expect(chunks[1]!.meta_info).toEqual({
      id: "r",
      finish_reason: null,
      prompt_tokens: 3,
      weight_version: "default",
      completion_tokens: 2,
      cached_tokens: 0,
    });
    expect(chunks[3]!.meta_info).toEqual({
      id: "r",
      finish_reason: { type: "stop", matched: 1 },
      prompt_tokens: 3,
      weight_version: "default",
      completion_tokens: 4,
      cached_tokens: 0,
      e2e_latency: expect.any(Number),
    });
    expect(chunks.every((chunk) => !("index" in chunk))).toBe(true);
  });

  test("chunks of a batch carry their index, each item ends once, [DONE] comes once", async () => {
    const body = { text: ["ab", "wxyz", "q"], rid: "r", stream: true };
    const chunks = await events<GenerateAnswer>(await post(scripted(), "/generate", body));
    for (const [index, text] of body.text.entries()) {
      const own = chunks.filter((chunk) => chunk.index === index);
      expect(own).toHaveLength(text.length + 1);
      expect(own.at(-1)).toMatchObject({ text, meta_info: { id: `r_${index}` } });
      const ends = own.filter(({ meta_info }) => meta_info.finish_reason !== null);
      expect(ends).toEqual([own.at(-1)]);
    }
    const order = chunks.map(({ index }) => index);
    expect(order.slice(0, 6)).toEqual([0, 1, 2, 0, 1, 2]);
  });

  test("a chunk is JSON without white space, with its fields in one order", async () => {
    const pieces = ['"', "\n", "\ud83d", "\ude00", "é"];
    const body = { text: ["a"], stream: true, rid: "r", return_logprob: false };
    const lines = await eventLines(await post(scripted({ pieces }), "/generate", body));
    expect(lines.pop()).toBe("[DONE]");
    for (const line of lines) {
      expect(line).toBe(JSON.stringify(JSON.parse(line)));
      expect(line).toMatch(/^\{"text":.*,"output_ids":\[.*\],"meta_info":\{.*\},"index":0\}$/);
    }
    expect(JSON.parse(lines.at(-1)!).text).toBe(pieces.join(""));
  });

  test("a chunk that brings nothing is not sent", async () => {
    const engine = new ScriptedEngine();
    const inner = engine.generate.bind(engine);
    engine.generate = async function* (request) {
      for await (const chunk of inner(request)) {
        yield { ...chunk, text: "", tokens: [], finish: null };
        yield chunk;
      }
    };
    const response = await post(createApp(engine), "/generate", { text: "ab", stream: true });
    const chunks = await events<GenerateAnswer>(response);
    expect(chunks.map(({ text }) => text)).toEqual(["a", "ab", "ab"]);
  });

  test("a batch of one carries its index too", async () => {
    const body = { text: ["a"], stream: true };
    const chunks = await events<GenerateAnswer>(await post(scripted(), "/generate", body));
    expect(chunks.map(({ index }) => index)).toEqual([0, 0]);
  });
});

describe("chat stream", () => {
  test("every chunk has the same fields in the same order, whatever its text", async () => {
    const pieces = ['"', "text", "\n\ud83d", "\ude00", "é"];
    const body = { messages: [{ role: "user", content: "a" }], stream: true, rid: "text" };
    const response = await post(scripted({ pieces }), "/v1/chat/completions", body);
    const lines = await eventLines(response);
    expect(lines.pop()).toBe("[DONE]");
    const chunks = lines.map((line) => JSON.parse(line) as ChatEvent);
    expect(chunks.map(({ choices }) => choices[0]!.delta.content)).toEqual(["", ...pieces, null]);
    const withoutText = (line: string, { choices }: ChatEvent) =>
      line.replace(`"content":${JSON.stringify(choices[0]!.delta.content)}`, "");
    const frames = lines.map((line, i) => withoutText(line, chunks[i]!));
    expect(new Set(frames.slice(1, -1)).size).toBe(1);
    const plain = frames[1]!.replace('"role":null', '"role":"assistant"');
    expect(frames[0]).toBe(plain);
    expect(new Set(chunks.map(({ id }) => id))).toEqual(new Set(["text"]));
  });

  const messages = [{ role: "user", content: "hi" }];
  const stream = async (body: object = {}, script?: Script): Promise<ChatEvent[]> => {
    const path = "/v1/chat/completions";
    const response = await post(scripted(script), path, { messages, stream: true, ...body });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    return events<ChatEvent>(response);
  };

  test("is role, content, finish, with every documented field", async () => {
    const choice = (delta: object, finish: object = {}) => ({
      id: "r",
      object: "chat.completion.chunk",
      created: expect.any(Number),
      model: "m",
      choices: [
        {
          index: 0,
          delta: { role: null, content: null, reasoning_content: null, tool_calls: null, ...delta },
          logprobs: null,
          finish_reason: null,
          matched_stop: null,
          ...finish,
        },
      ],
      usage: null,
    });
    expect(await stream({ model: "m", rid: "r" })).toEqual([
      choice({ role: "assistant", content: "" }),
      choice({ content: "h" }),
      choice({ content: "i" }),
      choice({}, { finish_reason: "stop", matched_stop: 1 }),
    ]);
  });

  test("include_usage adds a last chunk without choices", async () => {
    const chunks = await stream({ stream_options: { include_usage: true } });
    expect(chunks.at(-1)).toMatchObject({
      object: "chat.completion.chunk",
      choices: [],
      usage: {
        prompt_tokens: 2,
        completion_tokens: 3,
        total_tokens: 5,
        prompt_tokens_details: null,
      },
    });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
  });

  test("continuous_usage_stats tells in every chunk what has been used so far", async () => {
    const stream_options = { include_usage: true, continuous_usage_stats: true };
    const chunks = await stream({ stream_options });
    const used = chunks.map(({ usage }) => usage!.completion_tokens);
    expect(used).toEqual(used.toSorted());
    expect([used[0], used.at(-1)]).toEqual([1, 3]);
    expect(new Set(chunks.map(({ usage }) => usage!.prompt_tokens))).toEqual(new Set([2]));
  });

  test("an answer without text is role and finish", async () => {
    const chunks = await stream({}, { pieces: [] });
    expect(chunks.map(({ choices }) => choices[0]!.delta.role)).toEqual(["assistant", null]);
    expect(chunks[1]!.choices[0]!.finish_reason).toBe("stop");
  });

  test("tokens without text make no chunk", async () => {
    const chunks = await stream({}, { pieces: ["a", "", "", "b"] });
    const contents = chunks.map(({ choices }) => choices[0]!.delta.content);
    expect(contents).toEqual(["", "a", "b", null]);
  });

  test("the limit is told in the finish chunk", async () => {
    const chunks = await stream({ max_tokens: 1 });
    expect(chunks.at(-1)!.choices[0]).toMatchObject({
      finish_reason: "length",
      matched_stop: null,
    });
  });
});
