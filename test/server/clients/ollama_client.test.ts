/** The unmodified `ollama` client against all paths that it knows here, over a socket. */
import { Ollama, type Tool } from "ollama";
import { afterEach, describe, expect, test } from "vitest";
import { DeviceError } from "../../../src/errors.ts";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import {
  ScriptedEngine,
  type ScriptedEngineOptions,
} from "../../support/engines/scripted_engine.ts";
import { until } from "../../support/until.ts";
import { randomPieces } from "../../text/cuts.ts";
import { writeCalls } from "../../text/tool_calls/written_calls.ts";

const messages = [{ role: "user", content: "hello" }];
const asked = { model: "m", messages };
const PARIS = { city: "Paris" };
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools: Tool[] = [{ type: "function", function: { name: "get_weather", parameters: schema } }];
const CALL = writeCalls("deepseekv3", [{ name: "get_weather", args: PARIS }]);
const forms = { toolCallParser: "deepseekv3", reasoningParser: "deepseek-r1" } as const;
const answered = () => ({ pieces: ["hm", "mm</think>", "Let me see.", ...randomPieces(CALL, 4)] });

let server: RunningServer;
afterEach(() => server.close());

async function setUp(engineOptions: ScriptedEngineOptions = {}, options: AppOptions = {}) {
  const engine = new ScriptedEngine(engineOptions);
  const app = createApp(engine, {
    servedModelName: ["tiny", "small"],
    reportError: () => {},
    ...options,
  });
  server = await serve(app, { host: "127.0.0.1", port: 0 });
  return { engine, client: new Ollama({ host: server.url }) };
}

describe("a chat", () => {
  test("has its text, its end and its counts", async () => {
    const { client, engine } = await setUp();
    const options = {
      num_predict: 9,
      temperature: 0.5,
      num_ctx: 2048,
      repeat_penalty: 1.1,
      seed: 3,
    };
    const answer = await client.chat({ ...asked, options });
    expect(answer).toMatchObject({
      model: "m",
      message: { role: "assistant", content: "hello" },
      done: true,
      done_reason: "stop",
      prompt_eval_count: 5,
      eval_count: 6,
    });
    expect(answer.total_duration).toBeGreaterThan(0);
    expect(Date.parse(String(answer.created_at))).toBeGreaterThan(0);
    expect(engine.requests[0]).toMatchObject({
      messages,
      sampling: { maxNewTokens: 9, temperature: 0.5, repetitionPenalty: 1.1, seed: 3 },
    });
    const short = await client.chat({ ...asked, options: { num_predict: 2 } });
    expect(short.done_reason).toBe("length");
  });

  test("streams what it is as a whole: thoughts, text and calls, which come back as history", async () => {
    const { client, engine } = await setUp({ script: answered }, forms);
    const whole = await client.chat({ ...asked, tools });
    expect(whole.message).toMatchObject({
      content: "Let me see.",
      thinking: "hmmm",
      tool_calls: [{ function: { name: "get_weather", arguments: PARIS } }],
    });
    let [content, thinking] = ["", ""];
    const calls: object[] = [];
    let isDone = false;
    for await (const { message, done } of await client.chat({ ...asked, tools, stream: true })) {
      content += message.content;
      thinking += message.thinking ?? "";
      for (const { function: called } of message.tool_calls ?? []) calls.push(called);
      isDone = done;
    }
    expect({ content, thinking, isDone }).toEqual({
      content: "Let me see.",
      thinking: "hmmm",
      isDone: true,
    });
    expect(calls).toEqual([{ name: "get_weather", arguments: PARIS }]);
    const result = { role: "tool", content: "rain", tool_name: "get_weather" };
    await client.chat({ ...asked, tools, messages: [...messages, whole.message, result] });
    expect(engine.requests.at(-1)!.messages).toMatchObject([
      { role: "user" },
      {
        role: "assistant",
        reasoning_content: "hmmm",
        tool_calls: [{ function: { name: "get_weather", arguments: '{"city":"Paris"}' } }],
      },
      { role: "tool", content: "rain", name: "get_weather" },
    ]);
  });

  test("has no call that the limit cuts off", async () => {
    const finish = { type: "length", length: 9 } as const;
    const text = `Hm.<tool_call>\n{"name": "get_weather", "arguments": {"city": "Pa`;
    const script = () => ({ pieces: randomPieces(text, 4), finish });
    const { client } = await setUp({ script }, { toolCallParser: "qwen25" });
    const whole = await client.chat({ ...asked, tools });
    expect(whole).toMatchObject({ done_reason: "length", message: { content: "Hm." } });
    expect(whole.message.tool_calls).toBeUndefined();
    for await (const { message } of await client.chat({ ...asked, tools, stream: true }))
      expect(message.tool_calls).toBeUndefined();
  });

  test("fits its schema, and thinks as it is asked to", async () => {
    const model = { thinkingVariables: ["thinking", "reasoning_effort"] };
    const { client, engine } = await setUp({ model }, forms);
    await client.chat({ ...asked, format: schema, think: false });
    await client.chat({ ...asked, format: "json", think: "high" });
    expect(engine.requests).toMatchObject([
      { sampling: { jsonSchema: schema }, templateVariables: { thinking: false } },
      {
        sampling: { jsonSchema: { type: "object" } },
        templateVariables: { reasoning_effort: "high" },
      },
    ]);
  });

  test("that its client aborts ends its generation", async () => {
    const gate = (chunk: number) => (chunk < 2 ? Promise.resolve() : new Promise<void>(() => {}));
    const { client, engine } = await setUp({
      script: () => ({ pieces: ["one", "two", "three"], gate }),
    });
    const stream = await client.chat({ ...asked, stream: true });
    const reading = (async () => {
      for await (const _ of stream) client.abort();
    })();
    await expect(reading).rejects.toThrow(/abort/i);
    await until(() => expect(engine.cutShort).toHaveLength(1));
  });
});

