/**
 * Whatever the way to another device waits for may fail: then the engine takes the next try, and every
 * answer has the bits that it had, or everything ends with the error. No device but the last is left.
 */
import { afterAll, afterEach, beforeAll, describe, expect, onTestFailed, test } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import type { EngineModel } from "../../src/engine/ranks/engine_model.ts";
import { deviceFactory } from "../../src/node/device/device.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { MemoryBlobs } from "../support/engines/memory_blobs.ts";
import { NEVER_FAIL } from "../support/faults/never_fail.ts";
import {
  type AwaitHook,
  type WatchedSources,
  watchedSources,
} from "../support/faults/watched_awaits.ts";
import { until } from "../support/until.ts";

/** Sites of the tries themselves, which are few, and of the loop. */
const OF_RECOVERY = fullTest
  ? /^src\/engine\/(load\/recovery|step\/step_loop)\.ts/
  : /^src\/engine\/load\/recovery\.ts/;
/** Of the others, those of a load, every so manieth is tried. */
const DISTANCE = fullTest ? 1 : 32;
/** What each loss begins, and cannot try again. */
const ENDS: readonly string[] = [
  "engine/step/step_loop.ts: if (model.isRecovering) await this.#recover();",
  "engine/step/step_loop.ts: await model.recover({ isBusy: () => scheduler.hasWork, finding });",
  "engine/load/recovery.ts: this.#current = await this.#replacement(isBusy);",
];
const ENGINES: Readonly<Record<string, () => Partial<LoadOptions>>> = {
  "that stores prefixes": () => ({
    prefixStore: { storage: new MemoryBlobs(), maxWait: 60 },
    pageSize: 4,
  }),
  "of two ranks": () => ({ tensorParallelSize: 2 }),
  "with a model that drafts": () => ({
    draftModel: folderSource(EMBEDDED_MODEL),
    speculation: { algorithm: "STANDALONE", adaptive: "off" },
  }),
};

let sources: WatchedSources;

beforeAll(async () => {
  if (!smallestCaseOnly) sources = await watchedSources();
});
afterEach(() => sources?.setHook(undefined));

const prompt = (seed: number) =>
  Array.from({ length: 9 }, (_, i) => 3 + ((seed * 97 + i * 31) % 500));
const SAMPLING = { maxNewTokens: 10, ignoreEos: true };
const REQUESTS = [
  { tokens: prompt(1), sampling: { ...SAMPLING, temperature: 0 } },
  { tokens: prompt(2), sampling: { ...SAMPLING, temperature: 0.9, seed: 5 } },
];
/** After so many steps the device is lost. */
const STEPS = 2;

/** An engine that loses its device once in a run of its requests, and what is awaited from then on. */
class LosingEngine {
  readonly devices: GPUDevice[] = [];
  readonly #own: () => Partial<LoadOptions>;
  readonly #open = deviceFactory();
  #engine: Engine | undefined;
  #steps = Number.POSITIVE_INFINITY;
  #hook: AwaitHook | undefined;

  constructor(own: () => Partial<LoadOptions>) {
    this.#own = own;
  }

