import { describe, expect, test } from "vitest";
import { InvalidRequestError } from "../../src/errors.ts";
import type { ChatMessage, ChatToolCall } from "../../src/generation.ts";
import { ChatTemplate } from "../../src/text/chat_template.ts";
import { createChatRenderer } from "../../src/text/chat_template_choice.ts";
import { hasSharedData, sharedJson, sharedText, skipNote } from "./shared_data.ts";

const ROLES = { bos_token: "<BOS>", eos_token: "<EOS>" };

function callOf(args: string): ChatToolCall {
  return { id: "call00000", type: "function", function: { name: "weather", arguments: args } };
}

const PLAIN: ChatMessage[] = [
  { role: "user", content: "Hi" },
  { role: "assistant", content: "Yo" },
  { role: "user", content: "Bye" },
];

const CALLING: ChatMessage[] = [
  { role: "user", content: "Oslo?" },
  { role: "assistant", content: null, tool_calls: [callOf('{"city":"Oslo"}')] },
  { role: "tool", tool_call_id: "call00000", content: "rain" },
];

const TOOLS = [
  {
    type: "function",
    function: {
      name: "weather",
      parameters: { type: "object", properties: { city: { type: "string" } } },
    },
  },
];

const ONE_LINE_TOOL =
  '{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}';

const DEEPSEEK_CALL =
  '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{"city":"Oslo"}\n```<｜tool▁call▁end｜>';
const DEEPSEEK_OUTPUT =
  "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>rain<｜tool▁output▁end｜><｜tool▁outputs▁end｜>";

interface Published {
  /** Folder of `tokenizers`, or file of `chat-templates`. */
  readonly from: string;
  readonly plain: string;
  /** Parts of the prompt with tools and a call, in their order; absent where unsupported. */
  readonly calling?: readonly string[];
}

const PUBLISHED: Published[] = [
  {
    from: "deepseek-v3",
    plain: "<BOS><｜User｜>Hi<｜Assistant｜>Yo<｜end▁of▁sentence｜><｜User｜>Bye<｜Assistant｜>",
    calling: [`<BOS><｜User｜>Oslo?<｜Assistant｜>${DEEPSEEK_CALL}${DEEPSEEK_OUTPUT}`],
  },
  {
    from: "deepseek-r1",
    plain:
      "<BOS><｜User｜>Hi<｜Assistant｜>Yo<｜end▁of▁sentence｜><｜User｜>Bye<｜Assistant｜><think>\n",
    calling: [
      `<BOS><｜User｜>Oslo?<｜Assistant｜>${DEEPSEEK_CALL}<｜tool▁calls▁end｜><｜end▁of▁sentence｜>${DEEPSEEK_OUTPUT}`,
    ],
  },
  {
    from: "deepseek-ai-DeepSeek-V3.1.jinja",
    plain:
      "<BOS><｜User｜>Hi<｜Assistant｜></think>Yo<｜end▁of▁sentence｜><｜User｜>Bye<｜Assistant｜></think>",
    calling: [
      '<BOS><｜User｜>Oslo?<｜Assistant｜></think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city":"Oslo"}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜><｜tool▁output▁begin｜>rain<｜tool▁output▁end｜>',
    ],
  },
  {
    from: "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja",
    plain:
      "<BOS><｜User｜>Hi<｜Assistant｜>Yo<｜end▁of▁sentence｜><｜User｜>Bye<｜Assistant｜><think>\n",
    calling: [`<BOS><｜User｜>Oslo?<｜Assistant｜>${DEEPSEEK_CALL}${DEEPSEEK_OUTPUT}`],
  },
  {
    from: "llama-cpp-deepseek-r1.jinja",
    plain:
      "<BOS><｜User｜>Hi<｜end▁of▁sentence｜><｜Assistant｜>Yo<｜end▁of▁sentence｜><｜User｜>Bye<｜end▁of▁sentence｜><｜Assistant｜><think>\n",
    calling: [
      '[\n  {\n    "name": "weather",\n    "parameters": {\n      "type": "object",\n',
      `<｜User｜>Oslo?<｜end▁of▁sentence｜><｜Assistant｜>${DEEPSEEK_CALL}<｜tool▁calls▁end｜><｜end▁of▁sentence｜>`,
    ],
  },
  {
    from: "Qwen-Qwen2.5-7B-Instruct.jinja",
    plain:
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    calling: [
      `<tools>\n${ONE_LINE_TOOL}\n</tools>`,
      '<|im_start|>assistant\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nrain\n</tool_response><|im_end|>\n<|im_start|>assistant\n',
    ],
  },
  {
    from: "Qwen-Qwen3-0.6B.jinja",
    plain:
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    calling: [
      `<tools>\n${ONE_LINE_TOOL}\n</tools>`,
      '<|im_start|>assistant\n<tool_call>\n{"name": "weather", "arguments": {"city":"Oslo"}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nrain\n</tool_response><|im_end|>\n<|im_start|>assistant\n',
    ],
  },
  {
    from: "meta-llama-Llama-3.1-8B-Instruct.jinja",
    plain:
      "<BOS><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nYo<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    calling: [
      '\n\n{\n    "type": "function",\n    "function": {\n        "name": "weather",\n',
      '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "weather", "parameters": {"city": "Oslo"}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n"rain"<|eot_id|>',
    ],
  },
  {
    from: "google-gemma-2-2b-it.jinja",
    plain:
      "<BOS><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYo<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
  },
];

