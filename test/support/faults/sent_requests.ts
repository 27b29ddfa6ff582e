/**
 * Requests whose answers tell of every part of the engine and the server.
 *
 * @module
 */
import { gzipSync } from "node:zlib";
import type { LocalRequest } from "../../../src/engine/engine.ts";
import { picture } from "../engines/vision_engine.ts";
import type { Sent } from "./served_engine.ts";

export const prompt = (first: number, length = 9) =>
  Array.from({ length }, (_, i) => 3 + ((first + 31 * i) % 500));
const SAMPLED = { temperature: 0.9, sampling_seed: 5, max_new_tokens: 8, ignore_eos: true };
const MESSAGES = [{ role: "user", content: "Count to ten." }];
const TOOLS = [{ type: "function", function: { name: "f", parameters: { type: "object" } } }];

/** A request to which a manner can be added. */
type Plain = readonly [method: string, path: string, body: object];

export const chat = (fields: object): Plain => [
  "POST",
  "/v1/chat/completions",
  { messages: MESSAGES, max_tokens: 5, seed: 4, ignore_eos: true, ...fields },
];
export const generate = (fields: object, sampling: object = {}): Plain => [
  "POST",
  "/generate",
  { sampling_params: { ...SAMPLED, ...sampling }, ...fields },
];

export const base64 = (name: string) => Buffer.from(picture(name)).toString("base64");
export const imagePart = (name: string) => ({
  type: "image_url",
  image_url: { url: `data:image/png;base64,${base64(name)}` },
});

/** Requests that the model answers. */
export const GENERATING = {
  chat: chat({ n: 2, stream: true, logprobs: true, top_logprobs: 2 }),
  "whole chat": chat({ tools: TOOLS }),
  scored: generate({
    input_ids: prompt(8, 20),
    ...{ return_logprob: true, logprob_start_len: 0, top_logprobs_num: 3 },
    token_ids_logprob: [5, 6],
  }),
  stream: generate(
    { input_ids: prompt(5), stream: true },
    { frequency_penalty: 0.5, logit_bias: { 40: 1 } },
  ),
  completions: [
    "POST",
    "/v1/completions",
    {
      model: "m",
      prompt: ["one two", "three"],
      max_tokens: 4,
      ...{ echo: true, logprobs: 1, seed: 3, ignore_eos: true },
    },
  ],
  regex: generate({ text: "a" }, { regex: "[a-z ]{90}" }),
} as const satisfies Record<string, Sent>;

const rows = (seed: number) =>
  Array.from({ length: 7 }, (_, row) =>
    Array.from({ length: 256 }, (_, i) => Math.sin(row * seed + i) / 9),
  );
/** What memory has to grow for, the first time: each alone, as growth ends the request that asks for it. */
export const GROWING: readonly Readonly<Record<string, Sent>>[] = [
  { penalties: generate({ input_ids: prompt(21) }, { repetition_penalty: 1.2 }) },
  {
    biases: generate(
      { input_ids: prompt(22) },
      { logit_bias: Object.fromEntries(Array.from({ length: 600 }, (_, i) => [i + 3, -1])) },
    ),
  },
  {
    "many log-probabilities": generate({
      input_ids: prompt(23),
      ...{ return_logprob: true, token_ids_logprob: prompt(24, 99) },
    }),
  },
];

export const STORED = generate(
  { input_ids: prompt(9, 70), store_prefix: true },
  { max_new_tokens: 2 },
);

export const OTHERS = {
  embeddings: generate({ input_embeds: rows(7) }),
  "embeddings of two": generate({ input_embeds: [rows(7), rows(8)] }),
  zipped: [
    "POST",
    "/tokenize",
    new Uint8Array(gzipSync(JSON.stringify({ prompt: "hello there" }))),
  ],
  tokenize: ["POST", "/tokenize", { prompt: ["hello there", "you"] }],
  detokenize: ["POST", "/detokenize", { tokens: [[5, 6, 7], [8]] }],
  calls: [
    "POST",
    "/parse_function_call",
    {
      text: '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
      tools: TOOLS,
      tool_call_parser: "qwen25",
    },
  ],
  reasoning: [
    "POST",
    "/separate_reasoning",
    { text: "<think>a</think>b", reasoning_parser: "qwen3" },
  ],
  message: [
    "POST",
    "/v1/messages",
    { model: "m", messages: MESSAGES, max_tokens: 4, stream: true, temperature: 0 },
  ],
  "whole message": ["POST", "/v1/messages", { messages: MESSAGES, max_tokens: 3, temperature: 0 }],
  counted: ["POST", "/v1/messages/count_tokens", { messages: MESSAGES }],
  response: [
    "POST",
    "/v1/responses",
    { input: "Count to ten.", max_output_tokens: 4, stream: true, temperature: 0 },
  ],
  "whole response": [
    "POST",
    "/v1/responses",
    { input: "Count", max_output_tokens: 3, temperature: 0 },
  ],
  ollama: [
    "POST",
    "/api/chat",
    { messages: MESSAGES, options: { num_predict: 3, temperature: 0 } },
  ],
  "whole ollama": [
    "POST",
    "/api/generate",
    { prompt: "Count", stream: false, options: { num_predict: 3, temperature: 0 } },
  ],
  "shown ollama": ["POST", "/api/show", { model: "tiny-deepseek-v3" }],
  health: ["GET", "/health_generate"],
  flush: ["POST", "/flush_cache?timeout=3000"],
  abort: ["POST", "/abort_request", { rid: "absent" }],
  metrics: ["GET", "/metrics"],
  processed: [
    "LIBRARY",
    "",
    {
      tokens: prompt(6),
      sampling: { maxNewTokens: 4, ignoreEos: true, temperature: 0 },
      logitProcessors: [({ tokens, logits }) => logits.fill(1e6, 40 + tokens.length, 42)],
    } satisfies LocalRequest,
  ],
} as const satisfies Record<string, Sent>;

/** So much that it is read, written or packed in pieces. */
export const LONG = {
  "long body": [
    "POST",
    "/generate",
    JSON.stringify({ text: "a", sampling_params: SAMPLED }) + " ".repeat(2 ** 21),
  ],
  "long event": generate({
    ...{ input_ids: prompt(8, 20), stream: true },
    ...{ return_logprob: true, logprob_start_len: 0, top_logprobs_num: 60 },
  }),
  "long answer": ["POST", "/tokenize", { prompt: "a b c d e f g ".repeat(6000) }],
  "long list": [
    "POST",
    "/detokenize",
    { tokens: Array.from({ length: 40_000 }, (_, i) => 3 + (i % 500)) },
  ],
} as const satisfies Record<string, Sent>;

/** Begins to record choices of experts, and writes them down. */
export const EXPERT_RECORD: Sent = [
  ...(["POST", "/start_expert_distribution_record", {}] as const),
  {
    behind: [
      GENERATING.stream,
      ["POST", "/dump_expert_distribution_record", {}],
      ["POST", "/stop_expert_distribution_record", {}],
    ],
  },
];

/** Each depends on the one before: together they are one client's doing. */
export const PROFILE: Sent = [
  ...(["POST", "/start_profile", {}] as const),
  { behind: [GENERATING.stream, ["POST", "/stop_profile", {}]] },
];
