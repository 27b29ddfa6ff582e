import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { CHUNK_WINDOW } from "../../../src/engine/remote/engine_messages.ts";
import { messagePort } from "../../../src/engine/remote/port.ts";
import { RemoteEngine } from "../../../src/engine/remote/remote_engine.ts";
import { serveEngine } from "../../../src/engine/remote/serve_engine.ts";
import {
  CapacityError,
  DeviceError,
  InvalidRequestError,
  UnsupportedError,
  WorkerError,
} from "../../../src/errors.ts";
import type {
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
} from "../../../src/generation.ts";
import type { Profile } from "../../../src/profile.ts";
import {
  ScriptedEngine,
  type ScriptedEngineOptions,
} from "../../support/engines/scripted_engine.ts";
import { until } from "../../support/until.ts";

const opened: MessagePort[] = [];
afterEach(() => {
  for (const port of opened.splice(0)) port.close();
});

/** A proxy of the engine, and what ends the serving. */
async function connect(engine: GenerationEngine) {
  const { port1, port2 } = new MessageChannel();
  opened.push(port1, port2);
  const stop = serveEngine(engine, messagePort(port1));
  return { remote: await RemoteEngine.connect(messagePort(port2)), stop, port1, port2 };
}

async function scripted(options?: ScriptedEngineOptions) {
  const engine = new ScriptedEngine(options);
  return { engine, ...(await connect(engine)) };
}

async function all(chunks: AsyncIterable<GenerationChunk>) {
  const found: GenerationChunk[] = [];
  for await (const chunk of chunks) found.push(chunk);
  return found;
}

const reason = (promise: Promise<unknown>) => promise.catch((error: unknown) => error);

/** Seconds of a clock that only this moves. */
async function looks(count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    vi.advanceTimersByTime(1000);
    await sleep(2);
  }
}

const untilAborted: NonNullable<ScriptedEngineOptions["script"]> = () => ({
  pieces: ["a", "b", "c"],
  gate: (chunk) => (chunk < 2 ? Promise.resolve() : new Promise(() => {})),
});

