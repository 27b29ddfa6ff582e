/** Endpoints about the server itself, tokens and text, and those that it does not have. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { CapacityError, DeviceError } from "../../../src/errors.ts";
import type { EngineStatus } from "../../../src/generation.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { UNSUPPORTED_ENDPOINTS } from "../../../src/server/routes/unsupported_endpoints.ts";
import {
  ScriptedEngine,
  type ScriptedEngineOptions,
} from "../../support/engines/scripted_engine.ts";
import { bothForms } from "../../support/server/error_bodies.ts";
import { answer, errorMessage, post } from "../../support/server/http_client.ts";
import { until } from "../../support/until.ts";

function setUp(options: ScriptedEngineOptions & AppOptions = {}) {
  const engine = new ScriptedEngine(options);
  return { engine, app: createApp(engine, options) };
}

class LoadedEngine extends ScriptedEngine {
  override status(): EngineStatus {
    return {
      ...super.status(),
      runningRequests: 2,
      queuedRequests: 3,
      queuedTokens: 40,
      usedTokens: 100,
      totalTokens: 1000,
      cachedTokens: 7,
      retractions: 1,
      recoveries: 2,
      recovering: true,
    };
  }
}

describe.each(["/get_model_info", "/model_info"])("GET %s", (path) => {
  test("tells what is served", async () => {
    expect(await answer(await setUp().app.request(path))).toEqual({
      model_path: "models/scripted",
      tokenizer_path: "models/scripted",
      is_generation: true,
      preferred_sampling_params: null,
      weight_version: "default",
      has_image_understanding: false,
      has_audio_understanding: false,
      model_type: "scripted",
      architectures: ["ScriptedForCausalLM"],
      chat_family: "unknown",
      tool_call_parser: null,
      reasoning_parser: null,
      thinking_variables: [],
      default_sampling_params: { temperature: 1, top_p: 1, top_k: -1, max_tokens: null },
    });
  });

  test("answers while the server starts", async () => {
    expect((await setUp({ lifecycle: () => "starting" }).app.request(path)).status).toBe(200);
  });
});

describe.each(["/get_server_info", "/server_info"])("GET %s", (path) => {
  test("tells how the server was started and what it does", async () => {
    const description = { port: 30000, version: "1.2.3" };
    const app = createApp(new LoadedEngine(), { description, lifecycle: () => "starting" });
    expect(await answer(await app.request(path))).toEqual({
      port: 30000,
      version: "1.2.3",
      status: "starting",
      max_total_num_tokens: 1000,
      max_req_input_len: 4095,
      internal_states: [
        {
          healthy: true,
          recovering: true,
          num_running_reqs: 2,
          num_waiting_reqs: 3,
          num_used_tokens: 100,
          num_cached_tokens: 7,
          num_retractions: 1,
          num_recoveries: 2,
          last_gen_throughput: 0,
          memory_usage: {
            weight: 1,
            kvcache: 0.5,
            weight_bytes: 2 ** 30,
            kvcache_bytes: 2 ** 29,
            token_capacity: 1000,
            graph: 0,
          },
          load: 140,
          batch_invariant: true,
          numeric_classes: { prefill: "fma128", decode: "fma128" },
        },
      ],
    });
  });

  test("never tells the keys", async () => {
    const options = { apiKey: "the-key", adminApiKey: "the-admin-key", description: { port: 1 } };
    const headers = { authorization: "Bearer the-key" };
    const text = await (await setUp(options).app.request(path, { headers })).text();
    expect(text).toContain('"port":1');
    expect(text).not.toContain("key");
  });
});

test("GET /get_load tells what is held and what waits", async () => {
  const response = await createApp(new LoadedEngine()).request("/get_load");
  expect(await answer(response)).toEqual({
    load: 140,
    num_reqs: 5,
    num_waiting_reqs: 3,
    num_tokens: 100,
  });
});

describe("GET /health_generate", () => {
  const path = "/health_generate";
  const never = () => new Promise<void>(() => {});

  afterEach(() => {
    vi.useRealTimers();
  });

  test("is 200 once a token of its own has come, and nothing is left running", async () => {
    const { engine, app } = setUp();
    const response = await app.request(path);
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("");
    expect(engine.requests).toEqual([
      {
        tokens: [0],
        sampling: { maxNewTokens: 1, temperature: 0, ignoreEos: true },
        requestId: expect.stringMatching(/^HEALTH_CHECK_\d+$/),
      },
    ]);
    expect(engine.running).toEqual([]);
  });

  test("is 503 when none comes in time", async () => {
    const script = () => ({ gate: never });
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { engine, app } = setUp({ script, stalledFor: 100, healthCheckTimeout: 60 });
    const response = app.request(path);
    await vi.advanceTimersByTimeAsync(59_999);
    expect(engine.running).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect((await response).status).toBe(503);
    expect(engine.running).toEqual([]);
  });

  test("is 503 when the model fails", async () => {
    const failure = { at: 0, error: new DeviceError("gone") };
    const reportError = vi.fn();
    const { app } = setUp({ script: () => ({ failure }), reportError });
    const response = await app.request(path);
    expect(response.status).toBe(503);
    expect(await response.text()).toBe("");
    expect(reportError).toHaveBeenCalledOnce();
  });

  test.each([{ healthy: false }, { lifecycle: () => "starting" as const }])(
    "asks for no token of a server that is not ready (%#)",
    async (options) => {
      const { engine, app } = setUp(options);
      expect((await app.request(path)).status).toBe(503);
      expect(engine.requests).toEqual([]);
    },
  );

  test.each([
    [true, 200],
    [false, 503],
  ])("of a full engine whose steps finish: %s is %i", async (finishes, status) => {
    class Busy extends ScriptedEngine {
      override status(): EngineStatus {
        const stalledFor = finishes ? 0.001 : 1000;
        return { ...super.status(), runningRequests: 8, stalledFor };
      }
    }
    const failure = {
      at: 0,
      error: new CapacityError("places in the request queue", 8, "all 8 are taken"),
    };
    const engine = new Busy({ script: () => ({ failure }) });
    const options = { healthCheckTimeout: 0.3, watchdogTimeout: 2000 };
    expect((await createApp(engine, options).request(path)).status).toBe(status);
  });

  test("that a client aborts proves nothing", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { engine, app } = setUp({ script: () => ({ gate: never }), healthCheckTimeout: 60 });
    const response = app.request(path);
    await vi.advanceTimersByTimeAsync(0);
    expect(engine.running).toHaveLength(1);
    engine.abort();
    await vi.advanceTimersByTimeAsync(60_000);
    expect((await response).status).toBe(503);
  });
});

describe.each(["/tokenize", "/v1/tokenize"])("POST %s", (path) => {
  test("a text becomes tokens", async () => {
    const { engine, app } = setUp();
    expect(await answer(await post(app, path, { model: "m", prompt: "ab" }))).toEqual({
      tokens: [97, 98],
      count: 2,
      max_model_len: 4096,
    });
    await post(app, path, { prompt: "", add_special_tokens: false });
    expect(engine.tokenized).toEqual([{ prompt: "ab" }, { prompt: "", addSpecialTokens: false }]);
  });

  test("a list becomes lists", async () => {
    expect(await answer(await post(setUp().app, path, { prompt: ["ab", "c"] }))).toEqual({
      tokens: [[97, 98], [99]],
      count: [2, 1],
      max_model_len: 4096,
    });
  });

  test("a conversation is rendered first", async () => {
    const { engine, app } = setUp();
    const messages = [
      { role: "user", content: "hi" },
      { role: "assistant", content: "yes" },
    ];
    const tools = [{ type: "function", function: { name: "f" } }];
    const body = { messages, tools, chat_template_kwargs: { a: 1 }, continue_final_message: true };
    expect(await answer(await post(app, path, body))).toMatchObject({ count: 3 });
    expect(engine.tokenized).toEqual([
      { messages, tools, templateVariables: { a: 1 }, continueFinalMessage: true },
    ]);
  });

  test.each([
    [{}, "Cannot tokenize prompt or messages: the request has neither"],
    [{ prompt: "a", messages: [] }, "Cannot tokenize prompt or messages: the request has both"],
    [{ prompt: 5 }, "prompt must be a string, got 5"],
    [{ prompt: ["a", 5] }, "prompt[1] must be a string, got 5"],
    [{ prompt: "a", add_special_tokens: 1 }, "add_special_tokens must be true or false, got 1"],
    [{ prompt: "a", tools: [] }, "Cannot use tools: it is not a known field"],
    [{ messages: [{ role: "user", content: "a" }], add_special_tokens: true }, "add_special_tok"],
  ])("%j is refused", async (body, message) => {
    const response = await post(setUp().app, path, body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
  });
});

describe.each(["/detokenize", "/v1/detokenize"])("POST %s", (path) => {
  test.each([
    [{ tokens: [97, 1, 98] }, "ab"],
    [{ tokens: [97, 1, 98], skip_special_tokens: false }, "a\u0001b"],
    [{ tokens: [] }, ""],
    [{ tokens: [[97], [], [98, 99]], model: "m" }, ["a", "", "bc"]],
  ])("%j", async (body, text) => {
    expect(await answer(await post(setUp().app, path, body))).toEqual({ text });
  });

  test.each([
    [{}, "tokens must be a list, got nothing"],
    [{ tokens: "ab" }, 'tokens must be a list, got "ab"'],
    [{ tokens: [70000] }, "tokens[0] must be at least 0 and at most 65535, got 70000"],
    [{ tokens: [[1], 2] }, "tokens[1] must be a list, got 2"],
    [{ tokens: [1], text: "a" }, "Cannot use text: it is not a known field"],
  ])("%j is refused", async (body, message) => {
    const response = await post(setUp().app, path, body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(message);
  });
});

/** Reads a text when it is told to. */
class SlowEngine extends ScriptedEngine {
  readonly reading: { readonly signal: AbortSignal; finish(): void }[] = [];