  /** The engine, loaded again where the last one has ended. */
  async #load(): Promise<Engine> {
    if (this.#engine?.status().healthy === false) await this.close();
    this.#engine ??= await sources.modules["engine/engine"].Engine.load(
      folderSource(EMBEDDED_MODEL),
      {
        ...{
          contextLength: 64,
          maxTotalTokens: 512,
          recoveryWaits: [0, 0],
          triesInvariance: false,
        },
        device: async () => this.devices[this.devices.push(await this.#open()) - 1]!,
        onStep: () => {
          if (--this.#steps === 0) this.#lose();
        },
        onRecovery: ({ kind }) => {
          if (kind === "finished") sources.setHook(undefined);
        },
        ...this.#own(),
      } as LoadOptions,
    );
    return this.#engine;
  }

  #lose(): void {
    sources.setHook(this.#hook);
    this.devices.at(-1)!.destroy();
  }

  /** What each request has been answered, or the error that it has ended with. */
  async run(hook?: AwaitHook): Promise<readonly unknown[]> {
    const engine = await this.#load();
    await engine.flushCache();
    this.#hook = hook;
    this.#steps = STEPS;
    const answers = REQUESTS.map(async (request) => {
      const chunks = [];
      for await (const chunk of engine.generate(request)) chunks.push(chunk);
      return chunks.flatMap(({ tokens }) => tokens);
    });
    const settled = await Promise.allSettled(answers);
    await until(() => expect(engine.status().recovering).toBe(false));
    sources.setHook(undefined);
    return settled.map((one) => (one.status === "fulfilled" ? one.value : one.reason));
  }

  get status() {
    const { healthy, recovering, runningRequests, usedTokens } = this.#engine!.status();
    return { healthy, recovering, runningRequests, usedTokens };
  }

  async close(): Promise<void> {
    await this.#engine?.close();
    this.#engine = undefined;
    this.devices.at(-1)?.destroy();
  }

  /** Devices that were opened, and are not destroyed; only the last one may be. */
  async forgotten(): Promise<number> {
    const earlier = this.devices.splice(0, this.devices.length - 1);
    const isLost = (device: GPUDevice) => {
      const soon = new Promise<boolean>((resolve) => setTimeout(resolve, 1000, false));
      return Promise.race([device.lost.then(() => true), soon]);
    };
    return (await Promise.all(earlier.map(isLost))).filter((lost) => !lost).length;
  }
}

const IDLE = { healthy: true, recovering: false, runningRequests: 0, usedTokens: 0 };

const engines = Object.entries(ENGINES).slice(0, fullTest ? undefined : 1);

describe.skipIf(smallestCaseOnly).each(engines)("an engine %s", (_name, own) => {
  let losing: LosingEngine;
  beforeAll(() => {
    losing = new LosingEngine(own);
  });
  afterAll(() => losing.close());

  test("may fail at each await of its way to another device", async () => {
    let tried = "nothing";
    onTestFailed(() => console.log(`Tried: ${tried}`));
    const found = new Map<string, number>();
    const want = await losing.run((site, awaited) => {
      found.set(site, (found.get(site) ?? 0) + 1);
      return awaited;
    });
    expect(want.every((one) => Array.isArray(one))).toBe(true);
    const wrong: unknown[] = [];
    for (const [site, at] of chosenOf(found)) {
      tried = `${site} for the ${at}. time`;
      const error = new RangeError(`what fails is ${tried}`);
      const told = await losing.run(failingAt(site, at, error));
      const ends = ENDS.includes(site.slice("src/".length));
      const right = ends ? told.every((one) => one === error) : isEqual(told, want);
      const status = { ...IDLE, healthy: !ends };
      const forgotten = await losing.forgotten();
      if (!right || forgotten > 0 || !isEqual(losing.status, status)) {
        wrong.push({ tried, told: told.map(String), forgotten, status: losing.status });
      }
    }
    expect(wrong).toEqual([]);
  });
});

const isEqual = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** Each of them at its first time, and those of the way itself at their last time too. */
function* chosenOf(found: ReadonlyMap<string, number>): Generator<readonly [string, number]> {
  const sites = [...found].filter(([site]) => !NEVER_FAIL.includes(site));
  for (const [i, [site, count]] of sites.entries()) {
    const isOwn = OF_RECOVERY.test(site);
    if (isOwn || i % DISTANCE === 0) yield [site, 1];
    if (isOwn && fullTest && count > 1) yield [site, count];
  }
}

/** What would have come is not to be had by any caller: who fails to make it frees it. */
function failingAt(wanted: string, at: number, error: Error): AwaitHook {
  let count = 0;
  return (site, awaited) => {
    if (site !== wanted || ++count !== at) return awaited;
    return Promise.resolve(awaited).then((made) => {
      const { destroy, device } = (made ?? {}) as Partial<EngineModel>;
      if (made instanceof GPUDevice) made.destroy();
      else if (destroy !== undefined) destroy();
      device?.destroy();
      throw error;
    });
  };
}