describe("generate", () => {
  test("streams the chunks that the engine makes, to several loops at once", async () => {
    const { engine, remote } = await scripted();
    const direct = await all(engine.generate({ prompt: "hello", requestId: "r" }));
    expect(await all(remote.generate({ prompt: "hello", requestId: "r" }))).toEqual(direct);
    const prompts = ["one", "two", "three"];
    const answers = await Promise.all(prompts.map((prompt) => all(remote.generate({ prompt }))));
    expect(answers.map((chunks) => chunks.map(({ text }) => text).join(""))).toEqual(prompts);
    expect(remote.model).toEqual(engine.model);
  });

  test("asks nothing before the first next(), and gives every request an id", async () => {
    const { engine, remote } = await scripted();
    const request = { prompt: "a", requestId: undefined } as unknown as GenerationRequest;
    const iterator = remote.generate(request);
    await sleep(5);
    expect(engine.requests).toEqual([]);
    await all(iterator);
    expect(engine.requests).toEqual([
      { prompt: "a", requestId: expect.stringMatching(/^\w{32}$/) },
    ]);
  });

  test("leaving the loop and aborting the signal end the request there", async () => {
    const { engine, remote } = await scripted({ script: untilAborted });
    for await (const { text } of remote.generate({ prompt: "x", requestId: "left" })) {
      if (text === "b") break;
    }
    await until(() => expect(engine.cutShort).toEqual(["left"]));
    const controller = new AbortController();
    const { signal } = controller;
    const iterator = remote.generate({ prompt: "x", requestId: "aborted", signal });
    await iterator.next();
    await iterator.next();
    const next = reason(iterator.next());
    controller.abort();
    expect(await next).toMatchObject({ name: "AbortError", constructor: DOMException });
    await until(() => expect(engine.cutShort).toEqual(["left", "aborted"]));
    expect(await reason(remote.generate({ prompt: "x", signal }).next())).toMatchObject({
      name: "AbortError",
    });
    expect(engine.requests).toHaveLength(2);
  });

  test("abort() ends requests with a last chunk", async () => {
    const { remote } = await scripted({ script: untilAborted });
    const chunks = all(remote.generate({ prompt: "x", requestId: "r" }));
    await sleep(5);
    remote.abort("r");
    expect((await chunks).at(-1)!.finish).toEqual({ type: "abort", message: "Aborted" });
  });

  test("holds the engine back while the caller takes no chunks", async () => {
    const pieces = Array.from({ length: 4 * CHUNK_WINDOW }, () => "a");
    let made = 0;
    const gate = async (chunk: number) => {
      made = chunk + 1;
    };
    const { remote } = await scripted({ script: () => ({ pieces, gate }) });
    const iterator = remote.generate({ prompt: "x" });
    await iterator.next();
    await sleep(50);
    // What was sent, and the one that the loop asks the engine for next.
    expect(made).toBe(CHUNK_WINDOW);
    const rest = await all(iterator);
    expect(rest).toHaveLength(pieces.length);
  });

  test("rows of embeddings arrive as they were, and stay the caller's", async () => {
    const { engine, remote } = await scripted();
    const matrix = Float32Array.from({ length: 12 }, (_, i) => i / 7);
    const inputEmbeds = [matrix.subarray(0, 4), [1, 2, 3, 4], matrix.subarray(4, 8)];
    await all(remote.generate({ inputEmbeds, sampling: { maxNewTokens: 1 } }));
    const got = engine.requests[0]!.inputEmbeds!;
    expect(got).toEqual(inputEmbeds);
    expect(got[0]).toBeInstanceOf(Float32Array);
    expect((got[0] as Float32Array).buffer.byteLength).toBe(32);
    expect(matrix.length).toBe(12);
  });

  test("refuses what cannot be sent, by name", async () => {
    const { engine, remote } = await scripted();
    const processed = { prompt: "a", logitProcessors: [() => {}] } as GenerationRequest;
    expect(await reason(remote.generate(processed).next())).toMatchObject({
      constructor: UnsupportedError,
      feature: "logitProcessors",
    });
    const tools = [{ type: "function", function: () => {} }];
    const messages = [{ role: "user", content: "a" }];
    expect(await reason(remote.generate({ messages, tools }).next())).toMatchObject({
      constructor: InvalidRequestError,
      field: "tools",
    });
    expect(engine.requests).toEqual([]);
    expect(await all(remote.generate({ prompt: "a" }))).toHaveLength(2);
  });
});

test("errors have their class and fields, and end only their own request", async () => {
  const failures: Readonly<Record<string, Error>> = {
    full: new CapacityError("places in the request queue", 3, "all 3 are taken"),
    field: new InvalidRequestError("Cannot use it", "sampling.seed"),
    lost: new DeviceError("Cannot go on", { cause: new RangeError("deep") }),
  };
  const { remote } = await scripted({
    script: ({ prompt = "" }) =>
      failures[prompt] === undefined ? {} : { failure: { at: 1, error: failures[prompt] } },
  });
  const found = await Promise.all(
    ["full", "field", "lost", "fine"].map((prompt) => reason(all(remote.generate({ prompt })))),
  );
  expect(found.slice(0, 3)).toEqual(Object.values(failures));
  const kinds = [CapacityError, InvalidRequestError, DeviceError, Array];
  expect(found.map((one) => (one as object).constructor)).toEqual(kinds);
  expect(found.slice(0, 2)).toMatchObject([{ limit: 3 }, { field: "sampling.seed" }]);
});

