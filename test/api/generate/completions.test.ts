/** `POST /v1/completions`: raw prompts in the form of OpenAI's older endpoint. */
import { describe, expect, test, vi } from "vitest";
import type { GenerationRequest } from "../../../src/generation.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScoredEngine } from "../../support/engines/scored_engine.ts";
import {
  ScriptedEngine,
  type ScriptedEngineOptions,
} from "../../support/engines/scripted_engine.ts";
import {
  answer,
  errorMessage,
  eventLines,
  events,
  post,
} from "../../support/server/http_client.ts";

const PATH = "/v1/completions";

interface Choice {
  readonly index: number;
  readonly text: string;
  readonly logprobs: Readonly<Record<string, readonly unknown[]>> | null;
  readonly finish_reason: string | null;
  readonly matched_stop: number | string | null;
}

interface Completion {
  readonly id: string;
  readonly object: string;
  readonly choices: readonly Choice[];
  readonly usage: Readonly<Record<string, unknown>> | null;
}

function setUp(options: ScriptedEngineOptions & AppOptions = {}) {
  const engine = new ScriptedEngine(options);
  return { engine, app: createApp(engine, options) };
}

async function complete(body: object, app = setUp().app): Promise<Completion> {
  const response = await post(app, PATH, body);
  expect(response.status).toBe(200);
  return answer<Completion>(response);
}

const texts = ({ choices }: Completion) => choices.map(({ text }) => text);

async function asked(body: object): Promise<readonly GenerationRequest[]> {
  const { engine, app } = setUp();
  await complete(body, app);
  return engine.requests;
}

async function refusal(body: object): Promise<string> {
  const { engine, app } = setUp();
  const response = await post(app, PATH, body);
  expect(response.status).toBe(400);
  expect(engine.requests).toEqual([]);
  const error = await answer<{ message: string }>(response);
  expect(error).toMatchObject({ object: "error", param: expect.any(String), code: 400 });
  return error.message;
}

test("answers with the documented object", async () => {
  expect(await complete({ model: "m", prompt: "abc", rid: "r" })).toEqual({
    id: "r",
    object: "text_completion",
    created: expect.any(Number),
    model: "m",
    choices: [{ index: 0, text: "abc", logprobs: null, finish_reason: "stop", matched_stop: 1 }],
    usage: {
      prompt_tokens: 3,
      total_tokens: 7,
      completion_tokens: 4,
      prompt_tokens_details: null,
      reasoning_tokens: 0,
    },
    metadata: { weight_version: "default" },
  });
});

describe("prompt", () => {
  test.each([
    ["ab", [{ prompt: "ab" }]],
    [["ab"], [{ prompt: "ab" }]],
    [
      ["ab", "c"],
      [{ prompt: "ab" }, { prompt: "c" }],
    ],
    [[97, 98], [{ tokens: [97, 98] }]],
    [
      [[97], [98, 99]],
      [{ tokens: [97] }, { tokens: [98, 99] }],
    ],
  ])("%j", async (prompt, requests) => {
    const found = await asked({ prompt });
    expect(found.map(({ sampling: _, ...request }) => request)).toEqual(requests);
  });

  test.each([
    [undefined, "Cannot complete: prompt is missing"],
    ["", "Prompt cannot be empty"],
    [[], "Prompt cannot be empty"],
    [[""], "prompt[0] cannot be empty"],
    [["a", 5], "prompt[1] must be a string, got 5"],
    [[5, "a"], 'prompt[1] must be an integer, got "a"'],
    [[[5], "a"], 'prompt[1] must be a list, got "a"'],
    [[[]], "prompt[0] cannot be empty"],
    [[70000], "prompt[0] must be at least 0 and at most 65535, got 70000"],
    [{}, "prompt must be a list, got an object"],
    [5, "prompt must be a list, got 5"],
  ])("%j is refused", async (prompt, message) => {
    expect(await refusal({ prompt })).toBe(message);
  });
});

