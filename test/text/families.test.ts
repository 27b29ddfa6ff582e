import { describe, expect, test } from "vitest";
import type { ChatMessage } from "../../src/generation.ts";
import { createChatRenderer } from "../../src/text/chat_template_choice.ts";
import { FALLBACK_TEMPLATES } from "../../src/text/fallback_templates.ts";
import { detectFamily, familyNamed } from "../../src/text/families.ts";
import { hasSharedData, sharedJson, sharedText, skipNote } from "./shared_data.ts";

describe.skipIf(!hasSharedData)(`detectFamily, published templates${skipNote}`, () => {
  test.each([
    ["NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", "qwen25", undefined],
    ["Qwen-Qwen2.5-7B-Instruct", "qwen2.5", "qwen25", undefined],
    ["Qwen-Qwen3-0.6B", "qwen3", "qwen25", "qwen3"],
    ["deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-r1", "deepseekv3", "deepseek-r1"],
    ["llama-cpp-deepseek-r1", "deepseek-r1", "deepseekv3", "deepseek-r1"],
    ["deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1", "deepseekv31", "deepseek-v3"],
    ["meta-llama-Llama-3.1-8B-Instruct", "llama-3.1", "llama3", undefined],
    ["google-gemma-2-2b-it", "gemma", undefined, undefined],
    ["openai-gpt-oss-120b", "gpt-oss", "gpt-oss", "gpt-oss"],
  ])("%s is %s", (file, name, toolCalls, reasoning) => {
    const template = sharedText(`chat-templates/${file}.jinja`);
    // The layers say nothing against a template: distilled models have another family's.
    const family = detectFamily({ template, config: { model_type: "qwen2" } });
    expect([family.name, family.toolCalls, family.reasoning]).toEqual([name, toolCalls, reasoning]);
  });

  test.each([
    ["tokenizers/deepseek-v3", "deepseek-v3"],
    ["tokenizers/deepseek-r1", "deepseek-r1"],
    ["models/tiny-deepseek-v3-bf16", "deepseek-v3"],
  ])("the template of %s is %s", (folder, name) => {
    const config = sharedJson<{ chat_template: string }>(`${folder}/tokenizer_config.json`);
    expect(detectFamily({ template: config.chat_template }).name).toBe(name);
  });
});

describe("detectFamily", () => {
  test.each([
    ["{{ '<｜Assistant｜>' }}{% if '</think>' in m %}", "deepseek-r1"],
    ["<|im_system|>tool_declare<|im_middle|>", "kimi-k2"],
    ["<|im_middle|>{{ m.reasoning_content }}", "kimi-k2-thinking"],
    ["<|im_start|> <tool_call> <function=f>", "qwen3-coder"],
    ["<|im_start|> <tool_call> '<|im_start|>assistant\\n<think>\\n'", "qwen3-thinking"],
    ["<|im_start|> <tool_call> '<|im_start|>assistant\n<think>\n'", "qwen3-thinking"],
    ["<|im_start|> <tool_call>", "qwen3-instruct"],
    ["<|im_start|>", "chatml"],
    ["<|start_header_id|>", "llama-3"],
    ["<|header_start|>", "llama-4"],
    ["[INST] [TOOL_CALLS]", "mistral"],
    ["[INST]", "llama-2"],
    ["{{ 'User: ' + m }}{{ 'Assistant: ' + m }}", "deepseek-v2"],
    ["{{ messages }}", "unknown"],
    ["", "unknown"],
  ])("a template with %j is %s", (template, name) => {
    expect(detectFamily({ template, config: { model_type: "gpt_oss" } }).name).toBe(name);
  });

  test.each([
    [{ model_type: "gpt_oss" }, [], "gpt-oss"],
    [{ architectures: ["GptOssForCausalLM"] }, [], "gpt-oss"],
    [{ model_type: "deepseek_v3" }, [], "deepseek-v3"],
    [{ model_type: "deepseek_v2" }, [], "deepseek-v2"],
    [{ model_type: "kimi_k2", architectures: ["DeepseekV3ForCausalLM"] }, [], "kimi-k2"],
    [{ architectures: ["Qwen3MoeForCausalLM"] }, [], "qwen3"],
    [{ model_type: "qwen2" }, ["<tool_call>"], "qwen2.5"],
    [{ model_type: "qwen2" }, [], "chatml"],
    [{ model_type: "llama" }, ["<|start_header_id|>", "<|python_tag|>"], "llama-3.1"],
    [{ model_type: "llama" }, ["<|start_header_id|>"], "llama-3"],
    [{ model_type: "llama" }, [], "unknown"],
    [{ model_type: "mistral" }, ["[TOOL_CALLS]"], "mistral"],
    [undefined, [], "unknown"],
    [[], [], "unknown"],
  ])("without a template %j with tokens %j is %s", (config, tokens, name) => {
    const hasToken = (content: string) => (tokens as string[]).includes(content);
    expect(detectFamily({ config, hasToken }).name).toBe(name);
  });
});

