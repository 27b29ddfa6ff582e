import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { loadText } from "../../src/engine/load/text_model.ts";
import { localTextService } from "../../src/engine/text/local_text_service.ts";
import { TEXT_LIMITS } from "../../src/engine/text/remote_text_service.ts";
import type { TextJob } from "../../src/engine/text/text_jobs.ts";
import type { StartTextThread } from "../../src/engine/text/text_lane.ts";
import { finished, type TextService } from "../../src/engine/text/text_service.ts";
import {
  CapacityError,
  CheckpointError,
  ContextLengthError,
  InvalidRequestError,
  WorkerError,
} from "../../src/errors.ts";
import { textThread, workerTextService } from "../../src/node/worker_text_service.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { type BuiltWorker, buildWorker } from "../support/engines/built_worker.ts";
import {
  ENDLESS_TEXT,
  hostileModel,
  openTexts,
  timeLimits,
  watchedTextThreads,
} from "../support/engines/text_worker.ts";
import { until } from "../support/until.ts";
import { byteLevelJson } from "../text/small_tokenizers.ts";

let worker: BuiltWorker;
beforeAll(async () => {
  worker = await buildWorker("text_worker");
});
afterAll(() => worker.remove());

async function opened(source: WeightSource, start: StartTextThread, limits = TEXT_LIMITS) {
  const service = await openTexts(source, start, limits);
  onTestFinished(() => service.close());
  return service;
}

async function local(source: WeightSource): Promise<TextService> {
  return localTextService({ model: await loadText(source), source, options: {} });
}

/** What a job comes to, in either form of a service. */
const outcome = async (service: TextService, job: TextJob) => {
  try {
    return await service.run(job).result;
  } catch (error) {
    return error;
  }
};

const raw = (prompt: string): TextJob => ({ type: "prompt", request: { prompt } });
const user = (content: string) => [{ role: "user", content }];
const chat = (content: string, templateVariables = {}): TextJob => ({
  type: "prompt",
  request: { messages: user(content), templateVariables },
});
const endless = raw(ENDLESS_TEXT);
const bytes = (text: string) => [...new TextEncoder().encode(text)];

