/** What people read who use unmodified clients over a socket, when something is wrong. */

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { APICallError, embed, generateText, streamText } from "ai";
import OpenAI, { type APIError } from "openai";
import { afterEach, describe, expect, test } from "vitest";
import { DeviceError } from "../../../src/errors.ts";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";

const model = "tiny";
const messages = [{ role: "user" as const, content: "hello" }];
const long = [{ role: "user" as const, content: "x".repeat(5000) }];

let server: RunningServer;
afterEach(() => server.close());

/** @returns the server's address. */
async function listen(options: AppOptions = {}): Promise<string> {
  const script = () => ({
    pieces: ["one", " two", " three"],
    failure: { at: 2, error: new DeviceError("The GPU was lost") },
  });
  const engine = new ScriptedEngine({ script });
  const app = createApp(engine, { reportError: () => {}, ...options });
  server = await serve(app, { host: "127.0.0.1", port: 0 });
  return server.url;
}

async function thrownBy(call: PromiseLike<unknown>): Promise<Error> {
  const outcome = await Promise.resolve(call).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(outcome).toBeInstanceOf(Error);
  return outcome as Error;
}

const SENTENCES = {
  topP: "top_p must be above 0 and at most 1, got 7",
  path: "Cannot POST /v2/chat/completions: no such endpoint",
  other: 'Cannot find the model "other": it is not served here',
  embeddings: "Cannot use /v1/embeddings: no model that makes embeddings can be served",
  tooLong: "The input (5000 tokens) is longer than the model's context length (4096 tokens)",
  tooMany: "This model's maximum context length is 4096 tokens",
  noKey: "the key in its header Authorization or x-api-key is not the server's",
  lost: "The GPU was lost",
};

describe("the openai client", () => {
  const open = async ({ version = "v1", ...options }: AppOptions & { version?: string } = {}) =>
    new OpenAI({
      baseURL: `${await listen(options)}/${version}`,
      apiKey: "none",
      maxRetries: 0,
    });

  test("shows a wrong value, and its field", async () => {
    const client = await open();
    const error = await thrownBy(client.chat.completions.create({ model, messages, top_p: 7 }));
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error.message).toBe(`400 ${SENTENCES.topP}`);
    expect(error).toMatchObject({ param: "top_p", type: "invalid_request_error", code: null });
  });

  test("shows a wrong type of a stream", async () => {
    const client = await open();
    const body = { model, messages, stream: true as const, temperature: "hot" as never };
    const error = await thrownBy(client.chat.completions.create(body));
    expect(error.message).toBe('400 temperature must be a number, got "hot"');
    expect(error).toMatchObject({ param: "temperature" });
  });

  test("shows an unknown model, and that it is one", async () => {
    const client = await open();
    const error = await thrownBy(client.models.retrieve("other"));
    expect(error).toBeInstanceOf(OpenAI.NotFoundError);
    expect(error.message).toBe(`404 ${SENTENCES.other}`);
    expect(error).toMatchObject({ param: "model", code: "model_not_found" });
  });

  test("shows an endpoint that is not there, below a wrong path too", async () => {
    const embedding = (await open()).embeddings.create({ model, input: "a" });
    expect((await thrownBy(embedding)).message).toBe(`400 ${SENTENCES.embeddings}`);
    await server.close();
    const client = await open({ version: "v2" });
    const error = await thrownBy(client.chat.completions.create({ model, messages }));
    expect(error.message).toBe(`404 ${SENTENCES.path}`);
    expect(error).toMatchObject({ code: "unknown_url" });
  });

  test("shows a full context, and that it is one", async () => {
    const client = await open();
    for (const stream of [false, true]) {
      const input = client.chat.completions.create({ model, messages: long, stream });
      const error = await thrownBy(input);
      expect(error.message).toContain(`400 ${SENTENCES.tooLong}`);
      expect(error).toMatchObject({ code: "context_length_exceeded", param: "messages" });
    }
    const output = client.chat.completions.create({ model, messages, max_tokens: 5000 });
    const error = await thrownBy(output);
    expect(error.message).toContain(SENTENCES.tooMany);
    expect(error).toMatchObject({ code: "context_length_exceeded", param: "max_tokens" });
  });

  test("shows what a wrong key is about", async () => {
    const client = await open({ apiKey: "right" });
    const error = await thrownBy(client.chat.completions.create({ model, messages }));
    expect(error).toBeInstanceOf(OpenAI.AuthenticationError);
    expect(error.message).toMatch(/^401 Unauthorized: cannot POST/);
    expect(error.message).toContain(SENTENCES.noKey);
    expect(error).toMatchObject({ code: "invalid_api_key" });
  });

  test("shows an error in the middle of a stream", async () => {
    const client = await open();
    const chat = await client.chat.completions.create({ model, messages, stream: true });
    const pieces: string[] = [];
    const reading = (async () => {
      for await (const { choices } of chat) pieces.push(choices[0]?.delta.content ?? "");
    })();
    expect((await thrownBy(reading)).message).toBe(SENTENCES.lost);
    expect(pieces.join("")).toBe("one two");
    const completion = await client.completions.create({ model, prompt: "a", stream: true });
    const rest = (async () => {
      for await (const _ of completion);
    })();
    expect((await thrownBy(rest)).message).toBe(SENTENCES.lost);
  });

  test("shows an error of an answer that is not streamed", async () => {
    const client = await open();
    const error = await thrownBy(client.chat.completions.create({ model, messages }));
    expect(error).toBeInstanceOf(OpenAI.InternalServerError);
    expect(error.message).toBe(`500 ${SENTENCES.lost}`);
    expect(error).toMatchObject({ type: "server_error" });
  });

  test("knows the request by the id that it sent", async () => {
    const client = await open();
    const headers = { "x-request-id": "mine-1" };
    const call = client.chat.completions.create({ model, messages, top_p: 7 }, { headers });
    expect(await thrownBy(call)).toMatchObject({ requestID: "mine-1" });
  });

  test("knows a fault by the id that the server reports it with", async () => {
    const reported: string[] = [];
    const client = await open({ reportError: (_, id) => reported.push(id) });
    const error = await thrownBy(client.chat.completions.create({ model, messages }));
    expect(reported).toEqual([(error as APIError).requestID]);
    expect(reported[0]).toMatch(/^[\da-f-]{36}$/);
  });
});

