/**
 * Every field and endpoint of the specification with the installed server and the embedded model: the
 * field's effect on an answer, or that it is refused by name.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ENDPOINT_PATHS } from "../../src/server/endpoint_paths.ts";
import { UNSUPPORTED_ENDPOINTS } from "../../src/server/unsupported_endpoints.ts";
import { type ServingWisp, scratch, serveWisp, stopAll } from "./support/wisp.ts";

interface Meta {
  readonly id: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly finish_reason: Readonly<Record<string, unknown>>;
  readonly input_token_logprobs?: readonly (readonly [number | null, number, string | null])[];
  readonly output_token_logprobs?: readonly (readonly [number, number, string | null])[];
  readonly output_top_logprobs?: readonly (readonly unknown[])[];
}

interface Answer {
  readonly text: string;
  readonly output_ids: readonly number[];
  readonly meta_info: Meta;
}

interface Chat {
  readonly id: string;
  readonly object: string;
  readonly created: number;
  readonly model: string;
  readonly choices: readonly {
    readonly index: number;
    readonly message: {
      readonly role: string;
      readonly content: string | null;
      readonly reasoning_content: string | null;
      readonly tool_calls:
        | readonly {
            readonly id: string;
            readonly index: number | null;
            readonly type: string;
            readonly function: { readonly name: string; readonly arguments: string };
          }[]
        | null;
    };
    readonly logprobs: object | null;
    readonly finish_reason: string;
    readonly matched_stop: unknown;
  }[];
  readonly usage: Readonly<Record<string, number | null>>;
}

let server: ServingWisp;

beforeAll(async () => {
  server = await serveWisp([
    ...["--grammar-backend", "auto", "--tool-call-parser", "deepseekv3", "--enable-metrics"],
    ...["--reasoning-parser", "deepseek-v3", "--profile-dir", scratch("profiles")],
  ]);
});

afterAll(stopAll);

const GREEDY = { temperature: 0, max_new_tokens: 6 } as const;
const PROMPT = "The capital of Japan is";

async function ask<T>(path: string, body: object): Promise<T> {
  const response = await server.post(path, body);
  expect(response.status, await response.clone().text()).toBe(200);
  return (await response.json()) as T;
}

const generate = (body: object) => ask<Answer>("/generate", { sampling_params: GREEDY, ...body });
const batch = (body: object) => ask<Answer[]>("/generate", { sampling_params: GREEDY, ...body });
const sample = (params: object, text = PROMPT) =>
  generate({ text, sampling_params: { ...GREEDY, ...params } });

/** The refusal of a body, which names what it refuses. */
async function refused(path: string, body: object, name: string): Promise<void> {
  const response = await server.post(path, body);
  expect([response.status, await response.text()]).toEqual([400, expect.stringContaining(name)]);
}

async function events(path: string, body: object): Promise<readonly Record<string, unknown>[]> {
  const response = await server.post(path, { ...body, stream: true });
  const lines = (await response.text()).split("\n\n").filter((line) => line !== "");
  expect(lines.pop()).toBe("data: [DONE]");
  return lines.map((line) => JSON.parse(line.replace(/^data: /, "")));
}