describe("texts in a worker thread", () => {
  test("become the same tokens, texts and errors as in the own thread", async () => {
    const source = folderSource(EMBEDDED_MODEL);
    const here = await local(source);
    const there = await opened(source, textThread(worker.url));
    expect(there.templateVariables).toEqual(here.templateVariables);
    const texts = [
      "",
      "a",
      "  two\n\n\nlines ",
      "straße 😀 \ud83d",
      "<｜User｜>hi",
      "x".repeat(70_000),
    ];
    const tool = { type: "function", function: { name: "f", parameters: { type: "object" } } };
    const jobs: readonly TextJob[] = [
      ...texts.map(raw),
      ...texts.map((text): TextJob => ({ type: "encode", text })),
      ...texts.map((text) => chat(text)),
      { type: "prompt", request: { prompt: "a", addSpecialTokens: false } },
      { type: "prompt", request: { messages: user("a"), tools: [tool] } },
      { type: "prompt", request: { messages: [] } },
      {
        type: "prompt",
        request: {
          messages: [...user("a"), { role: "assistant", content: "so" }],
          continueFinalMessage: true,
        },
      },
      { type: "prompt", request: { messages: user("a"), continueFinalMessage: true } },
      { type: "prompt", request: { prompt: "one two three" }, fit: { contextLength: 3 } },
      {
        type: "prompt",
        request: { prompt: "one two three four".repeat(900) },
        fit: { contextLength: 9, allowAutoTruncate: true },
      },
      { type: "decode", tokens: [0, 5, 77, 5], skipSpecialTokens: true },
      { type: "decode", tokens: [0, 5, 77, 5], skipSpecialTokens: false },
    ];
    for (const job of jobs) {
      const [expected, found] = [await outcome(here, job), await outcome(there, job)];
      expect(found).toEqual(expected);
      if (expected instanceof Error) expect(found).toBeInstanceOf(expected.constructor);
    }
    const tooLong = await outcome(there, jobs.at(-4)!);
    expect(tooLong).toBeInstanceOf(ContextLengthError);
  });

  test("that take too long end their thread and their request alone", async () => {
    const { start, asked } = watchedTextThreads(worker.url);
    const service = await opened(hostileModel(), start, timeLimits(0.5));
    const jobs = [raw("before"), endless, raw("aab"), chat("x", { endless: true }), chat("y")];
    const [before, slow, behind, loop, last] = await Promise.all(
      jobs.map((job) => outcome(service, job)),
    );
    expect([before, behind, last]).toEqual([bytes("before"), bytes("aab"), bytes("<user>y")]);
    for (const error of [slow, loop]) expect(error).toBeInstanceOf(InvalidRequestError);
    expect((slow as Error).message).toBe("Cannot tokenize the text: it took longer than 0.5 s");
    expect((loop as Error).message).toBe(
      "Cannot render and tokenize the messages: it took longer than 0.5 s",
    );
    expect(asked).toHaveLength(3);
  });

  test("that take too much memory end their thread and their request alone", async () => {
    const { start, asked } = watchedTextThreads(worker.url, 48);
    const service = await opened(hostileModel(), start, timeLimits(60));
    const hungry = await outcome(service, chat("x", { hungry: true }));
    expect(hungry).toBeInstanceOf(InvalidRequestError);
    expect((hungry as Error).message).toContain("it took more memory than it may have");
    expect(await outcome(service, raw("after"))).toEqual(bytes("after"));
    expect(asked).toHaveLength(2);
  });

  test("leave the queue with their callers", async () => {
    const { start, asked } = watchedTextThreads(worker.url);
    const service = await opened(hostileModel(), start, timeLimits(0.5));
    const leaving = new AbortController();
    const first = outcome(service, endless);
    const gone = finished(service.run(raw("gone")), leaving.signal);
    const behind = outcome(service, raw("behind"));
    leaving.abort();
    await expect(gone).rejects.toMatchObject({ name: "AbortError" });
    expect(await first).toBeInstanceOf(InvalidRequestError);
    expect(await behind).toEqual(bytes("behind"));
    const texts = asked.flat().flatMap((one) => (one.type === "run" ? [one.job] : []));
    expect(texts).toEqual([endless, raw("behind")]);
  });

  test("do not wait for long ones, and urgent ones for none but the one that is read", async () => {
    const { start, asked } = watchedTextThreads(worker.url);
    const service = await opened(hostileModel(), start, timeLimits(2, 0.5));
    const order: string[] = [];
    const run = async (name: string, job: TextJob, isUrgent = false) => {
      await Promise.allSettled([service.run(job, { isUrgent }).result]);
      order.push(name);
    };
    const long = run("long", raw(`${"a".repeat(2 ** 15)}!`));
    await Promise.all([
      long,
      run("first", raw("1")),
      run("second", raw("2")),
      run("urgent", { type: "encode", text: "3" }, true),
    ]);
    expect(order).toEqual(["first", "urgent", "second", "long"]);
    expect(asked.map((questions) => questions.length)).toEqual([4, 2, 1]);
  });

  test("beyond what may wait are refused, urgent ones and the first never", async () => {
    const { short } = TEXT_LIMITS;
    const limits = { ...timeLimits(0.5), short: { ...short, seconds: 0.5, waiting: 5000 } };
    const service = await opened(hostileModel(), textThread(worker.url), limits);
    const outcomes = Promise.all([
      outcome(service, endless),
      outcome(service, raw("x".repeat(20_000))),
      outcome(service, raw("refused")),
      service.run({ type: "encode", text: "u" }, { isUrgent: true }).result,
    ]);
    const [, large, refused, urgent] = await outcomes;
    expect(large).toHaveLength(20_000);
    expect(refused).toBeInstanceOf(CapacityError);
    expect(urgent).toEqual(bytes("u"));
  });

  test("that were read in time are answered although this thread was held up", async () => {
    const service = await opened(hostileModel(), textThread(worker.url), timeLimits(0.05));
    const answer = outcome(service, raw("in time"));
    const until = performance.now() + 400;
    while (performance.now() < until);
    expect(await answer).toEqual(bytes("in time"));
  });

  test("that cannot be sent are refused", async () => {
    const service = await opened(hostileModel(), textThread(worker.url));
    const refused = await outcome(service, chat("x", { f: () => {} }));
    expect(refused).toBeInstanceOf(InvalidRequestError);
    expect((refused as Error).message).toContain("Cannot send the prompt to its thread");
    expect(await outcome(service, raw("a"))).toEqual(bytes("a"));
  });
});

