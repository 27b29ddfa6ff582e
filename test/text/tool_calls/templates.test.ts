/**
 * Calls as published templates write them into the history, which is how models learned to write
 * them, and marks on their way from tokens.
 */
import { describe, expect, test } from "vitest";
import type { ChatToolCall } from "../../../src/generation.ts";
import { createChatRenderer } from "../../../src/text/chat_template_choice.ts";
import { Detokenizer } from "../../../src/text/detokenizer.ts";
import { detectFamily } from "../../../src/text/families.ts";
import { createMessageParser, marksOf } from "../../../src/text/message_parser.ts";
import type { ReasoningParserName } from "../../../src/text/reasoning/formats.ts";
import { createTiktokenTokenizer } from "../../../src/text/tiktoken.ts";
import type { ToolCallParserName } from "../../../src/text/tool_calls/formats.ts";
import { collect, parseAllCuts } from "../cuts.ts";
import { hasSharedData, sharedJson, sharedText, skipNote } from "../shared_data.ts";

const TOOLS = ["weather", "time"].map((name) => ({
  type: "function",
  function: {
    name,
    description: "Tells it",
    parameters: { type: "object", properties: { city: { type: "string", description: "Where" } } },
  },
}));
const WEATHER = callOf("weather", '{"city": "Zoë"}');
const TIME = callOf("time", '{"city": "Oslo", "days": [1, 2]}');

function callOf(name: string, args: string): ChatToolCall {
  return { id: `call-${name}`, type: "function", function: { name, arguments: args } };
}

interface Template {
  readonly source: string;
  readonly parser: ToolCallParserName;
  readonly reasoning?: ReasoningParserName;
  /** What the template writes before and behind an answer. */
  readonly around: readonly [begin: string, end: string];
  /** Default: as many as there are. */
  readonly mostCalls?: number;
}

const EOS = "<｜end▁of▁sentence｜>";
const CHATML = ["<|im_start|>assistant\n", "<|im_end|>"] as const;

const TEMPLATES: readonly Template[] = [
  { source: "deepseek-v3", parser: "deepseekv3", around: ["<｜Assistant｜>", EOS] },
  { source: "deepseek-r1", parser: "deepseekv3", around: ["<｜Assistant｜>", EOS] },
  {
    source: "deepseek-ai-DeepSeek-V3.1.jinja",
    parser: "deepseekv31",
    around: ["<｜Assistant｜></think>", EOS],
  },
  { source: "Qwen-Qwen2.5-7B-Instruct.jinja", parser: "qwen25", around: CHATML },
  { source: "Qwen-Qwen3-0.6B.jinja", parser: "qwen25", reasoning: "qwen3", around: CHATML },
  {
    source: "NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja",
    parser: "hermes",
    around: CHATML,
  },
  {
    source: "meta-llama-Llama-3.1-8B-Instruct.jinja",
    parser: "llama3",
    around: ["<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"],
    mostCalls: 1,
  },
  { source: "openai-gpt-oss-120b.jinja", parser: "gpt-oss", around: ["<|start|>assistant", ""] },
];

function templateText(source: string): string {
  if (source.endsWith(".jinja")) return sharedText(`chat-templates/${source}`);
  return sharedJson<{ chat_template: string }>(`tokenizers/${source}/tokenizer_config.json`)
    .chat_template;
}

describe.skipIf(!hasSharedData)(`published templates${skipNote}`, () => {
  test.each(TEMPLATES)("$source writes calls that $parser reads", (template) => {
    const { source, parser, reasoning, around, mostCalls = 2 } = template;
    const text = templateText(source);
    const family = detectFamily({ template: text });
    expect(family.toolCalls).toBe(parser === "hermes" ? "qwen25" : parser);
    const tokenizerConfig = { bos_token: "<BOS>", eos_token: "<EOS>" };
    const renderer = createChatRenderer({ jinjaFile: text, tokenizerConfig });
    for (const calls of [[WEATHER], [TIME, WEATHER]].slice(0, mostCalls)) {
      const prompt = renderer.render({
        messages: [
          { role: "user", content: "Oslo?" },
          { role: "assistant", content: null, tool_calls: calls },
        ],
        tools: TOOLS,
        addGenerationPrompt: false,
      });
      const [begin, end] = around;
      const from = prompt.indexOf(begin) + begin.length;
      const until = end === "" ? prompt.length : prompt.indexOf(end, from);
      const answer = prompt.slice(from, until < 0 ? prompt.length : until);
      const create = () =>
        createMessageParser({ toolCalls: parser, tools: ["weather", "time"], reasoning });
      const { content, calls: read } = parseAllCuts(create, answer);
      expect(content, answer).toBe("");
      expect(read.map((call) => [call.name, JSON.parse(call.arguments)])).toEqual(
        calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]),
      );
    }
  });
});

test("the marks of gpt-oss come through a detokenizer that skips special tokens, others do not", async () => {
  const tokenizer = await createTiktokenTokenizer("o200k_harmony");
  const ids = tokenizer.encode(
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f " +
      '<|constrain|>json<|message|>{"a": 1}<|call|><|endoftext|>',
  );
  const options = { toolCalls: "gpt-oss", reasoning: "gpt-oss", tools: ["f"] } as const;
  const detokenizer = new Detokenizer(tokenizer.vocabulary, {
    skipSpecialTokens: true,
    shownSpecialTokens: marksOf(options),
  });
  const parser = createMessageParser(options);
  const events = ids.flatMap((id) => parser.push(detokenizer.push([id])));
  expect(collect([...events, ...parser.end()])).toEqual({
    reasoning: "Hm.",
    content: "",
    calls: [{ name: "f", arguments: '{"a": 1}' }],
  });
});