/** Section 2.1. */
const GENERATE_FIELDS: Readonly<Record<string, () => Promise<unknown>>> = {
  text: async () => {
    const [one, two] = await batch({ text: [PROMPT, "Hello"] });
    expect(one!.text).toBe((await generate({ text: PROMPT })).text);
    expect(two!.text).not.toBe(one!.text);
  },
  input_ids: async () => {
    const { tokens } = await ask<{ tokens: number[] }>("/tokenize", { prompt: PROMPT });
    const answer = await generate({ input_ids: tokens });
    expect(answer.meta_info.prompt_tokens).toBe(tokens.length);
    expect(answer.text).toBe((await generate({ text: PROMPT })).text);
  },
  input_embeds: async () => {
    const width = 256;
    const row = Array.from({ length: width }, (_, i) => Math.sin(i) / 8);
    const response = await server.post("/generate", {
      input_embeds: [row, row],
      sampling_params: GREEDY,
    });
    // The embedded model's hidden size stands in the sentence where it is another.
    if (response.status === 200) {
      expect(((await response.json()) as Answer).meta_info.prompt_tokens).toBe(2);
      return;
    }
    const hidden = Number(/(\d+) numbers/.exec(await response.text())![1]);
    const { meta_info } = await generate({ input_embeds: [row.slice(0, hidden)] });
    expect(meta_info.prompt_tokens).toBe(1);
  },
  image_data: () => refused("/generate", { text: "a", image_data: "a.png" }, "image_data"),
  sampling_params: async () => {
    const list = [{ max_new_tokens: 1 }, { max_new_tokens: 2 }];
    const answers = await batch({ text: ["a", "b"], sampling_params: list });
    expect(answers.map(({ output_ids }) => output_ids.length)).toEqual([1, 2]);
  },
  rid: async () => {
    expect((await generate({ text: "a", rid: "mine" })).meta_info.id).toBe("mine");
    const two = await batch({ text: ["a", "b"], rid: ["x", "y"] });
    expect(two.map(({ meta_info }) => meta_info.id)).toEqual(["x", "y"]);
  },
  return_logprob: async () => {
    const { meta_info } = await generate({ text: PROMPT, return_logprob: true });
    expect(meta_info.output_token_logprobs).toHaveLength(meta_info.completion_tokens);
    for (const [value] of meta_info.output_token_logprobs!) expect(value).toBeLessThanOrEqual(0);
  },
  logprob_start_len: async () => {
    const body = { text: PROMPT, return_logprob: true };
    const { meta_info } = await generate({ ...body, logprob_start_len: 1 });
    expect(meta_info.input_token_logprobs).toHaveLength(meta_info.prompt_tokens - 1);
    expect((await generate(body)).meta_info.input_token_logprobs).toHaveLength(1);
  },
  top_logprobs_num: async () => {
    const { meta_info } = await generate({ text: "a", return_logprob: true, top_logprobs_num: 3 });
    expect(meta_info.output_top_logprobs![0]).toHaveLength(3);
    expect(meta_info.output_top_logprobs![0]![0]).toEqual(meta_info.output_token_logprobs![0]);
  },
  return_text_in_logprobs: async () => {
    const body = { text: PROMPT, return_logprob: true, return_text_in_logprobs: true };
    const { text, meta_info } = await generate(body);
    const pieces = meta_info.output_token_logprobs!.map(([, , piece]) => piece);
    expect(pieces.every((piece) => typeof piece === "string")).toBe(true);
    expect(pieces.join("")).toContain(text.trim().slice(0, 3));
  },
  stream: async () => {
    const chunks = await events("/generate", { text: PROMPT, sampling_params: GREEDY });
    expect(chunks.at(-1)!.text).toBe((await generate({ text: PROMPT })).text);
    expect(chunks.length).toBeGreaterThan(2);
  },
};

/** The answer to a chat's prompt, which comes to its end. */
async function finished(params: object): Promise<Answer> {
  const messages = [{ role: "user", content: "What is the capital of Japan?" }];
  const { tokens } = await ask<{ tokens: number[] }>("/tokenize", { messages });
  return generate({ input_ids: tokens, sampling_params: { ...GREEDY, ...params } });
}

const count = (params: object) => sample(params).then(({ output_ids }) => output_ids.length);
const greedy = () => sample({ ignore_eos: true, max_new_tokens: 24 });
const others = (ids: readonly number[]) => new Set(ids).size;

