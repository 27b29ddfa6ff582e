import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { CapacityError, DeviceError, InvalidRequestError } from "../../src/errors.ts";
import type { GenerationChunk, GenerationRequest } from "../../src/generation.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import { chat, complete, openEngine } from "../support/engines/engine.ts";

const GREEDY = { temperature: 0 };

/** Nothing may be left behind by any test. */
function expectIdle(engine: Engine) {
  const { runningRequests, queuedRequests, usedTokens } = engine.status();
  expect({ runningRequests, queuedRequests, usedTokens }).toEqual({
    runningRequests: 0,
    queuedRequests: 0,
    usedTokens: 0,
  });
}

describe("Engine", () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await openEngine();
  });
  afterAll(async () => {
    expectIdle(engine);
    await engine.close();
  });

  test("generate() answers a chat", async () => {
    const { text, last } = await complete(engine, {
      messages: chat("What is the capital of Japan?"),
      sampling: GREEDY,
    });
    expect(text).toBe("The capital of Japan is Tokyo.");
    expect(last.finish).toEqual({ type: "stop", matched: 1 });
    expect(last.promptTokens).toBe(10);
  });

  test("generate() says that a request is accepted before its first token", async () => {
    const chunks: GenerationChunk[] = [];
    const request = { messages: chat("Hello!"), sampling: { ...GREEDY, maxNewTokens: 2 } };
    for await (const chunk of engine.generate(request)) chunks.push(chunk);
    expect(chunks.map(({ tokens }) => tokens.length)).toEqual([0, 1, 1]);
    expect(chunks.map(({ completionTokens }) => completionTokens)).toEqual([0, 1, 2]);
  });

  test("generate() gives raw text a BOS, tokens none", async () => {
    const sampling = { ...GREEDY, maxNewTokens: 1 };
    const text = await complete(engine, { prompt: "Hello", sampling });
    const tokens = await complete(engine, { tokens: [559], sampling });
    expect([text.last.promptTokens, tokens.last.promptTokens]).toEqual([2, 1]);
  });

  test("maxNewTokens ends with length, before an EOS at the same token", async () => {
    const request = { messages: chat("What is the capital of Japan?") };
    const whole = await complete(engine, { ...request, sampling: GREEDY });
    const maxNewTokens = whole.tokens.length;
    const { last, text } = await complete(engine, {
      ...request,
      sampling: { ...GREEDY, maxNewTokens },
    });
    expect(last.finish).toEqual({ type: "length", length: maxNewTokens });
    expect(text).toBe(whole.text);
    const none = await complete(engine, { ...request, sampling: { ...GREEDY, maxNewTokens: 0 } });
    expect(none.last.finish).toEqual({ type: "length", length: 0 });
    expect(none.tokens).toHaveLength(1);
  });

  test("stop strings end the text before them; stopTokenIds after theirs; ignoreEos goes on", async () => {
    const messages = chat("What is the capital of Japan?");
    const stopped = await complete(engine, { messages, sampling: { ...GREEDY, stop: [" is T"] } });
    expect(stopped.text).toBe("The capital of Japan");
    expect(stopped.last.finish).toEqual({ type: "stop", matched: " is T" });
    const whole = await complete(engine, { messages, sampling: GREEDY });
    const id = whole.tokens[3]!;
    const byToken = await complete(engine, {
      messages,
      sampling: { ...GREEDY, stopTokenIds: [id] },
    });
    expect(byToken.tokens).toEqual(whole.tokens.slice(0, 4));
    const on = await complete(engine, {
      messages,
      sampling: { ...GREEDY, ignoreEos: true, maxNewTokens: 30, stopTokenIds: [id] },
    });
    expect(on.last.finish).toEqual({ type: "length", length: 30 });
    expect(on.tokens.slice(0, whole.tokens.length)).toEqual(whole.tokens);
  });

  test("a seed reproduces the draws, alone and among others", async () => {
    const request = (seed: number): GenerationRequest => ({
      messages: chat("Tell me a story."),
      sampling: { temperature: 1, topP: 0.95, topK: 50, seed, maxNewTokens: 24, ignoreEos: true },
    });
    const alone = await complete(engine, request(5));
    const together = await Promise.all(
      [1, 2, 3, 5, 8, 13].map((s) => complete(engine, request(s))),
    );
    expect(together[3]!.tokens).toEqual(alone.tokens);
    expect(new Set(together.map(({ tokens }) => tokens.join())).size).toBe(6);
  });

  test("requests decode together, joining and leaving, with the tokens they have alone", async () => {
    const prompts = ["Hello!", "What is 12 + 35?", "Count from 1 to 9.", "Who are you?"];
    const requests = prompts.map(
      (prompt, i): GenerationRequest => ({
        messages: chat(prompt),
        sampling: { ...GREEDY, maxNewTokens: 8 + 9 * i, ignoreEos: true },
      }),
    );
    const alone = [];
    for (const request of requests) alone.push(await complete(engine, request));
    let most = 0;
    const watched = async (request: GenerationRequest) => {
      const tokens: number[] = [];
      for await (const chunk of engine.generate(request)) {
        tokens.push(...chunk.tokens);
        most = Math.max(most, engine.status().runningRequests);
      }
      return tokens;
    };
    const running = requests.slice(0, 3).map(watched);
    await new Promise((resolve) => setTimeout(resolve, 20));
    running.push(watched(requests[3]!));
    expect(await Promise.all(running)).toEqual(alone.map(({ tokens }) => tokens));
    expect(most).toBeGreaterThan(1);
  });

  test("leaving the loop and aborting the signal free the pages at once", async () => {
    const request = {
      messages: chat("Tell me a story."),
      sampling: { maxNewTokens: 500, ignoreEos: true },
    };
    for await (const { completionTokens } of engine.generate(request)) {
      if (completionTokens === 3) break;
    }
    expectIdle(engine);
    const controller = new AbortController();
    const iterator = engine.generate({ ...request, signal: controller.signal });
    await iterator.next();
    await iterator.next();
    const pending = iterator.next();
    controller.abort();
    await expect(pending).rejects.toMatchObject({ name: "AbortError" });
    expectIdle(engine);
    const late = engine.generate({ ...request, signal: controller.signal });
    await expect(late.next()).rejects.toMatchObject({ name: "AbortError" });
  });

  test.each<[string, GenerationRequest]>([
    ["exactly one of", {}],
    ["exactly one of", { prompt: "a", tokens: [1] }],
    ["empty", { tokens: [] }],
    ["not in the vocabulary", { tokens: [2048] }],
    ["longer than the model's context length", { tokens: Array(2048).fill(5) }],
    ["longer than the model's context length", { prompt: "x ".repeat(1e6) }],
    ["Requested token count exceeds", { prompt: "a", sampling: { maxNewTokens: 2048 } }],
    ["temperature", { prompt: "a", sampling: { temperature: -1 } }],
    ["topP", { prompt: "a", sampling: { topP: 0 } }],
    ["topK", { prompt: "a", sampling: { topK: 0 } }],
    ["stopTokenIds", { prompt: "a", sampling: { stopTokenIds: [99999] } }],
    ["stop", { prompt: "a", sampling: { stop: [1 as unknown as string] } }],
    ["seed", { prompt: "a", sampling: { seed: 0.5 } }],
    ["tools", { prompt: "a", tools: [] }],
  ])("generate() refuses before the first chunk: %s", async (message, request) => {
    const first = engine.generate(request).next();
    await expect(first).rejects.toBeInstanceOf(InvalidRequestError);
    await expect(first).rejects.toThrow(message);
  });

  // 2,040 rows over up to 2,040 keys each take minutes on SwiftShader.
  test.skipIf(smallestCaseOnly)(
    "a prompt of nearly the whole context works and fills the rest",
    async () => {
      const tokens = Array.from({ length: 2040 }, (_, i) => 3 + ((i * 7) % 2000));
      const { last } = await complete(engine, {
        tokens,
        sampling: { ...GREEDY, maxNewTokens: null, ignoreEos: true },
      });
      expect(last.finish).toEqual({ type: "length", length: 8 });
    },
  );
});