describe("what is asked once", () => {
  test("tokenize, detokenize, flushCache", async () => {
    const { remote } = await scripted();
    expect(await remote.tokenize({ prompt: "hi" })).toEqual([104, 105]);
    expect(await remote.detokenize([104, 1, 105], { skipSpecialTokens: false })).toBe("h\u0001i");
    expect(await remote.flushCache()).toBe(true);
    const tools = [() => {}];
    expect(await reason(remote.tokenize({ prompt: "a", tools }))).toBeInstanceOf(
      InvalidRequestError,
    );
  });

  test("methods that the engine lacks are absent; those it has are there", async () => {
    const { remote } = await scripted();
    expect([remote.profile, remote.cacheTree]).toEqual([undefined, undefined]);
    const engine = new ScriptedEngine() as GenerationEngine & ScriptedEngine;
    const tree = { nodes: 3 };
    engine.cacheTree = async (options) => ({ ...tree, options }) as never;
    const other = await connect(engine);
    expect(await other.remote.cacheTree!({} as never)).toEqual({ ...tree, options: {} });
  });

  test("a profile measures there while its work runs here", async () => {
    const order: string[] = [];
    const engine = new ScriptedEngine() as GenerationEngine & ScriptedEngine;
    engine.profile = async (work, options) => {
      order.push("begin");
      await work();
      order.push("end");
      return { steps: options!.steps } as Profile;
    };
    const { remote } = await connect(engine);
    const work = async () => {
      await all(remote.generate({ prompt: "abc" }));
      order.push("worked");
    };
    expect(await remote.profile!(work, { steps: 7 })).toEqual({ steps: 7 });
    expect(order).toEqual(["begin", "worked", "end"]);
    const mistake = new Error("mine");
    expect(await reason(remote.profile!(() => Promise.reject(mistake), { steps: 1 }))).toBe(
      mistake,
    );
  });

  test("a profile whose caller goes before it begins waits for no work", async () => {
    const engine = new ScriptedEngine() as GenerationEngine & ScriptedEngine;
    const profiled = vi.fn();
    let begin = () => {};
    const prepared = new Promise<void>((resolve) => {
      begin = resolve;
    });
    engine.profile = (work) => prepared.then(work).then(profiled);
    const { remote } = await connect(engine);
    const profile = reason(remote.profile!(async () => {}));
    await remote.close();
    begin();
    await until(() => expect(profiled).toHaveBeenCalled());
    expect(await profile).toBeInstanceOf(WorkerError);
  });
});

describe("status", () => {
  test("is the engine's, soon after each change", async () => {
    const { engine, remote } = await scripted({ script: untilAborted });
    expect(remote.status()).toEqual(engine.status());
    const iterator = remote.generate({ prompt: "x" });
    await iterator.next();
    await iterator.next();
    expect(remote.status().runningRequests).toBe(1);
    await iterator.return!();
    await until(() => expect(remote.status()).toEqual(engine.status()));
  });

  test("tells of changes while there is nothing to do, and counts the time of a stall", async () => {
    const engine = new ScriptedEngine();
    let status = engine.status();
    engine.status = () => status;
    const { remote } = await connect(engine);
    status = { ...status, healthy: false };
    await until(() => expect(remote.status().healthy).toBe(false));
    status = { ...status, runningRequests: 1, stalledFor: 5 };
    await until(() => expect(remote.status().runningRequests).toBe(1));
    expect(remote.status().stalledFor).toBeGreaterThanOrEqual(5);
  });
});

