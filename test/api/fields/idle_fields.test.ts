/** Fields that clients send and that change no answer: they are taken, and told about once a name. */
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, errorMessage, post } from "../../support/server/http_client.ts";

const GENERATE = "/generate";
const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const ENDPOINTS = [GENERATE, CHAT, COMPLETIONS] as const;

const USER = { role: "user", content: "hello" };
const BODIES: Readonly<Record<string, object>> = {
  [GENERATE]: { text: "hello" },
  [CHAT]: { messages: [USER] },
  [COMPLETIONS]: { prompt: "hello" },
};

/** An app, the engine behind it, and the fields that it told about. */
function setUp() {
  const engine = new ScriptedEngine();
  const told: string[] = [];
  const app = createApp(engine, { onIdleField: (name) => told.push(name) });
  const send = (path: string, fields: object) => post(app, path, { ...BODIES[path], ...fields });
  return { engine, told, app, send };
}

/** What the engine is asked, and what the server tells of it, with the fields and without them. */
async function effect(path: string, fields: object) {
  const { engine, told, send } = setUp();
  expect((await send(path, {})).status).toBe(200);
  expect(told).toEqual([]);
  const response = await send(path, fields);
  expect(response.status, await response.clone().text()).toBe(200);
  return { without: engine.requests[0], asked: engine.requests[1], told };
}

async function refusal(path: string, fields: object): Promise<string> {
  const { engine, send, told } = setUp();
  const response = await send(path, fields);
  expect(response.status).toBe(400);
  expect(engine.requests).toEqual([]);
  expect(told).toEqual([]);
  return errorMessage(response);
}

const EVERYWHERE = {
  cache_prompt: true,
  conversation_id: "c",
  extra_body: {},
  label: "l",
  metadata: { a: "b" },
  prompt_cache_key: "k",
  prompt_cache_retention: "24h",
  routing_key: "r",
  safety_identifier: "s",
  service_tier: "flex",
  store: true,
  user: "u",
  lora_path: "",
  return_hidden_states: false,
  return_routed_experts: false,
  session_params: {},
};

const GENERATE_ONLY = {
  audio_data: [],
  background: false,
  modalities: [],
  model: "default",
  no_logs: false,
  return_bytes: false,
  return_prompt_token_ids: false,
  return_sampling_mask: false,
  video_data: [],
};

const OPENAI_ONLY = {
  bad_words: [],
  custom_params: {},
  dry_allowed_length: 2,
  dry_base: 1.75,
  dry_multiplier: 0,
  dry_penalty_last_n: -1,
  dry_sequence_breakers: ["\n"],
  dynatemp_exponent: 1,
  dynatemp_range: 0,
  guided_decoding_backend: "xgrammar",
  id_slot: -1,
  include_stop_str_in_output: false,
  length_penalty: 1,
  logits_processors: [],
  mirostat: 0,
  mirostat_eta: 0.1,
  mirostat_tau: 5,
  n_probs: 0,
  repeat_last_n: -1,
  return_token_ids: false,
  return_tokens_as_token_ids: false,
  stop_regex: [],
  stream_options: { include_usage: true },
  timings_per_token: false,
  typical_p: 1,
  use_beam_search: false,
  xtc_probability: 0,
  xtc_threshold: 0.1,
};

const CHAT_ONLY = {
  add_generation_prompt: true,
  add_special_tokens: false,
  best_of: 1,
  documents: [],
  echo: false,
  function_call: "none",
  functions: [],
  include_reasoning: true,
  mm_processor_kwargs: {},
  modalities: ["text"],
  prediction: { type: "content", content: "a guess" },
  reasoning_effort: "minimal",
  verbosity: "low",
};

const COMPLETIONS_ONLY = { add_special_tokens: true, suffix: "" };

const TAKEN: readonly (readonly [path: string, fields: object])[] = [
  ...ENDPOINTS.map((path) => [path, EVERYWHERE] as const),
  [GENERATE, GENERATE_ONLY],
  [CHAT, OPENAI_ONLY],
  [COMPLETIONS, OPENAI_ONLY],
  [CHAT, CHAT_ONLY],
  [COMPLETIONS, COMPLETIONS_ONLY],
];

const SINGLE = TAKEN.flatMap(([path, fields]) =>
  Object.entries(fields).map(([name, value]) => [path, name, value] as const),
);

