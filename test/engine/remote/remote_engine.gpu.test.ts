import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { messagePort } from "../../../src/engine/remote/port.ts";
import { RemoteEngine } from "../../../src/engine/remote/remote_engine.ts";
import { serveEngine } from "../../../src/engine/remote/serve_engine.ts";
import { CapacityError, InvalidRequestError, WorkerError } from "../../../src/errors.ts";
import type {
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
} from "../../../src/generation.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { chat, openEngine } from "../../support/engines/engine.ts";
import { until } from "../../support/until.ts";

const GREEDY = { temperature: 0 };
const LONG = { ...GREEDY, maxNewTokens: 60, ignoreEos: true };

const ports: MessagePort[] = [];

async function connect(engine: GenerationEngine) {
  const { port1, port2 } = new MessageChannel();
  ports.push(port1, port2);
  serveEngine(engine, messagePort(port1));
  return { remote: await RemoteEngine.connect(messagePort(port2)), port: port2 };
}

async function chunksOf(from: GenerationEngine, request: GenerationRequest) {
  const chunks: GenerationChunk[] = [];
  for await (const chunk of from.generate(request)) chunks.push(chunk);
  return chunks;
}

/** Everything that a request gives, but what depends on what ran before it. */
function content(chunks: readonly GenerationChunk[]) {
  return chunks.map(
    ({ requestId: _, cachedTokens: _cached, queueSeconds: _time, ...rest }) => rest,
  );
}

describe("an engine behind a port", () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await openEngine({ maxQueuedRequests: 1, maxRunningRequests: 2 });
  });
  afterEach(async () => {
    // Nothing is left behind by any test.
    await until(() =>
      expect(engine.status()).toMatchObject({
        ...{ runningRequests: 0, queuedRequests: 0, usedTokens: 0 },
      }),
    );
    for (const port of ports.splice(0)) port.close();
  });
  afterAll(() => engine.close());

  test("gives the chunks of the engine itself: drawn, with log-probabilities, by embeddings", async () => {
    const { remote } = await connect(engine);
    const messages = chat("What is the capital of Japan?");
    const inputEmbeds = Array.from({ length: 5 }, (_, r) =>
      Float32Array.from({ length: engine.model.hiddenSize }, (_, i) => Math.sin(r * 7 + i) / 9),
    );
    const requests: readonly GenerationRequest[] = [
      { messages, sampling: GREEDY },
      { messages, sampling: { seed: 3, topP: 0.9, maxNewTokens: 12 }, streamInterval: 4 },
      { messages, sampling: GREEDY, logprobs: { topCount: 3, promptStart: 0, text: true } },
      { inputEmbeds, sampling: { ...GREEDY, maxNewTokens: 6 } },
    ];
    for (const request of requests) {
      const here = content(await chunksOf(engine, request));
      expect(content(await chunksOf(remote, request))).toEqual(here);
      expect(here.length).toBeGreaterThan(2);
    }
    expect(remote.model).toEqual(engine.model);
    const tokens = await remote.tokenize({ messages });
    expect(tokens).toEqual(await engine.tokenize({ messages }));
    expect(await remote.detokenize(tokens)).toBe(await engine.detokenize(tokens));
  });

  test("leaving the loop and aborting the signal free the pages", async () => {
    const { remote } = await connect(engine);
    for await (const { completionTokens } of remote.generate({ prompt: "Hello", sampling: LONG })) {
      if (completionTokens > 2) break;
    }
    await until(() => expect(engine.status().usedTokens).toBe(0));
    const controller = new AbortController();
    const { signal } = controller;
    const running = (async () => {
      for await (const chunk of remote.generate({ prompt: "Hello", sampling: LONG, signal })) {
        if (chunk.completionTokens === 2) controller.abort();
      }
    })();
    await expect(running).rejects.toMatchObject({ name: "AbortError" });
    await until(() => expect(engine.status().usedTokens).toBe(0));
    await until(() => {
      const { stalledFor: _, ...status } = remote.status();
      const { stalledFor: _here, ...here } = engine.status();
      expect(status).toEqual(here);
    });
  });

  test("errors are the engine's own, and concern one request only", async () => {
    const { remote } = await connect(engine);
    const failure = async (request: GenerationRequest) => {
      try {
        await chunksOf(remote, request);
      } catch (error) {
        return error as Error;
      }
      throw new Error("There is no failure");
    };
    const long = [0, 1].map(() => chunksOf(remote, { prompt: "Hello", sampling: LONG }));
    const range = await failure({ prompt: "a", sampling: { topP: 7 } });
    expect(range).toBeInstanceOf(InvalidRequestError);
    expect(range).toMatchObject({ name: "InvalidRequestError", field: expect.any(String) });
    const grammar = await failure({ prompt: "a", sampling: { regex: "a(b" } });
    expect(grammar).toBeInstanceOf(GrammarError);
    expect(grammar).toMatchObject({ position: 1, code: "invalid_request" });
    await until(() => expect(engine.status().runningRequests).toBe(2));
    const waiting = chunksOf(remote, { prompt: "b", sampling: { ...GREEDY, maxNewTokens: 1 } });
    const full = await failure({ prompt: "c" });
    expect(full).toBeInstanceOf(CapacityError);
    expect(full).toMatchObject({ limit: 1 });
    for (const chunks of await Promise.all(long)) {
      expect(chunks.at(-1)!.completionTokens).toBe(LONG.maxNewTokens);
    }
    expect((await waiting).at(-1)!.finish).toMatchObject({ type: "length" });
  });

  test("a port that closes ends its own requests only", async () => {
    const [one, other] = [await connect(engine), await connect(engine)];
    const lost = chunksOf(one.remote, { prompt: "Hello", sampling: LONG }).catch((error) => error);
    const kept = chunksOf(other.remote, { prompt: "Hello", sampling: LONG });
    await until(() => expect(engine.status().runningRequests).toBe(2));
    one.port.close();
    expect(await lost).toBeInstanceOf(WorkerError);
    await until(() => expect(engine.status().runningRequests).toBe(1));
    expect((await kept).at(-1)!.completionTokens).toBe(LONG.maxNewTokens);
  });

  test("a profile is taken of the steps that run while the work does", async (context) => {
    const { remote } = await connect(engine);
    const work = () =>
      chunksOf(remote, { prompt: "Hello", sampling: { ...GREEDY, maxNewTokens: 4 } });
    let profile: Awaited<ReturnType<NonNullable<typeof remote.profile>>>;
    try {
      profile = await remote.profile!(work);
    } catch (error) {
      return context.skip((error as Error).message);
    }
    expect(profile.steps).toBeGreaterThanOrEqual(4);
    expect(profile.kernels.length).toBeGreaterThan(3);
  });

  test("the cache's tree is the engine's", async () => {
    const { remote } = await connect(engine);
    expect(await remote.cacheTree!()).toEqual(await engine.cacheTree());
    expect(await remote.flushCache()).toBe(true);
    expect(engine.status().cachedTokens).toBe(0);
  });
});
