/**
 * Unmodified clients of OpenAI's interface against the installed server and the model in the package:
 * each chats, streams, calls a tool, has an answer in a form, and aborts, over a socket.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { HumanMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, tool as agentTool, OpenAIProvider, Runner } from "@openai/agents";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { Ollama } from "ollama";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { until } from "../../support/until.ts";
import { server, withServer } from "../support/server.ts";

withServer();

const question = "What is 17 + 25?";
const weather = "What is the weather in Paris in celsius?";
const endless = "Repeat after me: one two three four five six seven eight nine ten";
const description = "Get the current weather in a city.";
const Place = z.object({ city: z.string(), unit: z.string().nullable() });
const PLACE = z.toJSONSchema(Place) as Record<string, unknown>;
const Sum = z.object({ sum: z.int().min(0).max(99) });
const SUNNY = "21 degrees and sunny";
const HOT = 1.5;

const running = async () => {
  const load = await server.get("/get_load");
  return ((await load.json()) as { num_reqs: number }).num_reqs;
};

const isIdle = () => until(async () => expect(await running()).toBe(0));
const base = () => `${server.url}/v1`;

describe("openai", () => {
  const client = () => new OpenAI({ baseURL: base(), apiKey: "none", maxRetries: 0 });
  const chat = { model: "m", messages: [{ role: "user" as const, content: question }] };
  const asked = { ...chat, temperature: 0, max_tokens: 100 };

  test("chats, and streams the same", async () => {
    const { choices } = await client().chat.completions.create(asked);
    const said = choices[0]!.message.content;
    expect(said).toContain("42");
    const stream = client().chat.completions.stream(asked);
    expect((await stream.finalChatCompletion()).choices[0]!.message.content).toBe(said);
  });

  test("runs a tool to the answer, and parses an answer of a form", async () => {
    const runner = client().chat.completions.runTools({
      ...asked,
      messages: [{ role: "user", content: weather }],
      tools: [
        {
          type: "function",
          function: {
            name: "get_weather",
            description,
            parameters: PLACE,
            parse: (text: string): unknown => JSON.parse(text),
            function: () => SUNNY,
          },
        },
      ],
    });
    expect(await runner.finalContent()).toContain("21");
    const schema = z.toJSONSchema(Sum) as Record<string, unknown>;
    const parsed = await client().chat.completions.parse({
      ...asked,
      response_format: { type: "json_schema", json_schema: { name: "sum", schema, strict: true } },
    });
    expect(Sum.parse(JSON.parse(parsed.choices[0]!.message.content!))).toBeDefined();
  });

  test("ends its generation when its stream is aborted", async () => {
    const messages = [{ role: "user" as const, content: endless }];
    const body = { model: "m", messages, temperature: HOT, max_tokens: 2000 };
    const stream = client().chat.completions.stream(body);
    stream.on("chunk", () => stream.abort());
    await expect(stream.finalChatCompletion()).rejects.toThrow(OpenAI.APIUserAbortError);
    await isIdle();
  });
});

describe("ai", () => {
  const settings = () => {
    const options = { name: "wisp", baseURL: base(), supportsStructuredOutputs: true };
    return { model: createOpenAICompatible(options)("m"), maxRetries: 0, temperature: 0 };
  };
  const tools = {
    get_weather: tool({
      description,
      inputSchema: jsonSchema<object>(PLACE),
      execute: async () => SUNNY,
    }),
  };

  test("chats, and streams the same", async () => {
    const { text } = await generateText({ ...settings(), prompt: question });
    expect(text).toContain("42");
    expect(await streamText({ ...settings(), prompt: question }).text).toBe(text);
  });

  test("runs a tool to the answer, and has an output of a schema", async () => {
    const stopWhen = stepCountIs(3);
    const { text } = await generateText({ ...settings(), prompt: weather, tools, stopWhen });
    expect(text).toContain("21");
    const output = Output.object({ schema: Sum });
    expect((await generateText({ ...settings(), prompt: question, output })).output).toEqual({
      sum: expect.any(Number),
    });
  });

  test("ends its generation when it is aborted", async () => {
    const abort = new AbortController();
    const { signal: abortSignal } = abort;
    const asked = { ...settings(), prompt: endless, temperature: HOT, abortSignal };
    const types: string[] = [];
    for await (const { type } of streamText(asked).fullStream) {
      types.push(type);
      if (/-delta$/.test(type)) abort.abort();
    }
    expect(types.at(-1)).toBe("abort");
    await isIdle();
  });
});

describe.each([
  ["@openai/agents over responses", true],
  ["@openai/agents over chat completions", false],
])("%s", (_, useResponses) => {
  const runner = () => {
    const openAIClient = new OpenAI({ baseURL: base(), apiKey: "none", maxRetries: 0 });
    const modelProvider = new OpenAIProvider({ openAIClient, useResponses });
    return new Runner({ modelProvider, tracingDisabled: true });
  };
  const modelSettings = { temperature: 0, maxTokens: 100 };
  const assistant = { name: "Assistant", model: "m", modelSettings };
  const get_weather = agentTool({
    name: "get_weather",
    description,
    parameters: Place,
    execute: async () => SUNNY,
  });

  test("chats, and streams the same", async () => {
    const agent = new Agent(assistant);
    const { finalOutput } = await runner().run(agent, question);
    expect(finalOutput).toContain("42");
    const streamed = await runner().run(agent, question, { stream: true });
    let text = "";
    for await (const piece of streamed.toTextStream()) text += piece;
    expect(text).toBe(finalOutput);
  });

  test("runs a tool to the answer, and has an output of a type", async () => {
    const agent = new Agent({ ...assistant, tools: [get_weather] });
    const { finalOutput, newItems } = await runner().run(agent, weather);
    expect(newItems.map(({ type }) => type)).toContain("tool_call_output_item");
    expect(finalOutput).toContain("21");
    const typed = new Agent({ ...assistant, outputType: Sum });
    expect((await runner().run(typed, question)).finalOutput).toEqual({ sum: expect.any(Number) });
  });

  test("ends its generation when its run is aborted", async () => {
    const abort = new AbortController();
    const agent = new Agent({
      ...assistant,
      modelSettings: { temperature: HOT, maxTokens: 2000 },
    });
    const { signal } = abort;
    const streamed = await runner().run(agent, endless, { stream: true, signal });
    for await (const _ of streamed) abort.abort();
    await streamed.completed.catch(() => {});
    await isIdle();
  });
});

describe("@langchain/openai", () => {
  const model = (temperature = 0) =>
    new ChatOpenAI({
      model: "m",
      apiKey: "none",
      temperature,
      maxTokens: 1000,
      maxRetries: 0,
      configuration: { baseURL: base() },
    });

  test("chats, and streams the same", async () => {
    const { text } = await model().invoke(question);
    expect(text).toContain("42");
    let streamed = "";
    for await (const piece of await model().stream(question)) streamed += piece.text;
    expect(streamed).toBe(text);
  });

  test("calls a tool and answers with its result, and has an output of a schema", async () => {
    const get_weather = langchainTool(async () => SUNNY, {
      name: "get_weather",
      description,
      schema: Place,
    });
    const bound = model().bindTools([get_weather]);
    const asked = new HumanMessage(weather);
    const called = await bound.invoke([asked]);
    expect(called.tool_calls).toMatchObject([{ name: "get_weather", args: { city: "Paris" } }]);
    const result = await get_weather.invoke(called.tool_calls![0]!);
    expect((await bound.invoke([asked, called, result])).text).toContain("21");
    const formed = model().withStructuredOutput(Sum, { method: "jsonSchema" });
    expect(await formed.invoke(question)).toEqual({ sum: expect.any(Number) });
  });

  test("ends its generation when its stream is aborted", async () => {
    const abort = new AbortController();
    const { signal } = abort;
    const reading = (async () => {
      for await (const _ of await model(HOT).stream(endless, { signal })) abort.abort();
    })();
    await expect(reading).rejects.toThrow();
    await isIdle();
  });
});

describe("ollama", () => {
  test("calls a tool, answers with its result, and ends its generation when it is aborted", async () => {
    const client = new Ollama({ host: server.url });
    const shown = { name: "get_weather", description, parameters: PLACE };
    const tools = [{ type: "function", function: shown }];
    const options = { temperature: 0, num_predict: 200 };
    const messages = [{ role: "user", content: weather }];
    const { message } = await client.chat({ model: "m", messages, tools, options });
    expect(message.tool_calls![0]!.function).toMatchObject({
      name: "get_weather",
      arguments: { city: "Paris" },
    });
    const result = { role: "tool", content: SUNNY, tool_name: "get_weather" };
    const told = await client.chat({
      model: "m",
      messages: [...messages, message, result],
      tools,
      options,
    });
    expect(told.message.content).toContain("21");
    const stream = await client.chat({
      model: "m",
      messages: [{ role: "user", content: endless }],
      options: { temperature: HOT, num_predict: 2000 },
      stream: true,
    });
    const reading = (async () => {
      for await (const _ of stream) stream.abort();
    })();
    await expect(reading).rejects.toThrow();
    await isIdle();
  });
});
