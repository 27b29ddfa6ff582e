/** Section 2.3 of the specification: the body of `POST /v1/chat/completions`. */
import { describe, expect, test } from "vitest";
import type { ModelDescription } from "../../../src/generation.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";

const PATH = "/v1/chat/completions";
const HELLO = [{ role: "user", content: "hello" }];

async function asked(body: object, model: Partial<ModelDescription> = {}) {
  const engine = new ScriptedEngine({ model });
  const response = await post(createApp(engine), PATH, body);
  expect(await response.clone().text()).toContain("chat.completion");
  expect(response.status).toBe(200);
  return engine.requests[0]!;
}

async function refusal(body: unknown): Promise<string> {
  const engine = new ScriptedEngine();
  const response = await post(createApp(engine), PATH, body);
  expect(response.status).toBe(400);
  expect(engine.requests).toEqual([]);
  return errorMessage(response);
}

describe("messages", () => {
  test("go to the engine as they are", async () => {
    const messages = [
      { role: "system", content: "be brief" },
      { role: "user", content: "1+1?", name: "Ada" },
      { role: "assistant", content: "2" },
      { role: "user", content: "sure?" },
    ];
    expect((await asked({ messages })).messages).toEqual(messages);
  });

  test("text parts are joined with one space", async () => {
    const content = [
      { type: "text", text: "one" },
      { type: "text", text: "two" },
    ];
    const { messages } = await asked({ messages: [{ role: "user", content }] });
    expect(messages![0]!.content).toBe("one two");
  });

  test("roles are read in any case, developer as system and function as tool", async () => {
    const messages = ["SYSTEM", "developer", "User", "function"].map((role) => ({
      role,
      content: "x",
    }));
    const roles = (await asked({ messages })).messages!.map(({ role }) => role);
    expect(roles).toEqual(["system", "system", "user", "tool"]);
  });

  test("tool calls and their results are history", async () => {
    const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
    const { messages } = await asked({
      messages: [
        ...HELLO,
        { role: "assistant", content: null, tool_calls: [{ ...call, index: 0 }] },
        { role: "tool", tool_call_id: "call_1", content: "42" },
      ],
    });
    expect(messages!.slice(1)).toEqual([
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "call_1", content: "42" },
    ]);
  });

  test("an assistant's reasoning is history", async () => {
    const assistant = { role: "assistant", content: "4", reasoning_content: "2 + 2" };
    const { messages } = await asked({ messages: [...HELLO, assistant, ...HELLO] });
    expect(messages![1]).toEqual(assistant);
    const nothing = { ...assistant, reasoning_content: "" };
    const later = await asked({ messages: [...HELLO, nothing, ...HELLO] });
    expect(later.messages![1]).toEqual({ role: "assistant", content: "4" });
  });

  test.each(["system", "tool", "assistant"])("the role %s may have said nothing", async (role) => {
    const { messages } = await asked({ messages: [{ role, content: null }, ...HELLO] });
    expect(messages![0]).toEqual({ role, content: null });
  });

  test("an answer may come back with all its nulls", async () => {
    const assistant = { role: "assistant", content: null, reasoning_content: null };
    const message = { ...assistant, tool_calls: null, refusal: null, annotations: [] };
    const { messages } = await asked({ messages: [...HELLO, message, ...HELLO] });
    expect(messages![1]).toEqual({ role: "assistant", content: null });
  });

  test.each([
    [undefined, "Cannot chat: messages is missing"],
    [null, "Cannot chat: messages is missing"],
    [[], "messages cannot be empty"],
    ["hi", 'messages must be a list, got "hi"'],
    [["hi"], 'messages[0] must be an object, got "hi"'],
    [[{ content: "x" }], "Cannot read the message: messages[0].role is missing"],
    [[{ role: "bot", content: "x" }], "messages[0].role must be one of system, developer"],
    [[{ role: "user" }], "messages[0].content must be a string or a list of parts"],
    [[{ role: "user", content: 1 }], "messages[0].content must be a string or a list of parts"],
    [[{ role: "user", content: [] }], "messages[0].content cannot be empty"],
    [[{ role: "user", content: ["x"] }], 'messages[0].content[0] must be an object, got "x"'],
    [
      [{ role: "user", content: [{}] }],
      "Cannot read messages[0].content[0]: messages[0].content[0].type is missing",
    ],
    [
      [{ role: "user", content: [{ type: "text" }] }],
      "Cannot read messages[0].content[0]: messages[0].content[0].text is missing",
    ],
    [[{ role: "user", content: "x", mood: 1 }], "Cannot use messages[0].mood: it is not a known"],
    [[{ role: "user", content: "x", tool_calls: [{}] }], "Cannot use messages[0].tool_calls: only"],
    [
      [{ role: "user", content: "x", reasoning_content: "y" }],
      "Cannot use messages[0].reasoning_content: only messages of the role assistant have it",
    ],
    [
      [{ role: "assistant", tool_calls: [{ type: "function" }] }],
      "messages[0].tool_calls[0].function must be an object, got nothing",
    ],
    [
      [{ role: "assistant", tool_calls: [{ function: { name: "f", arguments: {} } }] }],
      "messages[0].tool_calls[0].function.arguments must be a string, got an object",
    ],
  ])("%j is refused", async (messages, message) => {
    expect(await refusal({ messages })).toContain(message);
  });

  test("an image is refused and named", async () => {
    const content = [{ type: "image_url", image_url: { url: "data:," } }];
    const message = await refusal({ messages: [{ role: "user", content }] });
    expect(message).toBe(
      "Cannot use messages[0].content[0].image_url.url: the model reads text only",
    );
  });
});