describe("Engine with little room", () => {
  test("requests wait for pages and all finish", async () => {
    const engine = await openEngine({ maxTotalTokens: 96, pageSize: 16, maxRunningRequests: 4 });
    expect(engine.model.contextLength).toBe(96);
    const requests = Array.from({ length: 7 }, (_, i) =>
      complete(engine, {
        messages: chat("Hello!"),
        sampling: { ...GREEDY, maxNewTokens: 20 + i, ignoreEos: true },
      }),
    );
    const answers = await Promise.all(requests);
    answers.forEach(({ tokens }, i) => {
      expect(tokens).toHaveLength(20 + i);
      expect(tokens.slice(0, 20)).toEqual(answers[0]!.tokens);
    });
    expectIdle(engine);
    await engine.close();
  });

  test.each([1, 16])("a cached prefix changes no token (pages of %i)", async (pageSize) => {
    const fresh = await openEngine({ pageSize, prefixCache: false });
    const engine = await openEngine({ pageSize });
    const long = "List the first ten even numbers, then say who you are. ".repeat(3);
    const request = { messages: chat(long), sampling: { ...GREEDY, maxNewTokens: 12 } };
    const want = await complete(fresh, request);
    const [first, again] = [await complete(engine, request), await complete(engine, request)];
    const { promptTokens } = want.last;
    expect([first.tokens, again.tokens]).toEqual([want.tokens, want.tokens]);
    expect([want, first].map(({ last }) => last.cachedTokens)).toEqual([0, 0]);
    expect(again.last.cachedTokens).toBe(Math.floor((promptTokens - 1) / pageSize) * pageSize);
    const salted = await complete(engine, { ...request, cacheSalt: "mine" });
    expect([salted.tokens, salted.last.cachedTokens]).toEqual([want.tokens, 0]);
    expectIdle(engine);
    await Promise.all([fresh.close(), engine.close()]);
  });

  test("a full queue refuses, and close() ends what runs", async () => {
    const engine = await openEngine({ maxRunningRequests: 1, maxQueuedRequests: 1 });
    const request = { prompt: "a", sampling: { ...GREEDY, maxNewTokens: 400, ignoreEos: true } };
    const [first, second, third] = [1, 2, 3].map(() => engine.generate(request));
    await first!.next();
    await second!.next();
    await expect(third!.next()).rejects.toBeInstanceOf(CapacityError);
    const rest = (async () => {
      let last: GenerationChunk | undefined;
      for await (const chunk of first!) last = chunk;
      return last!;
    })();
    await engine.close();
    expect((await rest).finish).toEqual({ type: "abort", message: "the engine is closed" });
    await expect(engine.generate(request).next()).rejects.toBeInstanceOf(DeviceError);
    expect(engine.status().healthy).toBe(false);
  });

  test("the start fails with figures when weights do not fit, or more is asked than there is", async () => {
    await expect(openEngine({ deviceMemory: 2 ** 20 })).rejects.toThrow(/weights take .* MiB/);
    await expect(openEngine({ maxTotalTokens: 2 ** 40 })).rejects.toThrow(/Cannot cache/);
    await expect(openEngine({ maxTotalTokens: 0 })).rejects.toThrow(
      "Cannot use maxTotalTokens 0: it must be a whole number of at least 2",
    );
    await expect(openEngine({ contextLength: 4096 })).rejects.toThrow(/contextLength/);
  });
});