describe("fields without an effect", () => {
  test.each(SINGLE)("%s takes %s: %j", async (path, name, value) => {
    const { asked, without, told } = await effect(path, { [name]: value });
    expect(asked).toEqual(without);
    expect(told).toEqual([name]);
  });

  test("are told about once a name, whatever asks and how often", async () => {
    const { told, send } = setUp();
    for (const path of ENDPOINTS) {
      for (const user of ["a", "b"]) await send(path, { user, store: true });
    }
    expect(told.toSorted()).toEqual(["store", "user"]);
  });

  test("of an app without a listener are taken as well", async () => {
    const response = await post(createApp(new ScriptedEngine()), CHAT, {
      ...BODIES[CHAT],
      ...EVERYWHERE,
    });
    expect(response.status).toBe(200);
  });

  test.each(ENDPOINTS)("that are null are not even told about, on %s", async (path) => {
    const names = [...SINGLE.map(([, name]) => name), "temperature", "stop", "n", "nobody_knows"];
    const nulls = Object.fromEntries(names.map((name) => [name, null]));
    const { asked, without, told } = await effect(path, nulls);
    expect(asked).toEqual(without);
    expect(told).toEqual([]);
  });

  test("sampling_params takes nulls of any name, and what asks for nothing", async () => {
    const sampling_params = { temperature: null, stop_regex: [], custom_params: {}, other: null };
    const { asked, told } = await effect(GENERATE, { sampling_params });
    expect(asked!.sampling).toEqual({});
    expect(told).toEqual(["custom_params", "stop_regex"]);
  });
});

describe("what would change the answer and cannot be done is refused and named", () => {
  test.each([
    [GENERATE, { lora_path: "adapter" }, "lora_path"],
    [GENERATE, { background: true }, "background"],
    [GENERATE, { extra_body: { top_k: 1 } }, "extra_body"],
    [GENERATE, { data_parallel_rank: 1 }, "data_parallel_rank"],
    [GENERATE, { return_prompt_token_ids: true }, "return_prompt_token_ids"],
    [CHAT, { add_generation_prompt: false }, "add_generation_prompt"],
    [CHAT, { echo: true }, "echo"],
    [CHAT, { best_of: 2 }, "best_of"],
    [CHAT, { function_call: { name: "f" } }, "function_call"],
    [CHAT, { include_reasoning: false }, "include_reasoning"],
    [CHAT, { modalities: [{ toString: 1 }] }, "modalities"],
    [CHAT, { web_search_options: {} }, "web_search_options"],
    [CHAT, { mirostat: 2, mirostat_tau: 5 }, "mirostat"],
    [CHAT, { repeat_last_n: 64 }, "repeat_last_n"],
    [CHAT, { length_penalty: 0.5 }, "length_penalty"],
    [CHAT, { stream: true, stream_options: { include_obfuscation: true } }, "stream_options.incl"],
    [COMPLETIONS, { typical_p: 0.9 }, "typical_p"],
    [COMPLETIONS, { add_special_tokens: false }, "add_special_tokens"],
    [COMPLETIONS, { prompt_logprobs: 1 }, "prompt_logprobs"],
    [COMPLETIONS, { guided_whitespace_pattern: "" }, "guided_whitespace_pattern"],
  ])("%s, %j", async (path, fields, name) => {
    expect(await refusal(path, fields)).toContain(`Cannot use ${name}`);
  });

  test.each(ENDPOINTS)("and so is a name that is on no list, by %s", async (path) => {
    expect(await refusal(path, { nobody_knows: 1 })).toBe(
      "Cannot use nobody_knows: it is not a known field",
    );
  });
});

