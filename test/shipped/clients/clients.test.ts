/** Unmodified clients of other interfaces against the installed server and the model in the package. */
import Anthropic from "@anthropic-ai/sdk";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import { Ollama } from "ollama";
import OpenAI from "openai";
import { expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { server, withServer } from "../support/server.ts";

withServer();

const question = "What is 17 + 25?";
const messages = [{ role: "user" as const, content: question }];
const schema = {
  type: "object",
  properties: { sum: { type: "integer", minimum: 0, maximum: 99 } },
  required: ["sum"],
  additionalProperties: false,
} as const;
const add = {
  name: "add",
  description: "Adds two numbers",
  parameters: {
    type: "object" as const,
    properties: { a: { type: "integer", minimum: 0, maximum: 99 } },
    required: ["a"],
    additionalProperties: false,
  },
};

const anthropic = () =>
  new Anthropic({ baseURL: server.url, apiKey: "none", authToken: null, maxRetries: 0 });
const openai = () => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
/** Newer types have left it out. */
const GREEDY = { temperature: 0 };
const asked = { model: "m", messages, max_tokens: 100, ...GREEDY };
const response = { model: "m", input: question, temperature: 0, max_output_tokens: 100 };

const running = async () => {
  const load = await server.get("/get_load");
  return ((await load.json()) as { load: number }).load;
};

test("@anthropic-ai/sdk chats, and streams the same", async () => {
  const client = anthropic();
  const whole = await client.messages.create(asked);
  expect(whole.stop_reason).toBe("end_turn");
  const said = whole.content.map((block) => (block.type === "text" ? block.text : "")).join("");
  expect(said).toContain("42");
  const counted = await client.messages.countTokens({ model: "m", messages });
  expect(whole.usage.input_tokens).toBe(counted.input_tokens);
  const stream = client.messages.stream(asked);
  const streamed = await stream.finalMessage();
  const unsigned = ({ content }: Anthropic.Message) =>
    content.map((block) => ({ ...block, signature: null }));
  expect(unsigned(streamed)).toEqual(unsigned(whole));
  expect(streamed.usage).toMatchObject({ output_tokens: whole.usage.output_tokens });
});

test("@anthropic-ai/sdk sees a thought end at its budget", async () => {
  const { content, usage } = await anthropic().messages.create({
    ...asked,
    thinking: { type: "enabled", budget_tokens: 5 },
  });
  expect(content.map(({ type }) => type)).toEqual(["thinking", "text"]);
  // With the mark behind it.
  expect(usage.output_tokens_details!.thinking_tokens).toBeLessThanOrEqual(6);
});

test("@anthropic-ai/sdk calls a tool, and has an answer in its form", async () => {
  const client = anthropic();
  const tools = [{ name: add.name, description: add.description, input_schema: add.parameters }];
  const { content, stop_reason } = await client.messages.create({
    ...asked,
    tools,
    tool_choice: { type: "tool", name: "add" },
  });
  expect(stop_reason).toBe("tool_use");
  const call = content.find((block) => block.type === "tool_use")!;
  expect(call.input).toEqual({ a: expect.any(Number) });
  const history: Anthropic.MessageParam[] = [
    ...messages,
    { role: "assistant", content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "42" }] },
  ];
  const answer = await client.messages.create({ ...asked, tools, messages: history });
  expect(answer.content.length).toBeGreaterThan(0);
  const format = jsonSchemaOutputFormat(schema);
  const thinking = { type: "enabled", budget_tokens: 5 } as const;
  const parsed = await client.messages.parse({ ...asked, thinking, output_config: { format } });
  expect(parsed.parsed_output).toEqual({ sum: expect.any(Number) });
});

test("openai has a response, streams the same, and goes on from it", async () => {
  const client = openai();
  const whole = await client.responses.create(response);
  expect(whole.status).toBe("completed");
  expect(whole.output_text).toContain("42");
  const final = await client.responses.stream(response).finalResponse();
  expect(final.output_text).toBe(whole.output_text);
  const kept = await client.responses.retrieve(whole.id);
  expect(kept.output_text).toBe(whole.output_text);
  const next = await client.responses.create({
    ...response,
    input: "And now?",
    previous_response_id: whole.id,
  });
  // The chat template leaves out what was thought.
  expect(next.usage!.input_tokens).toBeGreaterThan(whole.usage!.input_tokens);
  await client.responses.delete(whole.id);
  await expect(client.responses.retrieve(whole.id)).rejects.toThrow("is not kept here");
});

test("openai's response calls a tool, and has an answer in its form", async () => {
  const client = openai();
  const tools = [{ type: "function" as const, ...add, strict: true }];
  const { output } = await client.responses.create({ ...response, tools, tool_choice: "required" });
  const call = output.find((item) => item.type === "function_call")!;
  expect(JSON.parse(call.arguments)).toEqual({ a: expect.any(Number) });
  const format = { type: "json_schema", name: "sum", schema, strict: true } as const;
  const reasoning = { max_tokens: 5 } as OpenAI.Reasoning;
  const parsed = await client.responses.parse({ ...response, reasoning, text: { format } });
  expect(parsed.output_parsed).toEqual({ sum: expect.any(Number) });
});

test("ollama chats, streams the same, and has an answer in its form", async () => {
  const client = new Ollama({ host: server.url });
  const chat = { model: "m", messages, options: { temperature: 0, num_predict: 100 } };
  const whole = await client.chat(chat);
  expect(whole.done_reason).toBe("stop");
  expect(whole.message.content).toContain("42");
  let content = "";
  for await (const piece of await client.chat({ ...chat, stream: true })) {
    content += piece.message.content;
  }
  expect(content).toBe(whole.message.content);
  const formed = await client.chat({ ...chat, think: false, format: schema });
  expect(JSON.parse(formed.message.content)).toEqual({ sum: expect.any(Number) });
  const tools = [{ type: "function", function: add }];
  expect((await client.chat({ ...chat, tools })).done).toBe(true);
  expect((await client.list()).models).toHaveLength(1);
});

test("streams of both end their generations when they are aborted", async () => {
  const endless = "Repeat after me: one two three four five six seven eight nine ten";
  const message = anthropic().messages.stream({
    ...asked,
    messages: [{ role: "user", content: endless }],
    max_tokens: 2000,
  });
  message.on("streamEvent", () => message.abort());
  await expect(message.finalMessage()).rejects.toThrow(Anthropic.APIUserAbortError);
  const answer = openai().responses.stream({
    ...response,
    input: endless,
    max_output_tokens: 2000,
  });
  answer.on("event", () => answer.abort());
  await expect(answer.finalResponse()).rejects.toThrow(OpenAI.APIUserAbortError);
  await until(async () => expect(await running()).toBe(0));
});