/** Section 2.2. */
const SAMPLING_FIELDS: Readonly<Record<string, () => Promise<unknown>>> = {
  max_new_tokens: async () => {
    expect(await count({ max_new_tokens: 3, ignore_eos: true })).toBe(3);
  },
  stop: async () => {
    const { text } = await sample({ ignore_eos: true, max_new_tokens: 24 });
    const stop = text.slice(6, 9);
    const cut = await sample({ ignore_eos: true, max_new_tokens: 24, stop: [stop] });
    expect(text.startsWith(cut.text)).toBe(true);
    expect(cut.meta_info.finish_reason).toEqual({ type: "stop", matched: stop });
  },
  stop_token_ids: async () => {
    const { output_ids } = await sample({ max_new_tokens: 6 });
    const matched = output_ids[1]!;
    const { meta_info } = await sample({ stop_token_ids: [matched] });
    expect(meta_info.finish_reason).toEqual({ type: "stop", matched });
  },
  temperature: async () => {
    const hot = { temperature: 5, max_new_tokens: 24, ignore_eos: true };
    const answers = [await sample(hot), await sample(hot)];
    expect(answers[0]!.output_ids).not.toEqual(answers[1]!.output_ids);
    expect((await greedy()).output_ids).toEqual((await greedy()).output_ids);
  },
  top_p: () => isGreedy({ top_p: 1e-6 }),
  top_k: () => isGreedy({ top_k: 1 }),
  min_p: () => isGreedy({ min_p: 1 }),
  ignore_eos: async () => {
    const free = await finished({ max_new_tokens: 100 });
    const { completion_tokens } = (await finished({ max_new_tokens: 100, ignore_eos: true }))
      .meta_info;
    expect(free.meta_info.finish_reason.type).toBe("stop");
    expect(completion_tokens).toBe(100);
  },
  skip_special_tokens: async () => {
    const whole = { max_new_tokens: 100, no_stop_trim: true };
    const shown = await finished({ ...whole, skip_special_tokens: false });
    const hidden = await finished(whole);
    expect(shown.output_ids).toEqual(hidden.output_ids);
    expect(shown.text.length).toBeGreaterThan(hidden.text.length);
  },
  spaces_between_special_tokens: async () => {
    // Only tokenizers without a tokenizer.json know it; it is taken all the same.
    const apart = await sample({ spaces_between_special_tokens: false });
    expect(apart.text).toBe((await sample({})).text);
  },
  n: async () => {
    const answers = await batch({ text: PROMPT, sampling_params: { ...GREEDY, n: 3 } });
    expect(answers).toHaveLength(3);
  },
  json_schema: async () => {
    const json_schema = JSON.stringify({ enum: ["yes", "no"] });
    expect((await sample({ json_schema })).text).toMatch(/^"(yes|no)"$/);
  },
  regex: async () => {
    expect((await sample({ regex: "[0-9]{3}" })).text).toMatch(/^[0-9]{3}$/);
  },
  ebnf: async () => {
    expect((await sample({ ebnf: 'root ::= "up" | "down"' })).text).toMatch(/^(up|down)$/);
  },
  frequency_penalty: async () => {
    const { output_ids } = await sample({
      max_new_tokens: 24,
      ignore_eos: true,
      frequency_penalty: 2,
    });
    expect(others(output_ids)).toBeGreaterThan(others((await greedy()).output_ids));
  },
  presence_penalty: async () => {
    const likelihoods = async (params: object) => {
      const sampling_params = { ...GREEDY, ignore_eos: true, ...params };
      const body = { text: PROMPT, return_logprob: true, sampling_params };
      return (await generate(body)).meta_info.output_token_logprobs!;
    };
    const [plain, penalized] = [await likelihoods({}), await likelihoods({ presence_penalty: -2 })];
    // The first token has nothing before it that could be penalized.
    expect(penalized[0]).toEqual(plain[0]);
    expect(penalized).not.toEqual(plain);
  },
  repetition_penalty: async () => {
    const { output_ids } = await sample({
      max_new_tokens: 24,
      ignore_eos: true,
      repetition_penalty: 2,
    });
    expect(output_ids).not.toEqual((await greedy()).output_ids);
  },
  min_new_tokens: async () => {
    const { meta_info } = await finished({ max_new_tokens: 100, min_new_tokens: 90 });
    expect(meta_info.completion_tokens).toBeGreaterThanOrEqual(90);
  },
};