describe("a thread of texts", () => {
  test("that cannot load says why", async () => {
    const files = (template: string) =>
      memorySource(
        Object.fromEntries(
          Object.entries({
            "config.json": {},
            "tokenizer.json": byteLevelJson(),
            "tokenizer_config.json": { chat_template: template },
          }).map(([name, content]) => [name, new TextEncoder().encode(JSON.stringify(content))]),
        ),
      );
    const error = await openTexts(files("{% if %}"), textThread(worker.url)).catch((one) => one);
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error.message).toContain("the chat template does not parse");
    const nowhere = textThread(new URL("nowhere.mjs", worker.url));
    await expect(openTexts(files("a"), nowhere)).rejects.toThrow(/its thread failed: .*nowhere/);
    const none = () => {
      throw new Error("no thread today");
    };
    await expect(openTexts(files("a"), none)).rejects.toThrow("no thread today");
  });

  test("that never comes to an end of loading is given up", async () => {
    // The library normalizes tokens when it is made.
    const source = hostileModel({
      normalizer: { type: "Replace", pattern: { Regex: "(a+)+$" }, content: "" },
      added_tokens: [{ id: 300, content: ENDLESS_TEXT, special: false, normalized: true }],
    });
    const loading = openTexts(source, textThread(worker.url), {
      ...TEXT_LIMITS,
      loadSeconds: 0.5,
    });
    await expect(loading).rejects.toThrow(
      "Cannot load the tokenizer and the chat template: it took longer than 0.5 s",
    );
  });

  test("that is gone is replaced, and fails what it was reading", async () => {
    const threads: { terminate(): void }[] = [];
    const service = await opened(hostileModel(), (events) => {
      const thread = textThread(worker.url)(events);
      threads.push(thread);
      return thread;
    });
    const reading = outcome(service, endless);
    const behind = outcome(service, raw("behind"));
    threads[0]!.terminate();
    expect(await reading).toBeInstanceOf(WorkerError);
    expect(await behind).toEqual(bytes("behind"));
    threads[1]!.terminate();
    await until(() => expect(threads).toHaveLength(3));
    expect(await outcome(service, raw("idle"))).toEqual(bytes("idle"));
  });

  test.each([
    [1, ["fails", "is read", "is read"]],
    [2, ["fails", "fails", "fails"]],
  ])("of which %i in a row cannot load: what is asked behind it", async (count, want) => {
    let started = 0;
    let first: { terminate(): void } | undefined;
    const service = await opened(hostileModel(), (events) => {
      started += 1;
      if (started > 1 && started <= 1 + count) throw new Error("no thread today");
      const thread = textThread(worker.url)(events);
      if (started === 1) first = thread;
      return thread;
    });
    const reading = outcome(service, endless);
    const behind = ["a", "b", "c"].map((text) => outcome(service, raw(text)));
    first!.terminate();
    expect(await reading).toBeInstanceOf(WorkerError);
    const got = (await Promise.all(behind)).map((one) =>
      one instanceof WorkerError ? "fails" : "is read",
    );
    expect(got).toEqual(want);
    expect(await outcome(service, raw("later"))).toEqual(bytes("later"));
  });

  test("ends with its service", async () => {
    const service = await opened(hostileModel(), textThread(worker.url));
    const reading = outcome(service, endless);
    const behind = outcome(service, raw("behind"));
    service.close();
    for (const error of [await reading, await behind, await outcome(service, raw("late"))]) {
      expect(error).toBeInstanceOf(WorkerError);
      expect((error as Error).message).toContain("the text service is closed");
    }
  });
});

test("without a build, as here, texts are read in the own thread", async () => {
  const source = hostileModel();
  const service = await workerTextService({ model: await loadText(source), source, options: {} });
  expect(service.run(raw("a")).result).toEqual(bytes("a"));
});
