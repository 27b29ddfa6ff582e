/** An engine that sleeps while no request comes, over scripted ones: who wakes it, and who meanwhile leaves. */
import { afterEach, describe, expect, test, vi } from "vitest";
import type { GenerationRequest } from "../../../src/generation.ts";
import { Logger } from "../../../src/node/observe/logger.ts";
import { RestartingEngine } from "../../../src/node/ranks/restarting_engine.ts";
import { Restarts } from "../../../src/node/ranks/restarts.ts";
import { SleepingEngine } from "../../../src/node/serve/sleeping_engine.ts";
import { ReplicatedEngine } from "../../../src/parallel/replicas/replicated_engine.ts";
import { createApp } from "../../../src/server/app.ts";
import { type Script, ScriptedEngine } from "../../support/engines/scripted_engine.ts";

afterEach(() => {
  vi.useRealTimers();
});

interface Load {
  readonly succeed: () => void;
  readonly fail: (error: Error) => void;
}

/** One that sleeps after ten seconds, whose loads the test ends. */
function setUp(script: (request: GenerationRequest) => Script = () => ({ pieces: ["a", "b"] })) {
  vi.useFakeTimers();
  const engines = [new ScriptedEngine({ script, maxQueuedRequests: 1 })];
  const closed: number[] = [];
  const loads: Load[] = [];
  const told: string[] = [];
  const started = (engine: ScriptedEngine, number: number) =>
    Object.assign(engine, {
      close: async () => void closed.push(number),
      freeDevice: () => told.push(`freed ${number}`),
    });
  const engine = new SleepingEngine(started(engines[0]!, 0), {
    idleSeconds: 10,
    load: () =>
      new Promise((resolve, reject) => {
        const succeed = () => {
          engines.push(new ScriptedEngine({ script }));
          resolve(started(engines.at(-1)!, engines.length - 1));
        };
        loads.push({ succeed, fail: reject });
      }),
    onSleep: () => told.push("sleeps"),
    onWake: () => told.push("wakes"),
    onFailure: (error) => told.push(`fails: ${(error as Error).message}`),
  });
  const pass = (seconds: number) => vi.advanceTimersByTimeAsync(1000 * seconds);
  return { engine, engines, closed, loads, told, pass };
}

async function textOf(engine: SleepingEngine, request: GenerationRequest = { prompt: "Hi" }) {
  let text = "";
  let finish = "";
  for await (const chunk of engine.generate(request)) {
    text += chunk.text;
    finish = chunk.finish?.type ?? "";
  }
  return `${text} ${finish}`;
}

describe("an engine without requests", () => {
  test("sleeps after its time, and the next request wakes it", async () => {
    const { engine, engines, closed, loads, told, pass } = setUp();
    await pass(6);
    expect(await textOf(engine)).toBe("ab stop");
    await pass(9);
    expect(engine.status().sleep).toBeUndefined();
    await pass(2);
    expect(engine.status()).toMatchObject({
      sleep: "asleep",
      healthy: true,
      weightBytes: 0,
      cacheBytes: 0,
    });
    expect([closed, told]).toEqual([[0], ["sleeps", "freed 0"]]);
    const answer = textOf(engine);
    await pass(0);
    expect(engine.status()).toMatchObject({ sleep: "waking", queuedRequests: 1 });
    loads[0]!.succeed();
    expect(await answer).toBe("ab stop");
    expect(engine.status().sleep).toBeUndefined();
    expect(engines[1]!.requests).toHaveLength(1);
    expect(told.at(-1)).toBe("wakes");
    await pass(11);
    expect(closed).toEqual([0, 1]);
  });

  test("has replicas that have nothing on their devices", async () => {
    vi.useFakeTimers();
    const load = async () => new ReplicatedEngine([new ScriptedEngine(), new ScriptedEngine()]);
    const engine = new SleepingEngine(await load(), { idleSeconds: 10, load });
    const awake = engine.status().replicas!;
    expect(awake.map(({ weightBytes }) => weightBytes)).toEqual([2 ** 30, 2 ** 30]);
    await vi.advanceTimersByTimeAsync(11_000);
    const asleep = engine.status().replicas!;
    expect(asleep).toMatchObject(
      [0, 1].map(() => ({ sleep: "asleep", healthy: true, weightBytes: 0, cacheBytes: 0 })),
    );
    expect(asleep.map(({ totalTokens }) => totalTokens)).toEqual([65536, 65536]);
    await engine.close();
  });

  test("counts experts where the engine that it wakes does", async () => {
    expect(setUp().engine.recordExperts).toBeUndefined();
    const nothing = { passes: 0, logicalCount: [], balancedness: null, records: [], placement: [] };
    const record = { mode: "stat", isRecording: true, ...nothing } as const;
    const counting = Object.assign(new ScriptedEngine(), {
      recordExperts: async () => record,
      close: async () => {},
    });
    const engine = new SleepingEngine(counting, { idleSeconds: 10, load: async () => counting });
    expect(await engine.recordExperts!("start")).toBe(record);
    const log = new Logger({ stderr: { write: () => true }, level: "info", format: "json" });
    const restarts = new Restarts(false, log);
    const restarting = await RestartingEngine.start({ log, restarts, start: async () => counting });
    expect(await restarting.recordExperts("start")).toBe(record);
  });

  test("does not sleep while it answers, tokenizes or is measured", async () => {
    let release = () => {};
    const gate = () => new Promise<void>((resolve) => (release = resolve));
    const { engine, closed, pass } = setUp(() => ({ pieces: ["a"], gate }));
    const answer = textOf(engine);
    await pass(60);
    expect(closed).toEqual([]);
    release();
    await pass(0);
    release();
    expect(await answer).toBe("a stop");
    await pass(11);
    expect(closed).toEqual([0]);
  });

  test("is not woken, nor kept awake, by those who only look", async () => {
    const { engine, loads, closed, pass } = setUp();
    const app = createApp(engine);
    await pass(5);
    expect((await app.request("/health_generate")).status).toBe(200);
    await pass(6);
    expect(closed).toEqual([0]);
    for (const path of ["/health", "/health_generate", "/get_server_info", "/v1/models"]) {
      expect((await app.request(path)).status, path).toBe(200);
    }
    expect((await app.request("/health")).headers.get("x-engine-state")).toBe("asleep");
    expect(await engine.flushCache()).toBe(true);
    expect(loads).toEqual([]);
  });
});