function publishedSource(from: string): string {
  if (from.endsWith(".jinja")) return sharedText(`chat-templates/${from}`);
  return sharedJson<{ chat_template: string }>(`tokenizers/${from}/tokenizer_config.json`)
    .chat_template;
}

describe.skipIf(!hasSharedData)(`ChatTemplate, published templates${skipNote}`, () => {
  test.each(PUBLISHED)("ChatTemplate renders a plain chat with $from", ({ from, plain }) => {
    const template = new ChatTemplate(publishedSource(from), ROLES);
    expect(template.render({ messages: PLAIN, addGenerationPrompt: true })).toBe(plain);
  });

  const calling = PUBLISHED.filter((one) => one.calling !== undefined);
  test.each(calling)("ChatTemplate renders tools and a call with $from", ({ from, calling }) => {
    const template = new ChatTemplate(publishedSource(from), ROLES);
    const input = { tools: TOOLS, addGenerationPrompt: true };
    const prompt = template.render({ ...input, messages: CALLING });
    let at = 0;
    for (const part of calling!) {
      expect(prompt.slice(at)).toContain(part);
      at = prompt.indexOf(part, at) + part.length;
    }
    // Clients write "" or leave the field out where there is nothing but calls.
    const empty = CALLING.map((message) => ({ ...message, content: message.content ?? "" }));
    expect(template.render({ ...input, messages: empty })).toBe(prompt);
  });

  test("ChatTemplate renders gpt-oss, whose system message has today's date", () => {
    const template = new ChatTemplate(publishedSource("openai-gpt-oss-120b.jinja"), ROLES);
    const plain = template.render({ messages: PLAIN, addGenerationPrompt: true });
    expect(plain).toMatch(/\nCurrent date: \d{4}-\d\d-\d\d\n\nReasoning: medium\n/);
    expect(plain).toContain(
      "<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Yo<|end|><|start|>user<|message|>Bye<|end|><|start|>assistant",
    );
    const prompt = template.render({ messages: CALLING, tools: TOOLS, addGenerationPrompt: true });
    expect(prompt).toContain("// \ntype weather = (_: {\ncity?: string,\n}) => any;");
    expect(prompt).toContain(
      '<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city": "Oslo"}<|call|>',
    );
  });

  test("ChatTemplate fills in what the Hermes template takes for granted", () => {
    const from = "NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja";
    const template = new ChatTemplate(publishedSource(from), ROLES);
    const without = template.render({ messages: PLAIN, addGenerationPrompt: true });
    expect(without).toContain("Here are the available tools: <tools>  </tools>");
    const prompt = template.render({ messages: CALLING, tools: TOOLS, addGenerationPrompt: true });
    expect(prompt).toContain('"weather(city: str) - \n\n    Args:\n        city(str): "');
    expect(prompt).toContain('{"name": "weather", "arguments": {"city":"Oslo"}}\n</tool_call>');
  });

  test("ChatTemplate passes on why a template refuses a conversation", () => {
    const template = new ChatTemplate(publishedSource("google-gemma-2-2b-it.jinja"), ROLES);
    expect(() => template.render({ messages: CALLING, addGenerationPrompt: true })).toThrow(
      "Cannot render the chat template: Conversation roles must alternate user/assistant/user/assistant/...",
    );
    const system = [{ role: "system", content: "Be brief." }, ...PLAIN];
    expect(() => template.render({ messages: system, addGenerationPrompt: true })).toThrow(
      expect.objectContaining({
        code: "invalid_request",
        field: "messages",
        message: "Cannot render the chat template: System role not supported",
      }),
    );
  });

  test("createChatRenderer agrees with all golden prompts of the tiny model", () => {
    interface Case {
      readonly messages: ChatMessage[];
      readonly tools: unknown[] | null;
      readonly thinking: boolean;
      readonly prompt: string;
    }
    const { cases } = sharedJson<{ cases: Case[] }>("golden/chat_template.json");
    const tokenizerConfig = sharedJson("models/tiny-deepseek-v3-fp8/tokenizer_config.json");
    const renderer = createChatRenderer({ tokenizerConfig });
    expect(cases).toHaveLength(30);
    for (const { messages, tools, thinking, prompt } of cases) {
      const input = { messages, tools: tools ?? undefined, variables: { thinking } };
      expect(renderer.render({ ...input, addGenerationPrompt: true })).toBe(prompt);
    }
  });
});

