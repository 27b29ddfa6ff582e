/** Section 2.4 of the specification: the answer of `POST /v1/chat/completions`. */
import { describe, expect, test } from "vitest";
import type { GenerationRequest } from "../../../src/generation.ts";
import { createApp } from "../../../src/server/app.ts";
import { type Script, ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, errorMessage, events, post } from "../../support/server/http_client.ts";

async function complete(body: object, script?: Script): Promise<unknown> {
  const engine = new ScriptedEngine(script === undefined ? {} : { script: () => script });
  const messages = [{ role: "user", content: "hello" }];
  return answer(await post(createApp(engine), "/v1/chat/completions", { messages, ...body }));
}

test("the response has every documented field, those without a value as null", async () => {
  const now = Math.floor(Date.now() / 1000);
  const body = (await complete({ model: "m", rid: "r1" })) as { created: number };
  expect(body).toEqual({
    id: "r1",
    object: "chat.completion",
    created: expect.any(Number),
    model: "m",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: "hello",
          reasoning_content: null,
          tool_calls: null,
        },
        logprobs: null,
        finish_reason: "stop",
        matched_stop: 1,
      },
    ],
    usage: {
      prompt_tokens: 5,
      total_tokens: 11,
      completion_tokens: 6,
      prompt_tokens_details: null,
      reasoning_tokens: 0,
    },
    metadata: { weight_version: "default" },
  });
  expect(body.created - now).toBeOneOf([0, 1]);
});

test("id is the engine's when no rid is given", async () => {
  expect(await complete({})).toMatchObject({ id: "scripted-1" });
});

test("content is null when the model says nothing", async () => {
  expect(await complete({}, { pieces: [] })).toMatchObject({
    choices: [{ message: { content: null } }],
  });
});

describe("finish_reason", () => {
  test("is length when max_tokens cuts the output, which then has that many tokens", async () => {
    expect(await complete({ max_tokens: 3 })).toMatchObject({
      choices: [{ finish_reason: "length", matched_stop: null, message: { content: "hel" } }],
      usage: { completion_tokens: 3 },
    });
  });

  test("is stop with the string that matched", async () => {
    const finish = { type: "stop", matched: "END" } as const;
    expect(await complete({}, { pieces: ["a"], finish })).toMatchObject({
      choices: [{ finish_reason: "stop", matched_stop: "END" }],
    });
  });

  test("is abort with the text so far", async () => {
    const finish = { type: "abort", message: "closing" } as const;
    expect(await complete({}, { pieces: ["a"], finish })).toMatchObject({
      choices: [{ finish_reason: "abort", matched_stop: null, message: { content: "a" } }],
    });
  });
});

describe("usage.prompt_tokens_details", () => {
  class Cached extends ScriptedEngine {
    cached = 3;
    override async *generate(request: GenerationRequest) {
      for await (const chunk of super.generate(request)) {
        yield { ...chunk, cachedTokens: this.cached };
      }
    }
  }
  const details = async (engine: Cached, cacheReport: boolean, n = 1) => {
    const body = { messages: [{ role: "user", content: "hello" }], n };
    const app = createApp(engine, { cacheReport });
    const { usage } = await answer<{ usage: { prompt_tokens_details: unknown } }>(
      await post(app, "/v1/chat/completions", body),
    );
    return usage.prompt_tokens_details;
  };

  test("tells of cached tokens where the server reports them", async () => {
    expect(await details(new Cached(), true)).toEqual({ cached_tokens: 3 });
    expect(await details(new Cached(), true, 4)).toEqual({ cached_tokens: 3 });
    expect(await details(new Cached(), false)).toBeNull();
  });

  test.each([
    ["/v1/chat/completions", { messages: [{ role: "user", content: "hello" }] }],
    ["/v1/completions", { prompt: "hello" }],
  ])("of %s tells of them where the stream's options ask, and only there", async (path, body) => {
    const app = createApp(new Cached());
    const told = async (stream_options: object) => {
      const response = await post(app, path, { ...body, stream: true, stream_options });
      const chunks = await events<{ usage: { prompt_tokens_details: unknown } }>(response);
      return chunks.at(-1)!.usage.prompt_tokens_details;
    };
    expect(await told({ include_usage: true, include_cached_tokens: true })).toEqual({
      cached_tokens: 3,
    });
    expect(await told({ include_usage: true })).toBeNull();
    const alone = { ...body, stream: true, stream_options: { include_cached_tokens: true } };
    const refused = await post(app, path, alone);
    expect([refused.status, await errorMessage(refused)]).toEqual([
      400,
      "Cannot use stream_options.include_cached_tokens: include_usage is not true",
    ]);
  });

  test("is null when there were none", async () => {
    const engine = new Cached();
    engine.cached = 0;
    expect(await details(engine, true)).toBeNull();
  });
});