describe("requests that wake it", () => {
  /** Asleep. */
  async function asleep(script?: (request: GenerationRequest) => Script) {
    const parts = setUp(script);
    await parts.pass(11);
    return parts;
  }

  test("share one load, however many they are, and tokenize wakes it too", async () => {
    const { engine, engines, loads, pass } = await asleep();
    const answers = Promise.all([textOf(engine), textOf(engine), engine.tokenize({ prompt: "x" })]);
    await pass(0);
    expect(loads).toHaveLength(1);
    loads[0]!.succeed();
    expect(await answers).toEqual(["ab stop", "ab stop", [120]]);
    expect(engines[1]!.requests).toHaveLength(2);
  });

  test("are refused beyond the queue's places", async () => {
    const { engine, loads, pass } = await asleep();
    const answers = Array.from({ length: 33 }, () => textOf(engine));
    await pass(0);
    await expect(textOf(engine)).rejects.toThrow("all 1 are taken");
    loads[0]!.succeed();
    expect(new Set(await Promise.all(answers))).toEqual(new Set(["ab stop"]));
  });

  test("end by abort, by their signal and by leaving; the load goes on, and then it sleeps", async () => {
    const { engine, engines, closed, loads, pass } = await asleep();
    const aborted = textOf(engine, { prompt: "Hi", requestId: "one" });
    const other = textOf(engine, { prompt: "Hi", requestId: "two" });
    const signals = new AbortController();
    const request = { prompt: "Hi", signal: signals.signal };
    const signalled = expect(textOf(engine, request)).rejects.toMatchObject({ name: "AbortError" });
    const leaving = engine.generate({ prompt: "Hi" });
    const left = leaving.next();
    await pass(0);
    expect(engine.status().queuedRequests).toBe(4);
    engine.abort("one");
    signals.abort();
    await leaving.return!();
    expect(await aborted).toBe(" abort");
    await signalled;
    expect(await left).toEqual({ done: true, value: undefined });
    expect(engine.status().queuedRequests).toBe(1);
    engine.abort();
    expect(await other).toBe(" abort");
    loads[0]!.succeed();
    await pass(1);
    expect(engines[1]!.requests).toEqual([]);
    await pass(10);
    expect(closed).toEqual([0, 1]);
  });

  test("get an error where the load fails, and the next one tries again", async () => {
    const { engine, loads, told, pass } = await asleep();
    const both = [textOf(engine), textOf(engine)].map((answer) =>
      expect(answer).rejects.toThrow("Cannot load the model again: no room"),
    );
    await pass(0);
    loads[0]!.fail(new Error("no room"));
    await Promise.all(both);
    expect(told.at(-1)).toBe("fails: no room");
    expect(engine.status()).toMatchObject({ healthy: false, sleep: "asleep" });
    const answer = textOf(engine);
    await pass(0);
    loads[1]!.succeed();
    expect(await answer).toBe("ab stop");
    expect(engine.status().healthy).toBe(true);
  });

  test("are ended by a close, which waits for the load and closes what it brings", async () => {
    const { engine, closed, loads, pass } = await asleep();
    const answer = textOf(engine, { prompt: "Hi", requestId: "one" });
    await pass(0);
    const closing = engine.close();
    expect(await answer).toBe(" abort");
    loads[0]!.succeed();
    await closing;
    expect(closed).toEqual([0, 1]);
    await expect(textOf(engine)).rejects.toThrow("the engine is closed");
  });
});