/** A filter that leaves the likeliest token only. */
async function isGreedy(filter: object): Promise<void> {
  const params = { max_new_tokens: 24, ignore_eos: true, temperature: 1, ...filter };
  expect((await sample(params)).output_ids).toEqual((await greedy()).output_ids);
}

const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Get the current weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

const chat = (body: object, content = "What is the capital of Japan?") =>
  ask<Chat>("/v1/chat/completions", {
    messages: [{ role: "user", content }],
    temperature: 0,
    ...body,
  });

/** Sections 2.3 and 2.4. */
const CHAT_FIELDS: Readonly<Record<string, () => Promise<unknown>>> = {
  model: async () => {
    const { data } = (await (await server.get("/v1/models")).json()) as { data: [{ id: string }] };
    expect(data[0].id).toBe("tiny-deepseek-v3");
    const { model } = await chat({ model: "tiny-deepseek-v3", max_tokens: 1 });
    expect(model).toBe("tiny-deepseek-v3");
  },
  messages: async () => {
    const { choices } = await chat({ max_tokens: 30 });
    expect(choices[0]!.message).toMatchObject({ role: "assistant" });
    expect(choices[0]!.message.content).toContain("Tokyo");
  },
  max_tokens: async () => {
    const { choices, usage } = await chat({ max_tokens: 2 });
    expect([choices[0]!.finish_reason, usage.completion_tokens]).toEqual(["length", 2]);
  },
  temperature: async () => {
    const first = await chat({ max_tokens: 12 });
    expect((await chat({ max_tokens: 12 })).choices).toEqual(first.choices);
    const hot = await chat({ max_tokens: 12, temperature: 2, top_p: 1, top_k: -1, min_p: 0 });
    expect(hot.choices).not.toEqual(first.choices);
  },
  stream: async () => {
    const messages = [{ role: "user", content: "What is the capital of Japan?" }];
    const body = { messages, temperature: 0, max_tokens: 30 };
    const chunks = (await events("/v1/chat/completions", body)) as unknown as {
      object: string;
      choices: [{ delta: { content: string | null }; finish_reason: string | null }];
    }[];
    const text = chunks.map(({ choices }) => choices[0].delta.content ?? "").join("");
    expect(text).toBe((await chat({ max_tokens: 30 })).choices[0]!.message.content);
    expect(chunks.at(-1)!.choices[0].finish_reason).not.toBeNull();
  },
  tools: async () => {
    const question = "What is the weather in Paris?";
    const { choices } = await chat({ tools: [WEATHER], max_tokens: 80 }, question);
    const [{ message, finish_reason }] = choices as [Chat["choices"][number]];
    expect([message.content, finish_reason]).toEqual([null, "tool_calls"]);
    const [call] = message.tool_calls!;
    expect([call!.type, call!.function.name]).toEqual(["function", "get_weather"]);
    expect(JSON.parse(call!.function.arguments)).toHaveProperty("city");
  },
  rid: async () => {
    expect((await chat({ rid: "chat-1", max_tokens: 1 })).id).toBe("chat-1");
  },
  response: async () => {
    const answer = await chat({ max_tokens: 4 });
    expect(answer).toEqual({
      id: expect.any(String),
      object: "chat.completion",
      created: expect.any(Number),
      model: expect.any(String),
      choices: [
        expect.objectContaining({
          index: 0,
          logprobs: null,
          finish_reason: "length",
          matched_stop: null,
        }),
      ],
      usage: expect.objectContaining({ completion_tokens: 4, prompt_tokens_details: null }),
      ...("metadata" in answer && { metadata: expect.anything() }),
    });
    const { message } = answer.choices[0]!;
    expect(message).toMatchObject({ role: "assistant", tool_calls: null });
    expect(answer.usage.total_tokens).toBe(answer.usage.prompt_tokens! + 4);
  },
};