describe("the ai SDK", () => {
  const open = async ({ version = "v1", ...options }: AppOptions & { version?: string } = {}) =>
    createOpenAICompatible({
      name: "wisp",
      baseURL: `${await listen(options)}/${version}`,
      apiKey: "none",
    });
  const settings = { messages, maxRetries: 0 };

  test.each([
    ["a wrong value", { ...settings, topP: 7 }, {}, 400, SENTENCES.topP],
    ["a long prompt", { ...settings, messages: long }, {}, 400, SENTENCES.tooLong],
    ["a long answer", { ...settings, maxOutputTokens: 5000 }, {}, 400, SENTENCES.tooMany],
    ["a wrong key", settings, { apiKey: "right" }, 401, SENTENCES.noKey],
    ["a wrong path", settings, { version: "v2" }, 404, SENTENCES.path],
    ["a fault", settings, {}, 500, SENTENCES.lost],
  ])("shows %s", async (_, call, options, status, sentence) => {
    const provider = await open(options);
    const error = await thrownBy(generateText({ ...call, model: provider(model) }));
    expect(APICallError.isInstance(error)).toBe(true);
    expect(error.message).toContain(sentence);
    expect(error).toMatchObject({ statusCode: status });
  });

  test("shows an endpoint that is not there", async () => {
    const provider = await open();
    const embedding = { model: provider.embeddingModel(model), value: "a", maxRetries: 0 };
    expect((await thrownBy(embed(embedding))).message).toBe(SENTENCES.embeddings);
  });

  test.each([
    ["before a stream", { ...settings, topP: 7 }, "", SENTENCES.topP],
    ["in the middle of a stream", settings, "one two", SENTENCES.lost],
  ])("shows an error %s", async (_, call, said, sentence) => {
    const provider = await open();
    const told: unknown[] = [];
    const result = streamText({
      ...call,
      model: provider(model),
      onError: ({ error }) => void told.push(error),
    });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    expect(text).toBe(said);
    expect(told).toEqual([expect.objectContaining({ message: sentence })]);
  });
});

/** Its own endpoint is tested in anthropic_client.test.ts. */
describe("the @anthropic-ai/sdk client", () => {
  const open = async (options: AppOptions = {}) =>
    new Anthropic({ baseURL: await listen(options), authToken: "none", maxRetries: 0 });
  const asked = { model, messages, max_tokens: 10 };

  test("shows an unknown path and an unknown model", async () => {
    const client = await open();
    const unknown = await thrownBy(client.post("/v1/nothing", { body: {} }));
    expect(unknown.message).toBe("404 Cannot POST /v1/nothing: no such endpoint");
    const error = await thrownBy(client.models.retrieve("other"));
    expect(error).toBeInstanceOf(Anthropic.NotFoundError);
    expect(error.message).toBe(`404 ${SENTENCES.other}`);
  });

  test("shows what a wrong key is about", async () => {
    const client = await open({ apiKey: "right" });
    const error = await thrownBy(client.messages.create(asked));
    expect(error).toBeInstanceOf(Anthropic.AuthenticationError);
    expect(error.message).toContain(SENTENCES.noKey);
  });

  test.each([
    [{ messages, top_p: 7 }, SENTENCES.topP],
    [{ messages: long }, SENTENCES.tooLong],
    [{ messages, max_tokens: 5000 }, SENTENCES.tooMany],
  ])("shows what an endpoint that is there says", async (body, sentence) => {
    const client = await open();
    const error = await thrownBy(client.post("/v1/chat/completions", { body }));
    expect(error.message).toContain(`400 `);
    expect(error.message).toContain(sentence);
  });
});
