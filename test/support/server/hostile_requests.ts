/**
 * Requests as strangers send them: bodies that were valid once, with values replaced, fields lost
 * and characters changed, by a seed.
 *
 * @module
 */

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
  model: "default",
  lora_path: "",
  conversation_id: "c",
  log_metrics: false,
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
    { role: "user", content: [{ type: "text", text: "hello", cache_control: { type: "e" } }] },
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
  metadata: { a: "b" },
  reasoning: { enabled: true },
  store: true,
  service_tier: "flex",
  prompt_cache_key: "k",
  verbosity: "low",
  repeat_penalty: 1.1,
};

/** Forms, one of which a request may have. */
const FORMED = {
  messages: [{ role: "user", content: "hello", provider_specific_fields: { a: 1 } }],
  structured_outputs: { choice: ["yes", "no"], disable_fallback: true },
  guided_choice: ["yes", "no"],
  guided_json: null,
  guided_regex: "",
  guided_grammar: null,
  n_predict: -1,
  echo: false,
  best_of: 1,
  add_generation_prompt: true,
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
  stream_options: {
    include_usage: true,
    continuous_usage_stats: false,
    include_cached_tokens: true,
  },
  response_format: { type: "json_schema", json_schema: { name: "s", schema: {}, strict: true } },
  guided_json: {},
  repeat_penalty: 1.1,
  cache_prompt: true,
  seed: 1,
  rid: "r",
};

const TOKENIZE = {
  messages: [{ role: "user", content: "hello" }],
  chat_template_kwargs: { thinking: true },
  continue_final_message: false,
};

const MESSAGES = {
  model: "m",
  max_tokens: 5,
  system: [{ type: "text", text: "be brief", cache_control: { type: "ephemeral" } }],
  messages: [
    { role: "user", content: "hello" },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "hm", signature: "s" },
        { type: "text", text: "I ask" },
        { type: "tool_use", id: "t", name: "f", input: { a: [1] } },
      ],
    },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "1" }] },
        { type: "text", text: "so?" },
      ],
    },
  ],
  tools: [{ name: "f", description: "d", input_schema: { type: "object" } }],
  tool_choice: { type: "auto", disable_parallel_tool_use: false },
  thinking: { type: "adaptive" },
  output_config: { effort: "low" },
  stop_sequences: ["x"],
  temperature: 0.5,
  top_k: 4,
  stream: true,
  metadata: { user_id: "u" },
};

const OLLAMA = {
  model: "m",
  messages: [
    { role: "system", content: "be brief" },
    { role: "user", content: "hello", images: [] },
    {
      role: "assistant",
      content: "",
      thinking: "hm",
      tool_calls: [{ function: { name: "f", arguments: { a: 1 } } }],
    },
    { role: "tool", content: "42", tool_name: "f" },
  ],
  tools: TOOLS,
  format: "json",
  think: false,
  stream: true,
  keep_alive: "5m",
  options: { num_predict: 5, num_ctx: 4096, temperature: 0.5, top_k: 4, seed: 1, stop: ["x"] },
};

const RESPONSE = {
  model: "m",
  instructions: "be brief",
  input: [
    { role: "user", content: [{ type: "input_text", text: "hello" }] },
    { type: "reasoning", id: "r", summary: [], content: [{ type: "reasoning_text", text: "hm" }] },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "I ask" }] },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}", status: "completed" },
    { type: "function_call_output", call_id: "c", output: "1" },
  ],
  tools: [{ type: "function", name: "f", parameters: { type: "object" }, strict: false }],
  tool_choice: "auto",
  parallel_tool_calls: true,
  max_output_tokens: 5,
  text: { format: { type: "text" }, verbosity: "low" },
  reasoning: { effort: "low", summary: "auto" },
  include: ["reasoning.encrypted_content"],
  truncation: "disabled",
  temperature: 0.5,
  stream: true,
  store: false,
  metadata: { a: "b" },
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
export function randomSource(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** One of the list. */
export function pick<T>(list: readonly T[], random: () => number): T {
  return list[Math.floor(random() * list.length)]!;
}

/** A copy with a few of its values replaced, removed, repeated or joined by another. */
function mutate(value: unknown, random: () => number): unknown {
  if (random() < 0.02) return pick(VALUES, random);
  if (Array.isArray(value)) {
    const items = value.map((item) => mutate(item, random));
    if (random() < 0.03) items.push(pick(VALUES, random));
    if (random() < 0.03) items.splice(Math.floor(random() * items.length), 1);
    return items;
  }
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value)
    .filter(() => random() > 0.02)
    .map(([name, item]) => [name, mutate(item, random)]);
  if (random() < 0.03) entries.push([pick(NAMES, random), pick(VALUES, random)]);
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

/** Endpoints that read a body, each with bodies that it takes. */
export const TEMPLATES: readonly (readonly [path: string, body: object])[] = [
  ["/generate", GENERATE],
  ["/generate", TOKENS],
  ["/v1/chat/completions", CHAT],
  ["/v1/chat/completions", FORMED],
  ["/v1/messages", MESSAGES],
  ["/v1/responses", RESPONSE],
  ["/api/chat", OLLAMA],
  ["/api/generate", { prompt: "abc", system: "be brief", raw: false, options: { seed: 1 } }],
  ["/parse_function_call", PARSE_CALLS],
  ["/separate_reasoning", SEPARATE],
  ["/v1/completions", COMPLETION],
  ["/tokenize", TOKENIZE],
  ["/tokenize", { prompt: ["abc", "de"], add_special_tokens: true, model: "m" }],
  ["/detokenize", { tokens: [[97, 98], [99]], skip_special_tokens: true, model: "m" }],
  ["/abort_request", { rid: "r", abort_all: false }],
];

/** A body that may be refused: changed as JSON, and sometimes as text. */
export function hostileBody(template: object, random: () => number): string {
  const text = JSON.stringify(mutate(template, random)) ?? "";
  return random() < 0.15 ? scramble(text, random) : text;
}