describe("ends", () => {
  test("a port that is gone ends its own requests, and its proxy's with a WorkerError", async () => {
    const engine = new ScriptedEngine({ script: untilAborted });
    const [one, other] = [await connect(engine), await connect(engine)];
    const lost = one.remote.generate({ prompt: "x", requestId: "lost" });
    const kept = other.remote.generate({ prompt: "x", requestId: "kept" });
    for (const iterator of [lost, lost, kept, kept]) await iterator.next();
    const next = reason(lost.next());
    const asked = reason(one.remote.tokenize({ prompt: "x" }));
    one.port2.close();
    expect(await next).toBeInstanceOf(WorkerError);
    await asked;
    await until(() => expect(engine.cutShort).toEqual(["lost"]));
    expect(engine.running).toEqual(["kept"]);
    expect(one.remote.status()).toMatchObject({ healthy: false, runningRequests: 0 });
    expect(await reason(one.remote.tokenize({ prompt: "x" }))).toBeInstanceOf(WorkerError);
    expect(await reason(one.remote.generate({ prompt: "x" }).next())).toBeInstanceOf(WorkerError);
    expect(await other.remote.tokenize({ prompt: "x" })).toEqual([120]);
    await one.remote.close();
  });

  test("close() ends its own requests with a last chunk, and the engine goes on", async () => {
    const engine = new ScriptedEngine({ script: untilAborted });
    const [one, other] = [await connect(engine), await connect(engine)];
    const mine = all(one.remote.generate({ prompt: "x", requestId: "mine" }));
    const theirs = other.remote.generate({ prompt: "x", requestId: "theirs" });
    await theirs.next();
    await Promise.all([one.remote.close(), one.remote.close()]);
    expect((await mine).at(-1)!.finish?.type).toBe("abort");
    expect(engine.running).toEqual(["theirs"]);
    expect(await reason(one.remote.flushCache())).toMatchObject({
      constructor: WorkerError,
      message: "Cannot generate: its connection is closed",
    });
  });

  test("a server that stops tells every caller, also those that come later", async () => {
    const { remote, stop, port2 } = await scripted({ script: untilAborted });
    const iterator = remote.generate({ prompt: "x" });
    await iterator.next();
    await iterator.next();
    const next = reason(iterator.next());
    stop();
    expect(await next).toMatchObject({ message: "Cannot generate: the engine is closed" });
    expect(await reason(RemoteEngine.connect(messagePort(port2)))).toMatchObject({
      message: "Cannot reach the engine: its other end is closed",
    });
  });

  test("another end that says nothing any more is gone, one that is slow is not", async () => {
    const { port1, port2 } = new MessageChannel();
    opened.push(port1, port2);
    const served = messagePort(port1);
    serveEngine(new ScriptedEngine({ script: untilAborted }), served);
    const remote = await RemoteEngine.connect(messagePort(port2));
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      const iterator = remote.generate({ prompt: "x" });
      await iterator.next();
      await iterator.next();
      const next = reason(iterator.next());
      await looks(50);
      expect(remote.status().healthy).toBe(true);
      Object.assign(served, { post: () => {}, onMessage: undefined });
      await looks(15);
      expect(remote.status().healthy).toBe(true);
      await looks(10);
      expect(await next).toMatchObject({
        constructor: WorkerError,
        message: "Cannot generate: the engine does not answer any more",
      });
    } finally {
      vi.useRealTimers();
    }
  });

  test("a caller that says nothing any more has its requests ended, and hears of it", async () => {
    const engine = new ScriptedEngine({ script: untilAborted });
    const { port1, port2 } = new MessageChannel();
    opened.push(port1, port2);
    serveEngine(engine, messagePort(port1));
    const asking = messagePort(port2);
    const remote = await RemoteEngine.connect(asking);
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      const iterator = remote.generate({ prompt: "x", requestId: "r" });
      await iterator.next();
      await iterator.next();
      await looks(50);
      expect(engine.running).toEqual(["r"]);
      const { post } = asking;
      asking.post = () => {};
      await looks(25);
      expect(engine.cutShort).toEqual(["r"]);
      asking.post = post;
      expect(await reason(iterator.next())).toMatchObject({
        message: "Cannot generate: the caller did not answer any more",
      });
      expect(await remote.tokenize({ prompt: "x" })).toEqual([120]);
      await looks(1);
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  test("another version of the library is told so, as its messages may be others", async () => {
    const { port1, port2 } = new MessageChannel();
    opened.push(port1, port2);
    serveEngine(new ScriptedEngine(), messagePort(port1));
    const port = messagePort(port2);
    const post = port.post;
    port.post = () => post([{ type: "open", version: "0.0.9" }]);
    expect(await reason(RemoteEngine.connect(port))).toMatchObject({
      constructor: WorkerError,
      message: expect.stringMatching(/^Cannot reach the engine: .*version 0\.0\.9/),
    });
  });

  test("an attempt to reach an engine can be given up", async () => {
    const { port1, port2 } = new MessageChannel();
    opened.push(port1, port2);
    const signal = AbortSignal.timeout(20);
    expect(await reason(RemoteEngine.connect(messagePort(port2), { signal }))).toMatchObject({
      name: "TimeoutError",
    });
    expect(await reason(RemoteEngine.connect(messagePort(port1), { signal }))).toMatchObject({
      name: "TimeoutError",
    });
  });
});
