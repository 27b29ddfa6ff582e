/**
 * Published templates, rendered by way of our normalisation, against the same template rendered by
 * the library alone from messages that are already in the form the template was written for.
 */

import { Template } from "@huggingface/jinja";
import { describe, expect, test } from "vitest";
import type { ChatMessage, ChatToolCall } from "../../src/generation.ts";
import { createChatRenderer } from "../../src/text/chat_template_choice.ts";
import { hasSharedData, sharedJson, sharedText, skipNote } from "./shared_data.ts";

const ROLES = { bos_token: "<BOS>", eos_token: "<EOS>" };

function source(from: string): string {
  if (from.endsWith(".jinja")) return sharedText(`chat-templates/${from}`);
  const config = sharedJson<{ chat_template: string }>(`tokenizers/${from}/tokenizer_config.json`);
  return config.chat_template;
}

function callOf(id: string, name: string, args: string): ChatToolCall {
  return { id, type: "function", function: { name, arguments: args } };
}

const WEATHER = callOf("call-1", "weather", '{"city": "Oslo", "days": 2}');
const CLOCK = callOf("call-2", "time", "{}");

const TOOLS = [
  {
    type: "function",
    function: {
      name: "weather",
      description: "Weather of a town.",
      parameters: {
        type: "object",
        properties: {
          city: { type: "string", description: "Its name" },
          days: { type: "integer", description: "How many" },
        },
        required: ["city"],
      },
    },
  },
  {
    type: "function",
    function: {
      name: "time",
      description: "The time.",
      parameters: { type: "object", properties: {} },
    },
  },
];

const SYSTEM: ChatMessage = { role: "system", content: "Be brief." };
const ASK: ChatMessage = { role: "user", content: "Oslo?" };
const RESULT: ChatMessage = { role: "tool", tool_call_id: "call-1", content: "rain" };

function calling(content: string | null, ...tool_calls: ChatToolCall[]): ChatMessage {
  return { role: "assistant", content, tool_calls };
}

interface Conversation {
  readonly title: string;
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly unknown[];
  readonly variables?: Readonly<Record<string, unknown>>;
  readonly needs?: "parallel calls" | "content beside calls";
}

const CONVERSATIONS: readonly Conversation[] = [
  { title: "one question", messages: [ASK] },
  { title: "a system message", messages: [SYSTEM, ASK] },
  {
    title: "several turns",
    messages: [
      SYSTEM,
      ASK,
      { role: "assistant", content: "Rain." },
      { role: "user", content: "?" },
    ],
  },
  { title: "tools and a question", messages: [ASK], tools: TOOLS },
  { title: "a call with null content", messages: [ASK, calling(null, WEATHER)], tools: TOOLS },
  { title: 'a call with content ""', messages: [ASK, calling("", WEATHER)], tools: TOOLS },
  { title: "a result", messages: [SYSTEM, ASK, calling(null, WEATHER), RESULT], tools: TOOLS },
  { title: "a result without tools", messages: [ASK, calling(null, WEATHER), RESULT] },
  {
    title: "an answer after a result",
    messages: [
      ASK,
      calling("", WEATHER),
      RESULT,
      { role: "assistant", content: "Rain." },
      { role: "user", content: "Thanks" },
    ],
    tools: TOOLS,
  },
  {
    title: "parallel calls",
    messages: [
      ASK,
      calling(null, WEATHER, CLOCK),
      RESULT,
      { role: "tool", tool_call_id: "call-2", content: "noon" },
    ],
    tools: TOOLS,
    needs: "parallel calls",
  },
  {
    title: "content beside a call",
    messages: [ASK, calling("Let me see.", WEATHER), RESULT],
    tools: TOOLS,
    needs: "content beside calls",
  },
  {
    title: "thoughts in the history",
    messages: [
      ASK,
      { ...calling("", WEATHER), reasoning_content: "They want the weather." },
      RESULT,
      { role: "assistant", content: "Rain.", reasoning_content: "It rains." },
      { role: "user", content: "Thanks" },
    ],
    tools: TOOLS,
  },
  {
    title: "thoughts before a call that is still open",
    messages: [ASK, { ...calling("", WEATHER), reasoning_content: "Weather!" }, RESULT],
    tools: TOOLS,
  },
  { title: "thinking on", messages: [ASK], variables: { thinking: true, enable_thinking: true } },
  {
    title: "thinking off",
    messages: [ASK],
    variables: { thinking: false, enable_thinking: false },
  },
  { title: "an effort", messages: [SYSTEM, ASK], variables: { reasoning_effort: "high" } },
];

interface Family {
  readonly from: string;
  /** What the template was written for. */
  readonly emptyContent: null | "";
  readonly args: "text" | "object";
  readonly reasoningField?: "thinking";
  /** Renders every conversation but those that need this. */
  readonly lacks?: readonly string[];
}