describe("fields", () => {
  test.each([
    [{}, { maxNewTokens: 16 }],
    [
      { max_tokens: 5, temperature: 0.5, seed: 3 },
      { maxNewTokens: 5, temperature: 0.5, seed: 3 },
    ],
    [
      { min_tokens: 2, stop: "x", top_k: 2 },
      { minNewTokens: 2, stop: "x", topK: 2 },
    ],
    [{ regex: "a" }, { regex: "a" }],
    [{ ebnf: "a" }, { ebnf: "a" }],
    [{ json_schema: "{}" }, { jsonSchema: "{}" }],
    [{ response_format: { type: "json_object" } }, { jsonSchema: { type: "object" } }],
  ])("%j reach the engine", async (fields, sampling) => {
    const [request] = await asked({ prompt: "ab", ...fields });
    expect(request!.sampling).toEqual({ maxNewTokens: 16, ...sampling });
  });

  test.each([
    { n: 2, best_of: 2 },
    { best_of: 1, suffix: "", echo: false, logprobs: null },
    { store: false, service_tier: "auto", metadata: { a: "b" }, user: "ada" },
    { user: null, metadata: null, stop: null, temperature: null, stream_options: null },
    { user: "ada", lora_path: null, stream: false },
  ])("the neutral %j pass", async (fields) => {
    await asked({ prompt: "a", ...fields });
  });

  test.each([
    [{ max_tokens: 0 }, "max_tokens must be at least 1, got 0"],
    [{ best_of: 3, n: 2 }, "Cannot use best_of: it can only be 1 or n, got 3"],
    [{ suffix: "x" }, "Cannot use suffix: it is not supported yet"],
    [{ logprobs: 21 }, "logprobs must be at least 0 and at most 20, got 21"],
    [{ logprobs: true }, "logprobs must be an integer, got true"],
    [{ n: 129 }, "n must be at least 1 and at most 128, got 129"],
    [{ echo: "yes" }, 'echo must be true or false, got "yes"'],
    [{ rid: "" }, "rid cannot be empty"],
    [{ regex: "a", ebnf: "b" }, "Only one of regex, json_schema, or ebnf can be set"],
    [{ min_tokens: 16 }, "min_tokens must be 0 or below the 16 tokens allowed, got 16"],
    [{ stream_options: { x: 1 } }, "Cannot use stream_options.x: it is not a known"],
    [{ messages: [] }, "Cannot use messages: it is not a known field"],
    [{ lora_path: "x" }, "Cannot use lora_path: it is not supported yet"],
  ])("%j is refused", async (fields, message) => {
    expect(await refusal({ prompt: "abc", ...fields })).toContain(message);
  });

  test("the engine's complaints are in the client's words", async () => {
    const { app } = setUp({ script: () => ({}), model: { contextLength: 3 } });
    const response = await post(app, PATH, { prompt: "abc" });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain("The input (3 tokens) is longer");
  });

  test("the Content-Type must be JSON", async () => {
    const headers = { "content-type": "text/plain" };
    expect((await post(setUp().app, PATH, { prompt: "a" }, { headers })).status).toBe(400);
  });
});