const WEATHER = {
  type: "function",
  function: {
    name: "weather",
    description: "Weather of a town.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

const ONE_LINE =
  '{"type": "function", "function": {"name": "weather", "description": "Weather of a town.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}';

const CALLING: ChatMessage[] = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "Oslo?" },
  {
    role: "assistant",
    content: null,
    reasoning_content: "Weather!",
    tool_calls: [
      {
        id: "1",
        type: "function",
        function: { name: "weather", arguments: '{"city": "Oslo"}' },
      },
    ],
  },
  { role: "tool", tool_call_id: "1", content: "rain" },
];

describe("FALLBACK_TEMPLATES", () => {
  const render = (name: keyof typeof FALLBACK_TEMPLATES, more: object = {}) =>
    createChatRenderer({
      tokenizerConfig: { bos_token: "<BOS>", eos_token: "<EOS>" },
      fallback: FALLBACK_TEMPLATES[name].source,
      now: () => new Date(2025, 2, 4),
    }).render({ messages: CALLING, addGenerationPrompt: true, ...more });
  const plain = {
    messages: [
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Yo" },
      { role: "user", content: "Bye" },
    ],
  };

  test("chatml", () => {
    expect(render("chatml", plain)).toBe(
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    );
    expect(render("chatml", { tools: [WEATHER], variables: { enable_thinking: false } })).toBe(
      `<|im_start|>system\nBe brief.\n\n# Tools\n\nThese functions can be called. Their signatures are within <tools></tools>:\n<tools>\n${ONE_LINE}\n</tools>\n\nEach call is one JSON object within <tool_call></tool_call>:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n<|im_start|>user\nOslo?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nrain\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n`,
    );
  });

  test("deepseekV3", () => {
    expect(render("deepseekV3", plain)).toBe(
      "<BOS><｜User｜>Hi<｜Assistant｜>Yo<EOS><｜User｜>Bye<｜Assistant｜>",
    );
    const call =
      '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{"city": "Oslo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>';
    const result =
      "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>rain<｜tool▁output▁end｜><｜tool▁outputs▁end｜>";
    expect(render("deepseekV3")).toBe(
      `<BOS>Be brief.<｜User｜>Oslo?<｜Assistant｜>${call}<EOS>${result}`,
    );
    expect(render("deepseekV3", { tools: [WEATHER] })).toContain(
      'Be brief.\n\n## Tools\nThese functions can be called:\n\n```json\n{"name": "weather", "description"',
    );
  });

  test("llama3", () => {
    const turn = (role: string, text: string) =>
      `<|start_header_id|>${role}<|end_header_id|>\n\n${text}`;
    expect(render("llama3", plain)).toBe(
      `<BOS>${turn("user", "Hi")}<|eot_id|>${turn("assistant", "Yo")}<|eot_id|>${turn("user", "Bye")}<|eot_id|>${turn("assistant", "")}`,
    );
    const prompt = render("llama3", { tools: [WEATHER] });
    expect(prompt).toMatch(
      /^<BOS><\|start_header_id\|>system<\|end_header_id\|>\n\nEnvironment: ipython\n/,
    );
    expect(prompt).toContain("\n    }\n}\n\nBe brief.<|eot_id|>");
    expect(
      prompt.endsWith(
        `${turn("user", "Oslo?")}<|eot_id|>${turn("assistant", '{"name": "weather", "parameters": {"city": "Oslo"}}')}<|eot_id|>${turn("ipython", "rain")}<|eot_id|>${turn("assistant", "")}`,
      ),
    ).toBe(true);
    expect(render("llama3", { ...plain, tools: [WEATHER] })).toContain(
      `}<|eot_id|>${turn("user", "Hi")}`,
    );
  });

  test("harmony", () => {
    const system =
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: 2025-03-04\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.";
    expect(render("harmony", plain)).toBe(
      `${system}<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Yo<|end|><|start|>user<|message|>Bye<|end|><|start|>assistant`,
    );
    expect(render("harmony", { tools: [WEATHER] })).toBe(
      `${system}\nCalls to these tools must go to the commentary channel: 'functions'.<|end|>` +
        "<|start|>developer<|message|># Instructions\n\nBe brief.\n\n# Tools\n\n## functions\n\nnamespace functions {\n\n// Weather of a town.\ntype weather = (_: {\ncity: string,\n}) => any;\n\n} // namespace functions<|end|>" +
        "<|start|>user<|message|>Oslo?<|end|><|start|>assistant<|channel|>analysis<|message|>Weather!<|end|>" +
        '<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city": "Oslo"}<|call|>' +
        "<|start|>functions.weather to=assistant<|channel|>commentary<|message|>rain<|end|><|start|>assistant",
    );
    const types = {
      type: "object",
      properties: {
        a: { type: "array", items: { type: "integer" } },
        b: { enum: ["x", "y"] },
        c: { type: "object", properties: { d: { type: "boolean", description: "Why" } } },
        e: {},
      },
    };
    const tools = [{ type: "function", function: { name: "f", parameters: types } }];
    expect(render("harmony", { ...plain, tools })).toContain(
      'type f = (_: {\na?: number[],\nb?: "x" | "y",\nc?: {\n// Why\nd?: boolean,\n},\ne?: any,\n}) => any;',
    );
  });
});