describe("sampling fields", () => {
  test.each([
    [{}, { temperature: 1, topP: 1, maxNewTokens: null }],
    [{ max_tokens: 5 }, { maxNewTokens: 5 }],
    [{ regex: "a+" }, { regex: "a+" }],
    [{ ebnf: 'root ::= "a"' }, { ebnf: 'root ::= "a"' }],
    [{ max_completion_tokens: 6 }, { maxNewTokens: 6 }],
    [{ max_tokens: 5, max_completion_tokens: 6 }, { maxNewTokens: 6 }],
    [
      { temperature: 0, top_p: 0.5, top_k: 4 },
      { temperature: 0, topP: 0.5, topK: 4 },
    ],
    [
      { frequency_penalty: 1, presence_penalty: -1, repetition_penalty: 1.1, min_p: 0.1 },
      { frequencyPenalty: 1, presencePenalty: -1, repetitionPenalty: 1.1, minP: 0.1 },
    ],
    [
      { logit_bias: { "5": 1 }, min_tokens: 3, no_stop_trim: true },
      { logitBias: { 5: 1 }, minNewTokens: 3, noStopTrim: true },
    ],
    [
      { max_tokens: 4, min_tokens: 0 },
      { maxNewTokens: 4, minNewTokens: 0 },
    ],
    [
      { stop: ["a"], stop_token_ids: [7] },
      { stop: ["a"], stopTokenIds: [7] },
    ],
    [
      { ignore_eos: true, max_tokens: 2 },
      { ignoreEos: true, maxNewTokens: 2 },
    ],
    [
      { seed: 7, skip_special_tokens: false },
      { seed: 7, skipSpecialTokens: false },
    ],
  ])("%j reaches the engine", async (fields, sampling) => {
    expect((await asked({ messages: HELLO, ...fields })).sampling).toMatchObject(sampling);
  });

  test("start from the model's own defaults", async () => {
    const defaults = { temperature: 0.6, topP: 0.95, topK: 20 };
    const { sampling } = await asked({ messages: HELLO }, { defaults });
    expect(sampling).toEqual({ ...defaults, maxNewTokens: null });
    const own = await asked({ messages: HELLO, temperature: 0, top_k: -1 }, { defaults });
    expect(own.sampling).toEqual({ temperature: 0, topP: 0.95, topK: -1, maxNewTokens: null });
  });

  test.each([
    [{ max_tokens: 0 }, "max_tokens must be at least 1, got 0"],
    [{ max_completion_tokens: -1 }, "max_completion_tokens must be at least 1, got -1"],
    [{ temperature: -1 }, "temperature must be at least 0, got -1"],
    [{ min_p: 2 }, "min_p must be at least 0 and at most 1, got 2"],
    [{ min_tokens: 3, max_tokens: 3 }, "min_tokens must be 0 or below the 3 tokens allowed, got 3"],
    [{ repetition_penalty: -1 }, "repetition_penalty must be at least 0 and at most 2, got -1"],
    [{ logit_bias: 5 }, "logit_bias must be an object, got 5"],
    [{ logprobs: 1 }, "logprobs must be true or false, got 1"],
    [
      { logprobs: true, top_logprobs: 21 },
      "top_logprobs must be at least 0 and at most 20, got 21",
    ],
    [{ top_logprobs: 2 }, "Cannot use top_logprobs: logprobs is not true"],
    [{ top_p: 0 }, "top_p must be above 0 and at most 1, got 0"],
    [{ top_k: 0 }, "top_k must be -1 or at least 1, got 0"],
    [{ seed: "x" }, 'seed must be an integer, got "x"'],
    [{ stop: [2] }, "stop[0] must be a string, got 2"],
    [{ model: 1 }, "model must be a string, got 1"],
    [{ stream: "yes" }, 'stream must be true or false, got "yes"'],
    [{ rid: "" }, "rid cannot be empty"],
    [{ stream: true, stream_options: [] }, "stream_options must be an object, got an empty list"],
    [{ stream_options: { x: 1 } }, "Cannot use stream_options.x: it is not a known"],
    [{ stream: true, stream_options: { x: 1 } }, "Cannot use stream_options.x: it is not a known"],
  ])("%j is refused", async (fields, message) => {
    expect(await refusal({ messages: HELLO, ...fields })).toContain(message);
  });
});

