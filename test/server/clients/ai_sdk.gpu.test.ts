/** The unmodified `ai` SDK against the app: the embedded model calls a tool that really runs. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { createApp } from "../../../src/server/app.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { until } from "../../support/until.ts";

interface Place {
  readonly city: string;
  readonly unit?: string;
}

const weather = vi.fn(async (_place: Place) => ({ temperature: 21, condition: "sunny" }));
const tools = {
  get_weather: tool({
    description: "Get the current weather in a city.",
    inputSchema: jsonSchema<Place>({
      type: "object",
      properties: { city: { type: "string" }, unit: { type: "string" } },
      required: ["city"],
    }),
    execute: (place) => weather(place),
  }),
};
const prompt = "What is the weather in Paris in celsius?";
const place = { city: "Paris", unit: "celsius" };

let engine: Engine;
let model: ReturnType<ReturnType<typeof createOpenAICompatible>>;

// What the endpoint does with a text is the same on every driver.
describe.skipIf(smallestCaseOnly)("ai SDK", () => {
  beforeAll(async () => {
    engine = await openEngine();
    const app = createApp(engine, { toolCallParser: "deepseekv3", reasoningParser: "deepseek-v3" });
    const provider = createOpenAICompatible({
      name: "wisp",
      baseURL: "http://wisp.test/v1",
      includeUsage: true,
      supportsStructuredOutputs: true,
      fetch: async (input, init) => app.request(input as string, init),
    });
    model = provider("tiny");
  });

  afterAll(() => engine.close());

  test("streamText calls the tool, feeds the result back, and streams the answer", async () => {
    weather.mockClear();
    const result = streamText({
      model,
      prompt,
      tools,
      temperature: 0,
      maxRetries: 0,
      stopWhen: stepCountIs(4),
      onError: ({ error }) => {
        throw error;
      },
    });
    let text = "";
    for await (const piece of result.textStream) text += piece;

    expect(weather.mock.calls).toEqual([[place]]);
    const [called, said, ...others] = await result.steps;
    expect(others).toEqual([]);
    expect(called).toMatchObject({ finishReason: "tool-calls", text: "" });
    expect(called!.toolCalls).toMatchObject([{ toolName: "get_weather", input: place }]);
    expect(called!.toolResults).toMatchObject([{ output: { temperature: 21 } }]);
    expect(said).toMatchObject({ finishReason: "stop", text, toolCalls: [] });
    expect(text).toContain("21");
    for (const { usage } of [called!, said!]) {
      expect(usage.inputTokens).toBeGreaterThan(10);
      expect(usage.outputTokens).toBeGreaterThan(5);
    }
  });

  test("generateText does the same with whole answers", async () => {
    weather.mockClear();
    const settings = { model, tools, temperature: 0, maxRetries: 0, stopWhen: stepCountIs(4) };
    const { steps, text } = await generateText({ ...settings, prompt });
    expect(weather.mock.calls).toEqual([[place]]);
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
    expect(text).toContain("21");
  });

  test("toolChoice names the tool, or forbids them", async () => {
    weather.mockClear();
    const settings = { model, prompt: "Tell me a story.", tools, maxRetries: 0, temperature: 0 };
    const named = { type: "tool", toolName: "get_weather" } as const;
    const must = await generateText({ ...settings, toolChoice: named, maxOutputTokens: 200 });
    expect(must.toolCalls.map(({ toolName }) => toolName)).toContain("get_weather");
    const none = await generateText({ ...settings, prompt, toolChoice: "none" });
    expect(none.toolCalls).toEqual([]);
  });

  test("reasoning is a part of its own", async () => {
    const { textStream, reasoningText, usage } = streamText({
      model,
      prompt: "What is 12 + 35?",
      temperature: 0,
      maxRetries: 0,
    });
    let text = "";
    for await (const piece of textStream) text += piece;
    expect(text).toBe("The answer is 47.");
    expect(await reasoningText).toContain("12 + 35 = 47");
    expect((await usage).totalTokens).toBeGreaterThan(20);
  });

  test("an output with a schema is an object that fits it", async () => {
    const schema = jsonSchema<{ readonly city: string; readonly celsius: number }>({
      type: "object",
      properties: { city: { enum: ["Paris", "Rome"] }, celsius: { enum: [20, 21] } },
      required: ["city", "celsius"],
      additionalProperties: false,
    });
    const { output } = await generateText({
      model,
      prompt: "How is the weather?",
      output: Output.object({ schema }),
      maxRetries: 0,
      temperature: 0,
    });
    expect(["Paris", "Rome"]).toContain(output.city);
    expect([20, 21]).toContain(output.celsius);
  });

  test("a refused request is an error with the server's words and status", async () => {
    const refused = generateText({ model, prompt, maxRetries: 0, topP: 7 });
    await expect(refused).rejects.toSatisfy(
      (error) =>
        APICallError.isInstance(error) &&
        error.statusCode === 400 &&
        !error.isRetryable &&
        error.responseBody!.includes("top_p"),
    );
  });

  test("an aborted stream frees what it held", async () => {
    const controller = new AbortController();
    const { textStream } = streamText({
      model,
      prompt: "Tell me a story.",
      maxRetries: 0,
      abortSignal: controller.signal,
    });
    for await (const _ of textStream) controller.abort();
    await until(() => expect(engine.status().usedTokens).toBe(0));
  });
});
