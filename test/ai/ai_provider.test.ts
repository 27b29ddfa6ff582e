/** The unmodified `ai` SDK over `wisp-llm/ai`: every kind of part, setting and end, without a server. */
import type { LanguageModelV3, ProviderV3 } from "@ai-sdk/provider";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { expect, test } from "vitest";
import { createWisp } from "../../src/ai/index.ts";
import { openaiChat } from "../../src/server/openai_chat.ts";
import { type Script, ScriptedEngine } from "../support/engines/scripted_engine.ts";
import { writePng } from "../support/images/write_png.ts";
import { until } from "../support/until.ts";

const CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 12}}\n</tool_call>';
const ANSWER = ["<think>", "Hm", ".", "</think>", "Adding.", ...CALL];
const inputSchema = jsonSchema<{ readonly a: number }>({
  type: "object",
  properties: { a: { type: "integer" } },
});
const tools = { add: tool({ description: "Adds", inputSchema, execute: ({ a }) => a + 30 }) };
const maxRetries = 0;
const PNG = writePng({ colorType: 0, bitDepth: 8, width: 2, height: 2, sample: () => 7 });

function setUp(script: (prompt: number) => Script = () => ({ pieces: ["Hi"] })) {
  let prompts = 0;
  const engine = new ScriptedEngine({
    model: { family: "qwen3", readsImages: true },
    script: () => script(prompts++),
  });
  const wisp: ProviderV3 & (() => LanguageModelV3) = createWisp({
    model: engine.model,
    chat: openaiChat(engine),
  });
  return { engine, wisp, model: wisp() };
}

const twoSteps = (prompt: number): Script => ({ pieces: prompt === 0 ? ANSWER : ["42"] });

test("generateText calls the tool, feeds the result back, and has the answer", async () => {
  const { engine, model } = setUp(twoSteps);
  const { steps, text } = await generateText({
    model,
    maxRetries,
    tools,
    stopWhen: stepCountIs(3),
    prompt: "12 + 30?",
  });
  expect(text).toBe("42");
  const [first] = steps;
  expect(first).toMatchObject({
    reasoningText: "Hm.",
    text: "Adding.",
    finishReason: "tool-calls",
  });
  expect(first!.toolResults).toMatchObject([{ toolName: "add", input: { a: 12 }, output: 42 }]);
  expect(first!.response).toMatchObject({ modelId: "models/scripted" });
  expect(first!.usage.outputTokens).toBe(ANSWER.length + 1);
  expect(first!.usage.outputTokenDetails.reasoningTokens).toBeGreaterThan(0);
  const [, said, told] = engine.requests[1]!.messages!;
  expect(said).toMatchObject({ role: "assistant", content: "Adding.", reasoning_content: "Hm." });
  expect(told).toMatchObject({ role: "tool", content: "42" });
});

test("streamText has the parts of the same answer, in order", async () => {
  const { model } = setUp(twoSteps);
  const asked = { model, maxRetries, tools, prompt: "12 + 30?", includeRawChunks: true };
  const { fullStream } = streamText(asked);
  const types: string[] = [];
  for await (const { type } of fullStream) types.push(type);
  const settled = types.filter((type) => type !== "raw");
  expect(settled.filter((type, i) => type !== settled[i - 1])).toEqual([
    ...["start", "start-step"],
    ...["reasoning-start", "reasoning-delta", "reasoning-end"],
    ...["text-start", "text-delta", "text-end"],
    ...["tool-input-start", "tool-input-delta", "tool-input-end", "tool-call", "tool-result"],
    ...["finish-step", "finish"],
  ]);
  expect(types).toContain("raw");
});

test("settings reach the engine, and providerOptions.wisp the body", async () => {
  const { engine, model } = setUp();
  await generateText({
    model,
    maxRetries,
    system: "Be brief",
    prompt: "Hi",
    maxOutputTokens: 7,
    temperature: 0.5,
    topP: 0.9,
    topK: 3,
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    seed: 4,
    stopSequences: ["x"],
    providerOptions: { wisp: { min_p: 0.05 } },
  });
  const { sampling, messages } = engine.requests[0]!;
  expect(sampling).toMatchObject({
    maxNewTokens: 7,
    temperature: 0.5,
    topP: 0.9,
    topK: 3,
    minP: 0.05,
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    seed: 4,
    stop: ["x"],
  });
  expect(messages![0]).toMatchObject({ role: "system", content: "Be brief" });
});