const FAMILIES: readonly Family[] = [
  { from: "deepseek-v3", emptyContent: null, args: "text", lacks: ["content beside calls"] },
  { from: "deepseek-r1", emptyContent: null, args: "text" },
  {
    from: "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja",
    emptyContent: null,
    args: "text",
    lacks: ["content beside calls"],
  },
  {
    from: "llama-cpp-deepseek-r1.jinja",
    emptyContent: null,
    args: "text",
    lacks: ["content beside calls"],
  },
  { from: "deepseek-ai-DeepSeek-V3.1.jinja", emptyContent: null, args: "text" },
  { from: "Qwen-Qwen2.5-7B-Instruct.jinja", emptyContent: "", args: "object" },
  { from: "Qwen-Qwen3-0.6B.jinja", emptyContent: "", args: "text" },
  {
    from: "meta-llama-Llama-3.1-8B-Instruct.jinja",
    emptyContent: "",
    args: "object",
    lacks: ["parallel calls"],
  },
  {
    from: "NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja",
    emptyContent: null,
    args: "text",
  },
  {
    from: "openai-gpt-oss-120b.jinja",
    emptyContent: "",
    args: "object",
    reasoningField: "thinking",
    lacks: ["parallel calls"],
  },
];

/** The conversation as a person would write it by hand for this template. */
function byHand(family: Family, { messages, tools, variables }: Conversation): object {
  const { emptyContent, args, reasoningField } = family;
  return {
    ...ROLES,
    ...variables,
    tools: tools ?? (family.from.startsWith("Nous") ? [] : undefined),
    add_generation_prompt: true,
    messages: messages.map((message) => ({
      ...message,
      ...(reasoningField !== undefined &&
        message.reasoning_content !== undefined && { [reasoningField]: message.reasoning_content }),
      ...(message.tool_calls !== undefined && {
        content: message.content || emptyContent,
        tool_calls: message.tool_calls.map((call) => ({
          ...call,
          function: {
            ...call.function,
            arguments:
              args === "text" ? call.function.arguments : JSON.parse(call.function.arguments),
          },
        })),
      }),
    })),
  };
}

function withoutUndefined(context: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(context).filter(([, value]) => value !== undefined));
}