/** Section 4, and what servers of this kind have beside it. */
const ENDPOINTS: Readonly<Record<string, () => Promise<unknown>>> = {
  "/generate": () => generate({ text: "a" }),
  "/v1/chat/completions": () => chat({ max_tokens: 1 }),
  "/v1/completions": async () => {
    const { choices } = await ask<Chat>("/v1/completions", {
      prompt: [PROMPT, "b"],
      max_tokens: 2,
    });
    expect(choices).toHaveLength(2);
  },
  "/v1/models": () => isOk("/v1/models"),
  "/v1/models/:id{.+}": async () => {
    expect((await server.get("/v1/models/none")).status).toBe(404);
  },
  "/tokenize": () => ask("/tokenize", { prompt: "a" }),
  "/v1/tokenize": () => ask("/v1/tokenize", { prompt: "a" }),
  "/detokenize": () => ask("/detokenize", { tokens: [5] }),
  "/v1/detokenize": () => ask("/v1/detokenize", { tokens: [5] }),
  "/parse_function_call": () => ask("/parse_function_call", { text: "a", tools: [WEATHER] }),
  "/separate_reasoning": () => ask("/separate_reasoning", { text: "<think>a</think>b" }),
  "/health": () => isOk("/health"),
  "/health_generate": () => isOk("/health_generate"),
  "/get_model_info": () => isOk("/get_model_info"),
  "/model_info": () => isOk("/model_info"),
  "/get_server_info": () => isOk("/get_server_info"),
  "/server_info": () => isOk("/server_info"),
  "/get_load": () => isOk("/get_load"),
  "/flush_cache": async () => expect((await server.post("/flush_cache", {})).status).toBe(200),
  "/abort_request": async () => {
    const endless = { max_new_tokens: null, ignore_eos: true };
    const body = { text: "a", rid: "endless", stream: true, sampling_params: endless };
    const stream = await server.post("/generate", body);
    const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader.read()).value!;
    expect((await server.post("/abort_request", { rid: "endless" })).status).toBe(200);
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    expect(text).toContain('"type":"abort"');
  },
  "/start_profile": async () => {
    expect((await server.post("/start_profile", {})).status).toBe(200);
  },
  "/stop_profile": async () => {
    expect((await server.post("/stop_profile", {})).status).toBe(200);
  },
};

async function isOk(path: string): Promise<void> {
  expect((await server.get(path)).status).toBe(200);
}

describe("fields of /generate", () => {
  test.each(Object.keys(GENERATE_FIELDS))("%s", async (name) => {
    await GENERATE_FIELDS[name]!();
  });
});

describe("sampling_params", () => {
  test.each(Object.keys(SAMPLING_FIELDS))("%s", async (name) => {
    await SAMPLING_FIELDS[name]!();
  });
});

describe("fields of chats", () => {
  test.each(Object.keys(CHAT_FIELDS))("%s", async (name) => {
    await CHAT_FIELDS[name]!();
  });
});

describe("endpoints", () => {
  test.each(Object.keys(ENDPOINTS))("%s", async (path) => {
    await ENDPOINTS[path]!();
  });

  test("every endpoint that answers has its test here", () => {
    const answering = ENDPOINT_PATHS.filter((path) => !UNSUPPORTED_ENDPOINTS.has(path));
    expect(Object.keys(ENDPOINTS).sort()).toEqual([...answering].sort());
  });

  test.each([...UNSUPPORTED_ENDPOINTS.keys()])("%s answers 400 and why", async (path) => {
    const reason = UNSUPPORTED_ENDPOINTS.get(path)!;
    await refused(path.replace(":id", "x"), {}, reason.slice(0, 20));
  });

  test("others answer 404", async () => {
    expect((await server.post("/generate_from_file", {})).status).toBe(404);
  });
});
