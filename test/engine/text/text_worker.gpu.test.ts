/** A real engine whose texts are read in threads. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { RemoteTextService } from "../../../src/engine/text/remote_text_service.ts";
import { readTextFiles } from "../../../src/engine/text/text_files.ts";
import type { CreateTextService } from "../../../src/engine/text/text_service.ts";
import { InvalidRequestError, WorkerError } from "../../../src/errors.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import { createApp } from "../../../src/server/app.ts";
import { type BuiltWorker, buildWorker } from "../../support/engines/built_worker.ts";
import { chat, complete, openEngine } from "../../support/engines/engine.ts";
import { timeLimits, watchedTextThreads } from "../../support/engines/text_worker.ts";
import { post } from "../../support/server/http_client.ts";
import { until } from "../../support/until.ts";

/** Loops for longer than its limit where a variable asks for it. */
const chatTemplate = `{%- if endless %}{% for i in range(1000) %}{% for j in range(2900) %}{{ i }}{% endfor %}{% endfor %}{% endif %}
{%- for message in messages %}<｜{{ "User" if message.role == "user" else "Assistant" }}｜>{{ message.content }}{% endfor %}<｜Assistant｜>`;
const endless = { messages: chat("Hi"), templateVariables: { endless: true } };

let worker: BuiltWorker;
let watched: ReturnType<typeof watchedTextThreads>;
let engine: Engine;

const textService: CreateTextService = async ({ source, options }) =>
  RemoteTextService.open({
    start: watched.start,
    files: await readTextFiles(source),
    options,
    limits: timeLimits(1),
  });

beforeAll(async () => {
  worker = await buildWorker("text_worker");
  watched = watchedTextThreads(worker.url);
  engine = await openEngine({ textService, chatTemplate, jsonJump: "retokenize" });
});
afterAll(async () => {
  await engine.close();
  worker.remove();
});

/** Jobs that threads were given so far. */
const jobs = () => watched.asked.flat().filter(({ type }) => type !== "load").length;

const idle = () =>
  expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0, usedTokens: 0 });

test("answers have the same tokens, forced text included", async () => {
  const here = await openEngine({ chatTemplate, jsonJump: "retokenize" });
  const sampling = { maxNewTokens: 12, temperature: 1.2, seed: 7 };
  const schema = {
    type: "object",
    properties: { description: { const: "all of this must follow" } },
    required: ["description"],
  };
  const requests: readonly GenerationRequest[] = [
    { messages: chat("Who are you?"), sampling },
    { prompt: "Hello", sampling },
    { messages: chat("Say it"), sampling: { ...sampling, jsonSchema: schema } },
  ];
  const answers = (one: Engine) => Promise.all(requests.map((request) => complete(one, request)));
  const expected = await answers(here);
  await here.close();
  const before = jobs();
  const found = await answers(engine);
  expect(found.map(({ tokens }) => tokens)).toEqual(expected.map(({ tokens }) => tokens));
  // Each prompt is a job, and the forced text is more.
  expect(jobs() - before).toBeGreaterThan(requests.length);
});

test("128 answers to one conversation render and tokenize it once", async () => {
  const before = jobs();
  const body = { messages: chat("Hi"), n: 128, max_tokens: 1 };
  const response = await post(createApp(engine), "/v1/chat/completions", body);
  expect(response.status).toBe(200);
  expect(((await response.json()) as { choices: unknown[] }).choices).toHaveLength(128);
  expect(jobs() - before).toBe(1);
  idle();
});

test("a template without end is refused, and 128 answers to it try it once", async () => {
  const before = jobs();
  const app = createApp(engine);
  const kwargs = { chat_template_kwargs: { endless: true } };
  const slow = await post(app, "/v1/chat/completions", { messages: chat("Hi"), n: 128, ...kwargs });
  expect(slow.status).toBe(400);
  expect(JSON.stringify(await slow.json())).toContain("it took longer than 1 s");
  expect(jobs() - before).toBe(1);
  const next = await complete(engine, { messages: chat("Hi"), sampling: { maxNewTokens: 1 } });
  expect(next.tokens).toHaveLength(1);
  idle();
});

test("requests whose prompts are being read are aborted by their ids and leave with their callers", async () => {
  const before = jobs();
  const holding = complete(engine, endless);
  const refused = expect(holding).rejects.toThrow(InvalidRequestError);
  await until(() => expect(jobs()).toBe(before + 1));
  const aborted = complete(engine, { prompt: "a", requestId: "mine" });
  const leaving = new AbortController();
  const left = complete(engine, { prompt: "b", signal: leaving.signal } as GenerationRequest);
  const tokenized = engine.tokenize({ prompt: "c", signal: leaving.signal });
  engine.abort("mine");
  leaving.abort();
  expect((await aborted).last).toMatchObject({
    requestId: "mine",
    finish: { type: "abort", message: "Abort before prefill" },
  });
  await expect(left).rejects.toMatchObject({ name: "AbortError" });
  await expect(tokenized).rejects.toMatchObject({ name: "AbortError" });
  await refused;
  // What has left was never read.
  expect(jobs() - before).toBe(1);
  idle();
});

test("long lists of tokens become text in a thread, short ones here", async () => {
  const before = jobs();
  const tokens = await engine.tokenize({ prompt: "one two three ".repeat(9000) });
  expect(tokens.length).toBeGreaterThan(20_000);
  expect(await engine.detokenize(tokens.slice(0, 10))).toContain("one two");
  expect(jobs() - before).toBe(1);
  expect(await engine.detokenize(tokens)).toBe("one two three ".repeat(9000));
  expect(jobs() - before).toBe(2);
});

test("close() ends what is being read", async () => {
  const closing = await openEngine({ textService, chatTemplate });
  const generated = complete(closing, endless);
  const tokenized = closing.tokenize(endless);
  const rejected = expect(tokenized).rejects.toThrow(WorkerError);
  await closing.close();
  expect((await generated).last.finish).toEqual({
    type: "abort",
    message: "the engine is closed",
  });
  await rejected;
});

test("a load that fails ends the threads that it has started", async () => {
  let closed = 0;
  const counted: CreateTextService = async (setting) => {
    const texts = await textService(setting);
    const close = () => {
      closed += 1;
      texts.close();
    };
    return { templateVariables: texts.templateVariables, run: texts.run.bind(texts), close };
  };
  await expect(openEngine({ textService: counted, contextLength: 1 })).rejects.toThrow(
    InvalidRequestError,
  );
  expect(closed).toBe(1);
});