describe("ids of calls", () => {
  const ids =
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.id }} {{ c.function.arguments }};{% endfor %}{{ m.tool_call_id }}|{% endfor %}";
  const call = (id: string | undefined, name: string) => ({
    ...(id !== undefined && { id }),
    type: "function" as const,
    function: { name, arguments: "{}" },
  });
  const messages: ChatMessage[] = [
    {
      role: "assistant",
      content: "",
      tool_calls: [call("call_0123456789ab", "f"), call(undefined, "g")],
    },
    { role: "tool", content: "1", tool_call_id: "call_0123456789ab" },
    { role: "assistant", content: "", tool_calls: [call("functions.h:2", "h")] },
    { role: "tool", content: "2", tool_call_id: "functions.h:2" },
  ];
  test.each([
    [
      "mistral takes nine characters",
      "[TOOL_CALLS]",
      "3456789ab {};000000001 {};|3456789ab|nctionsh2 {};|nctionsh2|",
    ],
    [
      "kimi-k2 takes functions and numbers",
      "<|im_middle|>",
      "functions.f:0 {};functions.g:1 {};|functions.f:0|functions.h:2 {};|functions.h:2|",
    ],
    [
      "others take them as given",
      "",
      "call_0123456789ab {}; {};|call_0123456789ab|functions.h:2 {};|functions.h:2|",
    ],
  ])("%s", (_, mark, prompt) => {
    const renderer = createChatRenderer({ jinjaFile: `{#${mark}#}${ids}` });
    expect(renderer.render({ messages, addGenerationPrompt: true })).toBe(prompt);
  });
});

test("a family can be named, and an unknown name lists the known ones", () => {
  expect(familyNamed("qwen3").toolCalls).toBe("qwen25");
  expect(familyNamed("unknown")).toEqual({ name: "unknown" });
  expect(() => familyNamed("qwen9")).toThrow(
    /^Cannot use chatFamily qwen9: it must be one of .*qwen3.*unknown/,
  );
});