describe("response_format", () => {
  const schema = { type: "object", properties: { a: { type: "integer" } } };

  test.each([
    [{ type: "text" }, {}],
    [{ type: "json_object" }, { jsonSchema: { type: "object" } }],
    [{ type: "json_schema", json_schema: { schema } }, { jsonSchema: schema }],
    [
      { type: "json_schema", json_schema: { name: "a", description: "b", schema, strict: true } },
      { jsonSchema: schema },
    ],
    [{ type: "json_schema", json_schema: { schema: true, strict: false } }, { jsonSchema: true }],
    [
      { type: "structural_tag", structures: [{ begin: "<" }], triggers: ["<"] },
      { structuralTag: '{"structures":[{"begin":"<"}],"triggers":["<"]}' },
    ],
    [
      { type: "structural_tag", format: { type: "any_text" } },
      { structuralTag: '{"format":{"type":"any_text"}}' },
    ],
  ])("%j reaches the engine", async (response_format, form) => {
    const { sampling } = await asked({ messages: HELLO, response_format });
    expect(sampling).toEqual({ temperature: 1, topP: 1, maxNewTokens: null, ...form });
  });

  test("json_schema and structural_tag are fields of their own as well", async () => {
    const tag = '{"structures":[],"triggers":[]}';
    const byField = async (fields: object) =>
      (await asked({ messages: HELLO, ...fields })).sampling;
    expect(await byField({ json_schema: "{}" })).toMatchObject({ jsonSchema: "{}" });
    expect(await byField({ structural_tag: tag })).toMatchObject({ structuralTag: tag });
  });

  test.each([
    [5, "response_format must be an object, got 5"],
    [{}, "Cannot read response_format: response_format.type is missing"],
    [{ type: "xml" }, "response_format.type must be one of text, json_object, json_schema, struct"],
    [
      { type: "json_schema" },
      "Cannot read response_format: response_format.json_schema.schema is missing",
    ],
    [
      { type: "json_schema", json_schema: { name: "a" } },
      "response_format.json_schema.schema is missing",
    ],
    [
      { type: "json_schema", json_schema: { schema: "{}" } },
      'response_format.json_schema.schema must be an object, true or false, got "{}"',
    ],
    [
      { type: "json_schema", json_schema: { schema, strict: 1 } },
      "response_format.json_schema.strict must be true or false, got 1",
    ],
    [
      { type: "json_schema", json_schema: { schema, mood: 1 } },
      "Cannot use response_format.json_schema.mood: it is not a known field",
    ],
    [{ type: "json_object", schema }, "Cannot use response_format.schema: it is not a known field"],
  ])("%j is refused", async (response_format, message) => {
    expect(await refusal({ messages: HELLO, response_format })).toContain(message);
  });

  test.each([{ regex: "a" }, { ebnf: "a" }, { json_schema: "{}" }, { structural_tag: "{}" }])(
    "and %j are refused together",
    async (grammar) => {
      const response_format = { type: "json_object" };
      const message = await refusal({ messages: HELLO, response_format, ...grammar });
      expect(message).toContain("Only one of regex, json_schema, or ebnf can be set");
      expect(message).toContain("response_format");
      await asked({ messages: HELLO, response_format: { type: "text" }, ...grammar });
    },
  );
});