describe("several answers", () => {
  test("choices are all samples of the first prompt, then of the second; prompts count once", async () => {
    const { engine, app } = setUp();
    const found = await complete({ prompt: ["ab", "c"], n: 3, rid: "r", seed: 5 }, app);
    expect(texts(found)).toEqual(["ab", "ab", "ab", "c", "c", "c"]);
    expect(found.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(found.usage).toMatchObject({
      prompt_tokens: 3,
      completion_tokens: 15,
      total_tokens: 18,
    });
    expect(found.id).toBe("r");
    expect(new Set(engine.requests.map(({ requestId }) => requestId)).size).toBe(6);
  });

  test("a list is known by its items' ids", async () => {
    const requests = await asked({ prompt: ["a", "b"], rid: "r" });
    expect(requests.map(({ requestId }) => requestId)).toEqual(["r_0", "r_1"]);
    expect((await asked({ prompt: "a", rid: "r" }))[0]!.requestId).toBe("r");
  });

  test("the cache report counts each prompt once", async () => {
    class Cached extends ScriptedEngine {
      override async *generate(request: GenerationRequest) {
        for await (const chunk of super.generate(request)) yield { ...chunk, cachedTokens: 2 };
      }
    }
    const body = { prompt: ["abc", "def"], n: 2 };
    const details = async (options: AppOptions) =>
      (await complete(body, createApp(new Cached(), options))).usage!.prompt_tokens_details;
    expect(await details({ cacheReport: true })).toEqual({ cached_tokens: 4 });
    expect(await details({})).toBeNull();
  });
});

describe("echo", () => {
  test("begins every answer with its prompt", async () => {
    const found = await complete({ prompt: ["ab", "c"], n: 2, echo: true });
    expect(texts(found)).toEqual(["abab", "abab", "cc", "cc"]);
  });

  test.each([
    [true, "aa"],
    [false, "\u0001aa"],
  ])("token ids are shown as text (skip_special_tokens: %s)", async (skip, text) => {
    const pieces = ["a"];
    const { app } = setUp({ script: () => ({ pieces }) });
    const body = { prompt: [1, 97], echo: true, skip_special_tokens: skip };
    expect(texts(await complete(body, app))).toEqual([text]);
  });

  test("comes with the first event of a stream", async () => {
    const body = { prompt: "ab", echo: true, stream: true };
    const chunks = await events<Completion>(await post(setUp().app, PATH, body));
    expect(chunks.map(({ choices }) => choices[0]!.text)).toEqual(["aba", "b", ""]);
  });
});

describe("logprobs", () => {
  const app = createApp(new ScoredEngine());
  const limited = { max_tokens: 2, ignore_eos: true };

  test("are parallel lists of tokens, their logarithms and the likeliest ones", async () => {
    const { choices } = await complete({ prompt: "abc", logprobs: 2, ...limited }, app);
    expect(choices[0]!.logprobs).toEqual({
      text_offset: [-1, -1],
      token_logprobs: [-0.97, -0.98],
      tokens: ["a", "b"],
      top_logprobs: [
        { a: -0.97, b: -0.98 },
        { b: -0.98, c: -0.99 },
      ],
    });
  });

  test("of 0 name the tokens alone", async () => {
    const { choices } = await complete({ prompt: "abc", logprobs: 0, ...limited }, app);
    expect(choices[0]!.logprobs).toMatchObject({ tokens: ["a", "b"], top_logprobs: [{}, {}] });
  });

  test("of an echoed prompt begin with its first token, which has none", async () => {
    const body = { prompt: "ab", logprobs: 1, echo: true, ...limited };
    const { choices } = await complete(body, app);
    expect(choices[0]!.logprobs).toEqual({
      text_offset: [-1, -1, -1, -1],
      token_logprobs: [null, -0.98, -0.97, -0.98],
      tokens: ["a", "b", "a", "b"],
      top_logprobs: [null, { b: -0.98 }, { a: -0.97 }, { b: -0.98 }],
    });
  });

  test("of a stream come with their text, once", async () => {
    const body = { prompt: "ab", logprobs: 0, echo: true, stream: true, ...limited };
    const chunks = await events<Completion>(await post(app, PATH, body));
    expect(chunks.map(({ choices }) => choices[0]!.logprobs!.tokens)).toEqual([
      ["a", "b", "a"],
      ["b"],
    ]);
  });

  test("of tokens with one text tell of the likeliest", async () => {
    class Twins extends ScriptedEngine {
      override async *generate(request: GenerationRequest) {
        const top = [-1, -2].map((logprob) => ({ token: 5, text: "__proto__", logprob }));
        for await (const chunk of super.generate(request)) {
          const one = { token: 5, text: "__proto__", logprob: -1, top, given: null };
          yield { ...chunk, logprobs: chunk.tokens.map(() => one) };
        }
      }
    }
    const body = { prompt: "a", logprobs: 2, max_tokens: 1 };
    const text = await (await post(createApp(new Twins()), PATH, body)).text();
    expect(text).toContain('"top_logprobs":[{"__proto__":-1}]');
  });
});

describe("stream", () => {
  test("has one event for each piece of text, the last with the finish, then usage", async () => {
    const stream_options = { include_usage: true };
    const body = { prompt: "ab", stream: true, stream_options, rid: "r", model: "m" };
    const chunks = await events<Completion>(await post(setUp().app, PATH, body));
    const choice = { index: 0, logprobs: null, finish_reason: null, matched_stop: null };
    const head = { id: "r", object: "text_completion", created: expect.any(Number), model: "m" };
    expect(chunks).toEqual([
      { ...head, choices: [{ ...choice, text: "a" }], usage: null },
      { ...head, choices: [{ ...choice, text: "b" }], usage: null },
      {
        ...head,
        choices: [{ ...choice, text: "", finish_reason: "stop", matched_stop: 1 }],
        usage: null,
      },
      { ...head, choices: [], usage: expect.objectContaining({ total_tokens: 5 }) },
    ]);
  });

  test("interleaves all choices, each of which ends once", async () => {
    const body = { prompt: ["ab", "c"], n: 2, stream: true };
    const chunks = await events<Completion>(await post(setUp().app, PATH, body));
    for (const [index, text] of ["ab", "ab", "c", "c"].entries()) {
      const own = chunks.map(({ choices }) => choices[0]!).filter((one) => one.index === index);
      expect(own.map((one) => one.text).join("")).toBe(text);
      expect(own.filter(({ finish_reason }) => finish_reason !== null)).toHaveLength(1);
      expect(own.at(-1)!.finish_reason).toBe("stop");
    }
  });

  test("tells of usage as it grows where that is asked for", async () => {
    const stream_options = { include_usage: true, continuous_usage_stats: true };
    const body = { prompt: "ab", stream: true, stream_options };
    const chunks = await events<Completion>(await post(setUp().app, PATH, body));
    expect(chunks.map(({ usage }) => usage!.total_tokens)).toEqual([3, 4, 5, 5]);
    const alone = { ...body, stream_options: { continuous_usage_stats: true } };
    expect(await refusal(alone)).toContain(
      "Cannot use stream_options.continuous_usage_stats: include_usage is not true",
    );
  });

  test("that is refused before its first event has a status", async () => {
    const { app } = setUp();
    const response = await post(app, PATH, { prompt: "x".repeat(5000), stream: true });
    expect(response.status).toBe(400);
  });

  test("that fails later tells of it and ends", async () => {
    const failure = { at: 1, error: new Error("secret") };
    const reportError = vi.fn();
    const { app } = setUp({ script: () => ({ failure }), reportError });
    const lines = await eventLines(await post(app, PATH, { prompt: "ab", stream: true }));
    expect(lines.pop()).toBe("[DONE]");
    expect(JSON.parse(lines.pop()!).error).toMatchObject({ object: "error", code: 500 });
    expect(reportError).toHaveBeenCalledOnce();
  });

  test("whose client leaves stops every generation", async () => {
    const { engine, app } = setUp();
    const body = { prompt: ["abc", "def"], stream: true, rid: "r" };
    const reader = (await post(app, PATH, body)).body!.getReader();
    await reader.read();
    await reader.cancel();
    expect(engine.cutShort.toSorted()).toEqual(["r_0", "r_1"]);
  });
});
