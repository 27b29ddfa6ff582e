/**
 * Hostile clients whose texts take long to be read: by the tokenizer, templates, parsers, and by what
 * looks for stops.
 *
 * @module
 */
import type { Kind } from "./neighbours.ts";
import { many, post } from "./raw_requests.ts";

const CHAT = "/v1/chat/completions";
const TOOL = (i: number) => ({
  type: "function",
  function: { name: `tool_${i}`, description: "d", parameters: { type: "object" } },
});
/** As much as parsers take, about. */
const LONG_TEXT = 260_000;
const generate = (text: string, sampling: object = {}) => ({
  text,
  sampling_params: { max_new_tokens: 2, ...sampling },
});

export const TEXTS: readonly Kind[] = [
  {
    name: "prompts of newlines",
    connections: many(2, () => post("/generate", generate("\n".repeat(262_144)))),
  },
  {
    name: "one word of a megabyte",
    isLong: true,
    connections: [
      post("/generate", generate("a".repeat(1_000_000))),
      post("/generate", generate("\u6f22".repeat(300_000))),
    ],
  },
  {
    name: "long texts for the template",
    connections: many(2, () =>
      post(CHAT, {
        messages: [
          { role: "user", content: many(40_000, (i) => `mark${i}`).join("") },
          { role: "system", content: "Be brief." },
        ],
        max_tokens: 1,
      }),
    ),
  },
  {
    name: "a chat of 100,000 messages",
    isLong: true,
    connections: [
      post(CHAT, {
        messages: many(100_000, (i) => ({
          role: i % 2 === 0 ? "user" : "assistant",
          content: "a",
        })),
        max_tokens: 1,
      }),
    ],
  },
  {
    name: "floods of /tokenize",
    isLong: true,
    connections: many(8, () =>
      post("/tokenize", { prompt: "all the words there are ".repeat(8000) }),
    ),
  },
  {
    name: "floods of /detokenize",
    connections: many(8, (i) =>
      post("/detokenize", { tokens: many(i < 4 ? 60_000 : 1_000_000, (at) => at % 500) }),
    ),
  },
  {
    name: "lists for /tokenize and /detokenize",
    connections: [
      ...many(2, () => post("/tokenize", { prompt: many(20_000, (i) => `word ${i}`) })),
      ...many(2, () => post("/detokenize", { tokens: many(20_000, (i) => [i % 500, 7]) })),
      // Lists of nothing, and lists that hold a longer one.
      post("/tokenize", { prompt: many(200_000, () => "") }),
      post("/detokenize", { tokens: many(200_000, () => []) }),
      post("/detokenize", { tokens: [...many(1000, () => [5]), many(400_000, (i) => i % 500)] }),
    ],
  },
  {
    name: "stop lists",
    connections: [
      post(
        "/generate",
        generate("a", { stop: many(100_000, (i) => `stop ${i}`), max_new_tokens: 8 }),
      ),
      // As many as there may be.
      ...many(4, () =>
        post(
          "/generate",
          generate("a", { stop: many(1024, (i) => `aaaaaaaaaa ${i}`), max_new_tokens: 32 }),
        ),
      ),
      post("/generate", generate("a", { stop: ["ab".repeat(200_000)], max_new_tokens: 8 })),
      post("/generate", generate("a", { stop_token_ids: many(200_000, (i) => i) })),
    ],
  },
  {
    name: "logit_bias of every token",
    connections: many(16, (i) =>
      post(CHAT, {
        messages: [{ role: "user", content: "a" }],
        max_tokens: 16,
        // Every other request has more than it may.
        logit_bias: Object.fromEntries(many(1024 + (i % 2) * 1000, (at) => [String(at), at / 100])),
      }),
    ),
  },
  {
    name: "thousands of tools",
    isLong: true,
    connections: many(2, () =>
      post(CHAT, {
        messages: [{ role: "user", content: "a" }],
        max_tokens: 4,
        tools: many(3000, TOOL),
        tool_choice: "required",
      }),
    ),
  },
  {
    name: "floods of /parse_function_call",
    connections: [
      ...["<tool_call>", "<tool_call>{", "<｜tool▁call▁begin｜>", "[f(a=[", "<"].map((piece) =>
        post("/parse_function_call", {
          text: piece.repeat(Math.floor(LONG_TEXT / piece.length)),
          tools: [TOOL(0)],
          tool_call_parser: "qwen25",
        }),
      ),
      post("/parse_function_call", { text: "<".repeat(2 * LONG_TEXT), tools: [TOOL(0)] }),
      post("/parse_function_call", {
        text: "[".repeat(100_000),
        tools: [TOOL(0)],
        tool_call_parser: "pythonic",
      }),
    ],
  },
  {
    name: "floods of /separate_reasoning",
    connections: many(4, (i) =>
      post("/separate_reasoning", {
        text: ["<think>", "<", "</think", "<think></think>"][i]!.repeat(15_000),
        reasoning_parser: "qwen3",
      }),
    ),
  },
  {
    name: "halves of surrogates and bytes that are no text",
    connections: [
      post("/generate", '{"text":"\\ud800\\udc00\\ud800","sampling_params":{"max_new_tokens":2}}'),
      post("/generate", Buffer.from('{"text":"\xff\xfe\xc0\x80"}', "latin1")),
      post(CHAT, '{"messages":[{"role":"user","content":"\\udfff\\u0000\\ufffe"}],"max_tokens":2}'),
      post("/generate", '{"text":"a","rid":"\\ud800","sampling_params":{"max_new_tokens":2}}'),
      post("/generate", '{"text":"a","sampling_params":{"stop":"\\ud83d","max_new_tokens":2}}'),
    ],
  },
];