test("a prompt is a user's message, or raw", async () => {
  const { client, engine } = await setUp();
  const answer = await client.generate({ model: "m", prompt: "hello", system: "Be brief" });
  expect(answer).toMatchObject({ response: "hello", done: true, done_reason: "stop" });
  let text = "";
  const raw = { model: "m", prompt: "abc", raw: true, stream: true } as const;
  for await (const { response } of await client.generate(raw)) text += response;
  expect(text).toBe("abc");
  const [first, second] = engine.requests;
  expect(first!.messages).toEqual([{ role: "system", content: "Be brief" }, ...messages]);
  expect(second).toMatchObject({ prompt: "abc" });
  expect(second!.messages).toBeUndefined();
});

test("the names of the model are listed, and what is on the device", async () => {
  const { client } = await setUp();
  expect((await client.list()).models.map(({ name }) => name)).toEqual(["tiny", "small"]);
  const [running] = (await client.ps()).models;
  expect(running).toMatchObject({ name: "tiny", size_vram: 2 ** 30 + 2 ** 29 });
});

test("a model is shown with what it can do, and the server's version is told", async () => {
  const { client } = await setUp(
    { model: { readsImages: true } },
    { ...forms, description: { version: "1.2.3" } },
  );
  const shown = await client.show({ model: "small" });
  expect(shown.capabilities).toEqual(["completion", "tools", "thinking", "vision"]);
  expect(shown.model_info).toMatchObject({ "scripted.context_length": 4096 });
  expect(shown.details.family).toBe("scripted");
  await expect(client.show({ model: "other" })).rejects.toThrow('Cannot find the model "other"');
  expect(await client.version()).toEqual({ version: "1.2.3" });
});

describe("an error", () => {
  test.each<[object, string]>([
    [{ messages: [{ role: "user", content: "a", images: ["aGk="] }] }, "messages[0].images"],
    [{ options: { num_keep: 3, mirostat: 2 } }, "Cannot use options.mirostat"],
    [{ options: { top_p: 7 } }, "options.top_p must be above 0 and at most 1"],
    [{ options: { num_predict: 5000 } }, "maximum context length"],
    [{ think: "much" }, "think must be true, false, low, medium or high"],
    [{ format: "xml" }, 'format must be "json" or a schema'],
    [{ seed: 3 }, "Cannot use seed: it is not a known field"],
  ])("about %j names it", async (fields, sentence) => {
    const { client } = await setUp();
    await expect(client.chat({ ...asked, ...fields })).rejects.toThrow(sentence);
  });

  test("about thinking with a raw prompt names it", async () => {
    const { client } = await setUp({ model: { thinkingVariables: ["thinking"] } }, forms);
    const asked = { model: "m", prompt: "abc", raw: true, think: false };
    await expect(client.generate(asked)).rejects.toThrow("Cannot use think: the prompt is raw");
  });

  test("in the middle of a stream is its last line", async () => {
    const failure = { at: 2, error: new DeviceError("The GPU was lost") };
    const { client } = await setUp({
      script: () => ({ pieces: ["one", "two", "three"], failure }),
    });
    const reading = (async () => {
      for await (const _ of await client.chat({ ...asked, stream: true }));
    })();
    await expect(reading).rejects.toThrow("The GPU was lost");
  });
});