describe("ChatTemplate", () => {
  const render = (source: string, input: object = {}) =>
    new ChatTemplate(source, ROLES).render({
      messages: PLAIN,
      addGenerationPrompt: true,
      ...input,
    });

  test("tojson prints as Python's json.dumps with ensure_ascii=False", () => {
    const value = { b: [1, 1.5, null, true, "é\u2028\n\u0001\"\\<&'"], a: {}, e: [] };
    expect(render("{{ value | tojson }}", { variables: { value } })).toBe(
      '{"b": [1, 1.5, null, true, "é\u2028\\n\\u0001\\"\\\\<&\'"], "a": {}, "e": []}',
    );
  });

  test("tools are absent, not empty, when none are given", () => {
    const source = "{{ tools is defined }}";
    expect(render(source)).toBe("false");
    expect(render(source, { tools: [] })).toBe("false");
    expect(render(source, { tools: TOOLS })).toBe("true");
  });

  test("fields of a message that are empty are absent", () => {
    const source =
      "{% for m in messages %}{{ 'tool_calls' in m }} {{ m.name is defined }} {{ m.content is none }}{% endfor %}";
    const messages = [{ role: "assistant", content: null, tool_calls: [], name: undefined }];
    expect(render(source, { messages })).toBe("false false false");
  });

  test("arguments are parsed only for a template that prints an object", () => {
    const source = (args: string) =>
      `{% for m in messages %}{% for c in m.tool_calls %}${args}{% endfor %}{% endfor %}`;
    const input = (args: string) => ({
      messages: [{ role: "assistant", content: null, tool_calls: [callOf(args)] }],
    });
    const pasted = source("{{ 'A' + c.function.arguments }}");
    expect(render(pasted, input('{"x":1}'))).toBe('A{"x":1}');
    expect(render(pasted, input("not JSON"))).toBe("Anot JSON");
    const printed = source("{{ c.function.arguments | tojson }}");
    expect(render(printed, input('{"x":1}'))).toBe('{"x": 1}');
    expect(render(printed, input(""))).toBe("{}");
    const looped = source(
      "{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}",
    );
    expect(render(looped, input('{"x":1}'))).toBe("x=1");
    const field = "messages[0].tool_calls[0].function.arguments";
    for (const broken of ["{", "[1]", '"x"']) {
      expect(() => render(printed, input(broken))).toThrow(
        expect.objectContaining({ code: "invalid_request", field }),
      );
    }
  });

  test("text of a message cannot make a template's wish for objects look otherwise", () => {
    const template = new ChatTemplate(
      "{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}{% endfor %}",
      ROLES,
    );
    const content = '{"mark": 1} {"mark0": 1}';
    const call = { role: "assistant", content: null, tool_calls: [callOf('{"x":1}')] };
    const messages = [{ role: "user", content }, call];
    const input = { messages, addGenerationPrompt: true };
    expect(template.render(input)).toBe(`${content}{"x": 1}`);
  });

  test("arguments that no form prints are no reason to refuse a conversation", () => {
    const messages = [{ role: "assistant", content: null, tool_calls: [callOf("not JSON")] }];
    expect(render("{{ messages | length }}", { messages })).toBe("1");
  });

  test("add_generation_prompt, variables and the tokens reach the template", () => {
    const source = "{{ bos_token }}{{ eos_token }}{{ mood }}{{ add_generation_prompt }}";
    expect(render(source, { variables: { mood: "calm" } })).toBe("<BOS><EOS>calmtrue");
    const replaced = { variables: { bos_token: "!" }, addGenerationPrompt: false };
    expect(render(source, replaced)).toBe("!<EOS>false");
  });

  test.each(["messages", "tools", "add_generation_prompt"])("variable %s is refused", (name) => {
    expect(() => render("x", { variables: { [name]: [] } })).toThrow(
      `Cannot set template variable "${name}": it has its own field`,
    );
  });

  test("a variable that is one of the template's functions is refused", () => {
    expect(() => render("x", { variables: { range: 1 } })).toThrow(/range/);
  });

  test("no messages and an unknown filter are the request's fault, with a reason", () => {
    expect(() => render("x", { messages: [] })).toThrow(/no messages/);
    expect(() => render("{{ messages[0].content | nothing }}")).toThrow(
      expect.objectContaining({ code: "invalid_request" }),
    );
  });

  test("a template that does not parse is the checkpoint's fault", () => {
    for (const source of ["{% if %}", "{{ x", "{% for a in b %}"]) {
      expect(() => new ChatTemplate(source, ROLES, { file: "mine.jinja" })).toThrow(
        expect.objectContaining({ code: "invalid_checkpoint", file: "mine.jinja" }),
      );
    }
  });

  test("one newline at the end of a template file is not part of the prompt", () => {
    expect(render("x\n")).toBe("x");
  });
});