test("an output with a schema is held to it; a picture reaches the model", async () => {
  const { engine, model } = setUp(() => ({ pieces: ['{"sum":', "42}"] }));
  const schema = jsonSchema<{ readonly sum: number }>({
    type: "object",
    properties: { sum: { type: "integer" } },
  });
  const { output } = await generateText({
    model,
    maxRetries,
    output: Output.object({ schema }),
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "Sum?" },
          { type: "image", image: PNG },
        ],
      },
    ],
  });
  expect(output).toEqual({ sum: 42 });
  const { constraint, sampling, images } = engine.requests[0]!;
  expect(JSON.stringify([constraint, sampling])).toContain("sum");
  expect(images).toEqual([new Uint8Array(PNG)]);
});

test("toolChoice names a tool, or forbids all", async () => {
  const { engine, model } = setUp(twoSteps);
  const asked = { model, maxRetries, tools, prompt: "12 + 30?" };
  const toolChoice = { type: "tool", toolName: "add" } as const;
  await generateText({ ...asked, toolChoice });
  expect(JSON.parse(engine.requests[0]!.constraint!.source)).toMatchObject({ required: true });
  await generateText({ ...asked, toolChoice: "none" });
  expect(engine.requests[1]!.tools).toBeUndefined();
});

test("an abort ends the generation, whole and streamed; so does a reader that leaves", async () => {
  const gate = (chunk: number) => (chunk < 2 ? Promise.resolve() : new Promise<void>(() => {}));
  const { engine, model } = setUp(() => ({ pieces: ["one", "two", "three"], gate }));
  const asked = { model, maxRetries, prompt: "Count" };
  const abort = new AbortController();
  const whole = generateText({ ...asked, abortSignal: abort.signal });
  const refused = expect(whole).rejects.toMatchObject({ name: "AbortError" });
  await until(() => expect(engine.running).toHaveLength(1));
  abort.abort();
  await refused;
  const streaming = new AbortController();
  const types: string[] = [];
  for await (const part of streamText({ ...asked, abortSignal: streaming.signal }).fullStream) {
    types.push(part.type);
    if (part.type === "text-delta") streaming.abort();
  }
  expect(types.at(-1)).toBe("abort");
  const { stream } = await model.doStream({
    prompt: [{ role: "user", content: [{ type: "text", text: "Count" }] }],
  });
  const reader = stream.getReader();
  for (let i = 0; i < 4; i++) await reader.read();
  await reader.cancel();
  await until(() => expect(engine.cutShort).toHaveLength(3));
  expect(engine.running).toEqual([]);
});

test("failures are the SDK's: before the answer, and within it", async () => {
  const failure = { at: 1, error: new Error("The GPU was lost") };
  const { model, wisp } = setUp(() => ({ pieces: ["one", "two"], failure }));
  const refused = generateText({ model, maxRetries, prompt: "Hi", topP: 7 });
  await expect(refused).rejects.toThrow("top_p must be above 0 and at most 1, got 7");
  const errors: unknown[] = [];
  const onError = ({ error }: { readonly error: unknown }) => void errors.push(error);
  const { fullStream } = streamText({ model, maxRetries, prompt: "Hi", onError });
  const types: string[] = [];
  for await (const { type } of fullStream) types.push(type);
  expect(types).toContain("text-delta");
  expect(errors).toHaveLength(1);
  expect(() => wisp.embeddingModel("any")).toThrow("Cannot use an embedding model");
});

test("what no model reads is refused, and a provider's own tool is warned of", async () => {
  const { model } = setUp();
  const data = new Uint8Array(3);
  const audio = generateText({
    model,
    maxRetries,
    messages: [{ role: "user", content: [{ type: "file", data, mediaType: "audio/mp3" }] }],
  });
  await expect(audio).rejects.toThrow('a part "audio/mp3" of a message');
  const { warnings } = await model.doGenerate({
    prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
    tools: [{ type: "provider", id: "other.search", name: "search", args: {} }],
  });
  expect(warnings).toEqual([{ type: "unsupported", feature: "the provider's tool other.search" }]);
});