  override tokenize({ signal }: { readonly signal?: AbortSignal }): Promise<readonly number[]> {
    return new Promise((resolve, reject) => {
      this.reading.push({ signal: signal!, finish: () => resolve([1]) });
      signal!.addEventListener("abort", () => reject(signal!.reason));
    });
  }
}

describe("the texts of a list", () => {
  const prompt = Array.from({ length: 50 }, () => "a");

  test("are read some at a time", async () => {
    const engine = new SlowEngine();
    const response = post(createApp(engine), "/tokenize", { prompt });
    for (const count of [32, 50]) {
      await until(() => expect(engine.reading).toHaveLength(count));
      for (const { finish } of engine.reading) finish();
    }
    expect(await answer(await response)).toMatchObject({ count: prompt.map(() => 1) });
  });

  test("are given up when their client leaves", async () => {
    const engine = new SlowEngine();
    const client = new AbortController();
    const response = createApp(engine).request("/tokenize", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt }),
      signal: client.signal,
    });
    await until(() => expect(engine.reading).toHaveLength(32));
    client.abort();
    expect((await response).status).toBe(499);
    expect(engine.reading).toHaveLength(32);
    expect(engine.reading.every(({ signal }) => signal.aborted)).toBe(true);
  });
});

describe.each(["/tokenize", "/detokenize"])("POST %s", (path) => {
  test.each([
    [4096, 256 * 1024],
    [2 ** 20, 8 * 2 ** 20],
  ])("in a context of %i tokens takes bodies of up to %i bytes", async (contextLength, limit) => {
    const { app } = setUp({ model: { contextLength } });
    const status = async (spaces: number) =>
      (await post(app, path, `{}${" ".repeat(spaces)}`)).status;
    expect(await status(limit - 2)).toBe(400);
    expect(await status(limit - 1)).toBe(413);
  });

  test("never takes more than other endpoints", async () => {
    const { app } = setUp({ maxBodyBytes: 100 });
    expect((await post(app, path, " ".repeat(101))).status).toBe(413);
  });
});

test.each([...UNSUPPORTED_ENDPOINTS])("%s is refused and named: %s", async (path, reason) => {
  const asked = path.replace(":id", "x");
  for (const method of ["GET", "POST", "PUT"]) {
    const response = await setUp().app.request(asked, { method });
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual(
      bothForms({
        message: `Cannot use ${asked}: ${reason}`,
        type: "BadRequestError",
        status: 400,
      }),
    );
  }
});

test.each([
  ["/get_model_info", "POST"],
  ["/server_info", "POST"],
  ["/get_load", "POST"],
  ["/health_generate", "POST"],
  ["/abort_request", "GET"],
  ["/tokenize", "GET"],
  ["/v1/detokenize", "PUT"],
])("%s takes no %s", async (path, method) => {
  expect((await setUp().app.request(path, { method })).status).toBe(405);
});

test("HEAD is answered as GET is, without the body", async () => {
  const response = await setUp().app.request("/health", { method: "HEAD" });
  expect(response.status).toBe(200);
});