describe.skipIf(!hasSharedData)(`Prompts of all families${skipNote}`, () => {
  const cases = FAMILIES.flatMap((family) =>
    CONVERSATIONS.filter(({ needs }) => needs === undefined || !family.lacks?.includes(needs)).map(
      (conversation) => ({ family, conversation, name: family.from, title: conversation.title }),
    ),
  );
  test.each(cases)("$name renders $title as written by hand", ({ family, conversation }) => {
    const text = source(family.from);
    const { messages, tools, variables } = conversation;
    const input = { messages, tools, variables, addGenerationPrompt: true };
    const rendered = createChatRenderer({
      tokenizerConfig: ROLES,
      jinjaFile: text,
    }).render(input);
    expect(rendered).toBe(
      new Template(text).render(withoutUndefined(byHand(family, conversation))),
    );
    for (const { content } of messages.filter(({ role }) => role === "user" || role === "tool")) {
      expect(rendered).toContain(content);
    }
    for (const call of messages.flatMap(({ tool_calls: calls = [] }) => calls)) {
      expect(rendered).toContain(call.function.name);
    }
  });

  const renderWith = (from: string, messages: readonly ChatMessage[], more: object = {}) =>
    createChatRenderer({
      tokenizerConfig: ROLES,
      jinjaFile: source(from),
      now: () => new Date(2025, 2, 4),
    }).render({ messages, addGenerationPrompt: true, ...more });

  test("Qwen3 shows thoughts of the turn that is open, and drops older ones", () => {
    const from = "Qwen-Qwen3-0.6B.jinja";
    const call = { ...calling(null, WEATHER), reasoning_content: "Weather!" };
    expect(renderWith(from, [ASK, call, RESULT])).toBe(
      '<|im_start|>user\nOslo?<|im_end|>\n<|im_start|>assistant\n<think>\nWeather!\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 2}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nrain\n</tool_response><|im_end|>\n<|im_start|>assistant\n',
    );
    expect(renderWith(from, [ASK, call, RESULT, ASK])).not.toContain("<think>");
    const off = { variables: { enable_thinking: false } };
    expect(renderWith(from, [ASK], off)).toBe(
      "<|im_start|>user\nOslo?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    );
  });

  test("DeepSeek V3.1 thinks when asked to", () => {
    const from = "deepseek-ai-DeepSeek-V3.1.jinja";
    const thinking = { variables: { thinking: true } };
    expect(renderWith(from, [SYSTEM, ASK])).toBe(
      "<BOS>Be brief.<｜User｜>Oslo?<｜Assistant｜></think>",
    );
    expect(renderWith(from, [SYSTEM, ASK], thinking)).toBe(
      "<BOS>Be brief.<｜User｜>Oslo?<｜Assistant｜><think>",
    );
  });

  test.each(["deepseek-v3", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja"])(
    "%s, which drops calls beside content, gets the content in a message of its own",
    (from) => {
      const prompt = renderWith(from, [ASK, calling("Let me see.", WEATHER), RESULT]);
      expect(prompt).toBe(
        '<BOS><｜User｜>Oslo?<｜Assistant｜>Let me see.<｜end▁of▁sentence｜><｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{"city": "Oslo", "days": 2}\n```<｜tool▁call▁end｜><｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>rain<｜tool▁output▁end｜><｜tool▁outputs▁end｜>',
      );
    },
  );

  const parallel = [
    ASK,
    calling(null, WEATHER, CLOCK),
    { role: "tool", tool_call_id: "call-2", content: "noon" },
    RESULT,
  ];

  test("Llama 3.1, which takes one call a message, gets each with its own result", () => {
    expect(renderWith("meta-llama-Llama-3.1-8B-Instruct.jinja", parallel)).toBe(
      '<BOS><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nOslo?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n{"name": "weather", "parameters": {"city": "Oslo", "days": 2}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n"rain"<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n{"name": "time", "parameters": {}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n"noon"<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n',
    );
  });

  test("gpt-oss: instructions, tools, channels, the date, and one call a message", () => {
    const call = { ...calling(null, WEATHER, CLOCK), reasoning_content: "Weather!" };
    const messages = [
      SYSTEM,
      { role: "developer", content: "In French." },
      ASK,
      call,
      ...parallel.slice(2),
    ];
    const more = { tools: TOOLS, variables: { reasoning_effort: "high" } };
    expect(renderWith("openai-gpt-oss-120b.jinja", messages, more)).toBe(
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: 2025-03-04\n\nReasoning: high\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.\nCalls to these tools must go to the commentary channel: 'functions'.<|end|>" +
        "<|start|>developer<|message|># Instructions\n\nBe brief.\n\nIn French.\n\n# Tools\n\n## functions\n\nnamespace functions {\n\n// Weather of a town.\ntype weather = (_: {\n// Its name\ncity: string,\n// How many\ndays?: number,\n}) => any;\n\n// The time.\ntype time = () => any;\n\n} // namespace functions<|end|>" +
        "<|start|>user<|message|>Oslo?<|end|><|start|>assistant<|channel|>analysis<|message|>Weather!<|end|>" +
        '<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city": "Oslo", "days": 2}<|call|><|start|>functions.weather to=assistant<|channel|>commentary<|message|>"rain"<|end|>' +
        '<|start|>assistant to=functions.time<|channel|>commentary json<|message|>{}<|call|><|start|>functions.time to=assistant<|channel|>commentary<|message|>"noon"<|end|><|start|>assistant',
    );
  });

  test("gpt-oss refuses tags of its channels in content, naming messages", () => {
    const content = "<|channel|>final<|message|>Rain.";
    const messages = [ASK, { role: "assistant", content }, ASK];
    expect(() => renderWith("openai-gpt-oss-120b.jinja", messages)).toThrow(
      expect.objectContaining({
        code: "invalid_request",
        field: "messages",
        message: expect.stringMatching(
          /^Cannot render the chat template: You have passed a message/,
        ),
      }),
    );
  });

  test("instructions that a template would leave out are joined in front", () => {
    const late = [SYSTEM, ASK, { role: "developer", content: "Now in French." }, ASK];
    expect(renderWith("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", late)).toBe(
      "<BOS>Be brief.\n\nNow in French.<｜User｜>Oslo?<｜User｜>Oslo?<｜Assistant｜><think>\n",
    );
    // Where they are printed in their place they stay there, under the name that is known.
    expect(renderWith("Qwen-Qwen3-0.6B.jinja", late)).toBe(
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOslo?<|im_end|>\n<|im_start|>system\nNow in French.<|im_end|>\n<|im_start|>user\nOslo?<|im_end|>\n<|im_start|>assistant\n",
    );
    // Llama takes what follows the first one for the user's first message.
    const two = [SYSTEM, { role: "developer", content: "In French." }, ASK];
    expect(renderWith("meta-llama-Llama-3.1-8B-Instruct.jinja", two, { tools: TOOLS })).toMatch(
      /\n\nBe brief\.\n\nIn French\.<\|eot_id\|>[\s\S]*\n\nOslo\?<\|eot_id\|>/,
    );
  });
});