describe("notes in messages and tools", () => {
  const notes = { cache_control: { type: "ephemeral" }, provider_specific_fields: { a: 1 } };
  const call = { name: "f", arguments: "{}" };
  const plain = [
    { role: "user", content: "hello" },
    {
      role: "assistant",
      content: "",
      tool_calls: [{ id: "c", type: "function", function: call }],
    },
    { role: "tool", tool_call_id: "c", content: "42" },
  ];

  test("are not shown to the model", async () => {
    const noted = [
      { role: "user", content: [{ type: "text", text: "hello", ...notes }], ...notes },
      {
        ...plain[1],
        ...notes,
        parsed: { a: 1 },
        prefix: false,
        tool_calls: [
          { id: "c", type: "function", function: { ...call, parsed_arguments: {} }, ...notes },
        ],
      },
      { ...plain[2], ...notes },
    ];
    const { engine, told, send } = setUp();
    expect((await send(CHAT, { messages: noted })).status).toBe(200);
    expect(engine.requests[0]!.messages).toEqual(plain);
    expect(told.toSorted()).toEqual([
      "cache_control",
      "parsed",
      "parsed_arguments",
      "prefix",
      "provider_specific_fields",
    ]);
  });

  test("and nulls in tools are not shown either, by a chat and by /tokenize", async () => {
    const parameters = { type: "object", properties: { a: { default: null } } };
    const named = { name: "f", parameters };
    const tools = [
      {
        type: "function",
        function: { ...named, description: null, strict: null, ...notes },
        ...notes,
        other: null,
        own: 1,
      },
    ];
    const shown = [{ type: "function", function: named, own: 1 }];
    const { engine, told, send, app } = setUp();
    expect((await send(CHAT, { tools })).status).toBe(200);
    expect(engine.requests[0]!.tools).toEqual(shown);
    expect(told).toEqual(["cache_control", "provider_specific_fields"]);
    const body = { messages: [USER], tools, add_generation_prompt: true };
    expect((await post(app, "/tokenize", body)).status).toBe(200);
    expect(engine.tokenized[0]!.tools).toEqual(shown);
  });

  test("nulls of any name pass in messages, parts and calls", async () => {
    const nulls = { a: null, refusal: null, audio: null };
    const part = { type: "text", text: "hello", image_url: null };
    const messages = [
      { role: "user", content: [part], tool_calls: null, ...nulls },
      {
        ...plain[1],
        reasoning_content: null,
        tool_calls: [{ id: "c", type: "function", index: null, function: { ...call, x: null } }],
      },
      { ...plain[2], name: null },
    ];
    const { asked, told } = await effect(CHAT, { messages });
    expect(asked!.messages).toEqual(plain);
    expect(told).toEqual([]);
  });

  test("a prefix that asks for something is refused and named", async () => {
    const messages = [USER, { role: "assistant", content: "He", prefix: true }];
    expect(await refusal(CHAT, { messages })).toContain("Cannot use messages[1].prefix");
  });
});

test("stop of empty texts is no stop", async () => {
  const { engine, send } = setUp();
  for (const path of [CHAT, COMPLETIONS]) {
    for (const stop of ["", [""], []]) expect((await send(path, { stop })).status).toBe(200);
  }
  for (const stop of ["", ["", "x"]]) {
    expect((await send(GENERATE, { sampling_params: { stop } })).status).toBe(200);
  }
  expect(engine.requests.at(-1)!.sampling!.stop).toEqual(["", "x"]);
});

describe("the name of the model", () => {
  const served = async (fields: object, servedModelName?: string) => {
    const engine = new ScriptedEngine({ model: { path: "/models/tiny" } });
    const app = createApp(engine, servedModelName === undefined ? {} : { servedModelName });
    const names: string[] = [];
    for (const path of [CHAT, COMPLETIONS]) {
      const body = { ...BODIES[path], ...fields };
      names.push((await answer<{ model: string }>(await post(app, path, body))).model);
      const text = await (await post(app, path, { ...body, stream: true })).text();
      names.push(/"model":"(.*?)"/.exec(text)![1]!);
    }
    return [...new Set(names)];
  };

  test("in answers is the served one unless the request names another", async () => {
    expect(await served({})).toEqual(["tiny"]);
    expect(await served({ model: null })).toEqual(["tiny"]);
    expect(await served({ model: "" })).toEqual(["tiny"]);
    expect(await served({}, "org/name")).toEqual(["org/name"]);
    expect(await served({ model: "mine" }, "org/name")).toEqual(["mine"]);
  });

  test("at /v1/models is its id, the path its root", async () => {
    const app = createApp(new ScriptedEngine({ model: { path: "/models/tiny" } }));
    const { data } = await answer<{ data: object[] }>(await app.request("/v1/models"));
    expect(data).toMatchObject([{ id: "tiny", root: "/models/tiny" }]);
    expect((await app.request("/v1/models/tiny")).status).toBe(200);
  });
});
