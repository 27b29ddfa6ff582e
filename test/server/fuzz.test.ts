/**
 * Random and mutated bodies: whatever a stranger sends, the answer is theirs to read (never a 500)
 * and nothing is left running.
 */
import { expect, test, vi } from "vitest";
import { createApp } from "../../src/server/app.ts";
import { errorMessage, post } from "../support/http_client.ts";
import { ScriptedEngine } from "../support/scripted_engine.ts";

/** Of each kind of body; twenty times that in the long campaign. */
const CASES = process.env.WISP_TEST_FULL === "1" ? 10_000 : 500;

const GENERATE = {
  text: ["abc", "def"],
  sampling_params: [
    { max_new_tokens: 5, temperature: 0, top_p: 0.5, top_k: 3, stop: ["x"], stop_token_ids: [2] },
    { ignore_eos: true, skip_special_tokens: false, sampling_seed: 1, n: 1, regex: null },
  ],
  rid: ["r1", "r2"],
  stream: true,
  return_logprob: [true, false],
  logprob_start_len: [-1, null],
  top_logprobs_num: 2,
  token_ids_logprob: [[1, 2], []],
  return_text_in_logprobs: true,
  image_data: null,
};

const TOKENS = {
  input_ids: [1, 2, 3],
  sampling_params: {
    max_new_tokens: 4,
    min_new_tokens: 2,
    min_p: 0.1,
    frequency_penalty: 1,
    presence_penalty: -1,
    repetition_penalty: 1.1,
    logit_bias: { "5": 1.5, "6": -100 },
    no_stop_trim: true,
    n: 2,
  },
  rid: "r",
};

const TOOLS = [
  {
    type: "function",
    function: { name: "f", description: "d", parameters: { type: "object" }, strict: false },
  },
];

const CHAT = {
  model: "m",
  messages: [
    { role: "system", content: "be brief" },
    { role: "user", content: [{ type: "text", text: "hello" }] },
    {
      role: "assistant",
      content: null,
      reasoning_content: "hm",
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "c", content: "42" },
  ],
  max_tokens: 5,
  stream: true,
  stream_options: { include_usage: true },
  stop: "x",
  seed: 3,
  logprobs: true,
  top_logprobs: 2,
  logit_bias: { "7": 1 },
  min_tokens: 2,
  n: 3,
  tools: TOOLS,
  tool_choice: "auto",
  parallel_tool_calls: true,
  separate_reasoning: true,
  stream_reasoning: false,
  user: "u",
};

const PARSE_CALLS = {
  text: '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call> x',
  tools: TOOLS,
  tool_call_parser: "qwen25",
};

const SEPARATE = { text: "<think>a</think>b", reasoning_parser: "qwen3" };

const COMPLETION = {
  model: "m",
  prompt: ["abc", "de"],
  max_tokens: 4,
  n: 2,
  best_of: 2,
  echo: true,
  logprobs: 1,
  suffix: "",
  stream: true,
  stream_options: { include_usage: true, continuous_usage_stats: false },
  response_format: { type: "json_schema", json_schema: { name: "s", schema: {}, strict: true } },
  seed: 1,
  rid: "r",
};

const TOKENIZE = {
  messages: [{ role: "user", content: "hello" }],
  chat_template_kwargs: { thinking: true },
  continue_final_message: false,
};

const VALUES = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e308,
  2 ** 53,
  "",
  "x",
  "\ud800",
  "\u0000",
  "x".repeat(5000),
  [],
  [[]],
  [null],
  {},
  { text: {} },
  { a: [1, { b: null }] },
  Array.from({ length: 50 }, (_, i) => i),
];

const NAMES = [
  "text",
  "input_ids",
  "messages",
  "n",
  "__proto__",
  "constructor",
  "toString",
  "",
  "🦊",
];

/** Deterministic numbers in [0, 1) (mulberry32). */
function randomSource(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A copy with a few of its values replaced, removed, repeated or joined by another. */
function mutate(value: unknown, random: () => number): unknown {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  if (random() < 0.02) return pick(VALUES);
  if (Array.isArray(value)) {
    const items = value.map((item) => mutate(item, random));
    if (random() < 0.03) items.push(pick(VALUES));
    if (random() < 0.03) items.splice(Math.floor(random() * items.length), 1);
    return items;
  }
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value)
    .filter(() => random() > 0.02)
    .map(([name, item]) => [name, mutate(item, random)]);
  if (random() < 0.03) entries.push([pick(NAMES), pick(VALUES)]);
  return Object.fromEntries(entries);
}

/** JSON text with a few of its characters changed, dropped or doubled. */
function scramble(text: string, random: () => number): string {
  const characters = [...text];
  for (let i = 0; i < 3; i++) {
    const at = Math.floor(random() * characters.length);
    const change = random();
    if (change < 0.4) characters[at] = '{}[]",:0e-\\x'[Math.floor(random() * 12)]!;
    else if (change < 0.7) characters.splice(at, 1);
    else characters.splice(at, 0, characters[at]!);
  }
  return characters.join("");
}

test.each([
  ["/generate", GENERATE],
  ["/generate", TOKENS],
  ["/v1/chat/completions", CHAT],
  ["/parse_function_call", PARSE_CALLS],
  ["/separate_reasoning", SEPARATE],
  ["/v1/completions", COMPLETION],
  ["/tokenize", TOKENIZE],
  ["/tokenize", { prompt: ["abc", "de"], add_special_tokens: true, model: "m" }],
  ["/detokenize", { tokens: [[97, 98], [99]], skip_special_tokens: true, model: "m" }],
  ["/abort_request", { rid: "r", abort_all: false }],
])("%s survives random bodies", async (path, template) => {
  const reportError = vi.fn();
  const engine = new ScriptedEngine();
  const app = createApp(engine, {
    reportError,
    maxBodyBytes: 20_000,
    toolCallParser: "qwen25",
    reasoningParser: "qwen3",
  });
  const random = randomSource(path.length + JSON.stringify(template).length);
  const statuses = new Map<number, number>();
  for (let i = 0; i < CASES; i++) {
    const mutated = mutate(template, random);
    const text = JSON.stringify(mutated) ?? "";
    const body = random() < 0.15 ? scramble(text, random) : text;
    const response = await post(app, path, body);
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
    expect([200, 400, 413], body).toContain(response.status);
    if (response.status === 200) await response.text();
    else expect(await errorMessage(response), body).toMatch(/../);
    expect(engine.running, body).toEqual([]);
  }
  expect(reportError).not.toHaveBeenCalled();
  // Both sides of the border were visited.
  expect(statuses.get(200)).toBeGreaterThan(CASES / 50);
  expect(statuses.get(400)).toBeGreaterThan(CASES / 10);
});