describe("the chat template", () => {
  test("is given chat_template_kwargs", async () => {
    const chat_template_kwargs = { thinking: true, level: "high" };
    const { templateVariables } = await asked({ messages: HELLO, chat_template_kwargs });
    expect(templateVariables).toEqual(chat_template_kwargs);
    const message = await refusal({ messages: HELLO, chat_template_kwargs: 1 });
    expect(message).toBe("chat_template_kwargs must be an object, got 1");
  });

  test("goes on with the final message", async () => {
    const messages = [...HELLO, { role: "assistant", content: "It is" }];
    const request = await asked({ messages, continue_final_message: true });
    expect(request).toMatchObject({ messages, continueFinalMessage: true });
    expect(await asked({ messages })).not.toHaveProperty("continueFinalMessage");
  });
});

describe("fields that are not supported yet", () => {
  test.each([
    { n: 1, logprobs: false, top_logprobs: null },
    { logprobs: null, top_logprobs: 0 },
    { tools: null, tool_choice: "none", parallel_tool_calls: true },
    { tools: [], response_format: { type: "text" }, logit_bias: null },
    { user: "ada", metadata: { a: "b" }, store: false, service_tier: "auto" },
    { user: null, metadata: null, store: null, service_tier: null, rid: null, seed: null },
    { modalities: ["text"], audio: null, lora_path: null, session_params: {} },
    { continue_final_message: false },
    { separate_reasoning: false, chat_template_kwargs: {}, reasoning_effort: null },
    { reasoning: {} },
    { reasoning: { enabled: null, effort: null } },
  ])("take the neutral %j", async (fields) => {
    await asked({ messages: HELLO, ...fields });
  });

  test.each([
    ["functions", [{ name: "f" }]],
    ["lora_path", "x"],
    ["session_params", { id: "s" }],
    ["return_hidden_states", true],
    ["bootstrap_host", "10.0.0.1"],
    ["audio", { voice: "alloy" }],
    ["modalities", ["text", "audio"]],
  ])("%s: %j is refused and named", async (name, value) => {
    expect(await refusal({ messages: HELLO, [name]: value })).toBe(
      `Cannot use ${name}: it is not supported yet`,
    );
  });

  test.each(["max_new_tokens", "sampling_params"])(
    "the unknown %s is refused and named",
    async (name) => {
      expect(await refusal({ messages: HELLO, [name]: 1 })).toBe(
        `Cannot use ${name}: it is not a known field`,
      );
    },
  );
});