describe("createChatRenderer", () => {
  const input = { messages: PLAIN, addGenerationPrompt: true };
  const config = { bos_token: { content: "<s>" }, chat_template: "config {{ bos_token }}" };

  test("the user's template wins, then the file beside the weights, then the configuration", () => {
    const sources = { tokenizerConfig: config, jinjaFile: "file {{ bos_token }}" };
    expect(createChatRenderer({ tokenizerConfig: config }).render(input)).toBe("config <s>");
    expect(createChatRenderer(sources).render(input)).toBe("file <s>");
    expect(createChatRenderer({ ...sources, override: "mine {{ bos_token }}" }).render(input)).toBe(
      "mine <s>",
    );
    expect(createChatRenderer({ jinjaFile: "file" }).render(input)).toBe("file");
  });

  test("named templates: tool_use serves requests with tools, default the others", () => {
    const both = [
      { name: "default", template: "plain" },
      { name: "tool_use", template: "tools" },
    ];
    const renderer = createChatRenderer({ tokenizerConfig: { chat_template: both } });
    expect(renderer.render(input)).toBe("plain");
    expect(renderer.render({ ...input, tools: [] })).toBe("plain");
    expect(renderer.render({ ...input, tools: TOOLS })).toBe("tools");
    const one = createChatRenderer({ tokenizerConfig: { chat_template: both.slice(0, 1) } });
    expect(one.render({ ...input, tools: TOOLS })).toBe("plain");
    const other = createChatRenderer({ tokenizerConfig: { chat_template: both.slice(1) } });
    expect(() => other.render(input)).toThrow(/no default chat template, only tool_use/);
  });

  test("a model without a template refuses chats, and only those", () => {
    for (const tokenizerConfig of [undefined, {}, { chat_template: null }]) {
      expect(() => createChatRenderer({ tokenizerConfig }).render(input)).toThrow(
        expect.objectContaining({
          code: "invalid_request",
          field: "messages",
          message: "Cannot render messages: the model has no chat template",
        }),
      );
    }
  });

  test.each([3, [{ name: "default" }], ["x"], "{% if %}"])(
    "a malformed chat_template is the checkpoint's fault: %j",
    (chat_template) => {
      expect(() => createChatRenderer({ tokenizerConfig: { chat_template } })).toThrow(
        expect.objectContaining({ code: "invalid_checkpoint", file: "tokenizer_config.json" }),
      );
    },
  );
});

test("what nests too deep to be written down is refused, whatever the conversation", () => {
  const template = new ChatTemplate(
    "{% for m in messages %}{{ m.content }}{% endfor %}{{ deep }}",
    {},
  );
  const depth = 100_000;
  const deep: unknown = JSON.parse("[".repeat(depth) + "]".repeat(depth));
  const user = { role: "user", content: "a" };
  const system = { role: "system", content: "b" };
  for (const messages of [[user], [system, user, system]]) {
    expect(() =>
      template.render({ messages, addGenerationPrompt: true, variables: { deep } }),
    ).toThrow(InvalidRequestError);
  }
});
