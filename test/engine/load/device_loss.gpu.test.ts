import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { Engine, type LocalRequest } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { DeviceError } from "../../../src/errors.ts";
import { deviceFactory, openDevice } from "../../../src/node/device/device.ts";
import { StepCost } from "../../../src/speculation/step_costs.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { chat, complete, EMBEDDED_MODEL, openEngine } from "../../support/engines/engine.ts";
import {
  type LosingEngine,
  loseWithSteps,
  openLosingEngine,
} from "../../support/engines/losing_engine.ts";
import { until } from "../../support/until.ts";

const prompt = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * 31) % 2000));
const LONG = { maxNewTokens: 16, ignoreEos: true };
const STORY: LocalRequest = {
  messages: chat("Tell me a story."),
  sampling: { maxNewTokens: 500, ignoreEos: true },
};

/** One of each kind that an answer can depend on. */
const REQUESTS: readonly LocalRequest[] = [
  { tokens: prompt(1, 30), sampling: { ...LONG, temperature: 0 }, logprobs: { topCount: 2 } },
  {
    tokens: prompt(2, 40),
    sampling: { ...LONG, temperature: 0.9, topP: 0.95, seed: 5 },
    logprobs: { promptStart: 3, topCount: 1, text: true },
  },
  {
    tokens: prompt(3, 5),
    sampling: { ...LONG, temperature: 1, seed: 6, repetitionPenalty: 1.3, frequencyPenalty: 0.4 },
  },
  {
    messages: chat("Write a person as JSON."),
    sampling: {
      maxNewTokens: 24,
      temperature: 0.7,
      seed: 7,
      jsonSchema: JSON.stringify({
        type: "object",
        properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer" } },
        required: ["name", "age"],
      }),
    },
  },
  {
    tokens: prompt(4, 9),
    sampling: { ...LONG, temperature: 0 },
    logitProcessors: [
      ({ tokens, logits }) => logits.fill(1e6, 40 + tokens.length, 42 + tokens.length),
    ],
  },
];

/** All chunks of an answer as one, whatever they were cut into. */
async function answer(engine: Engine, request: LocalRequest) {
  const chunks = [];
  for await (const chunk of engine.generate(request)) chunks.push(chunk);
  return {
    text: chunks.map(({ text }) => text).join(""),
    tokens: chunks.flatMap(({ tokens }) => tokens),
    logprobs: chunks.flatMap(({ logprobs }) => logprobs ?? []),
    promptLogprobs: chunks.flatMap(({ promptLogprobs }) => promptLogprobs ?? []),
    finish: chunks.at(-1)!.finish,
  };
}

const answers = (engine: Engine) => Promise.all(REQUESTS.map((request) => answer(engine, request)));

/** Waits until the engine replaces its device. */
const untilLost = (engine: Engine) => until(() => expect(engine.status().recovering).toBe(true));

describe("a lost device that a factory replaces", () => {
  let losing: LosingEngine;
  let engine: Engine;
  let want: Awaited<ReturnType<typeof answers>>;
  beforeAll(async () => {
    // Too little for all: some are retracted, to host memory.
    const tight = { pageSize: 4, maxTotalTokens: 128, scheduleConservativeness: 0 };
    // Tokens between two losses give each of them all tries there are.
    const given = { contextLength: 80, retractionMemory: 2 ** 24, recoveryWaits: [0] };
    losing = await openLosingEngine({ ...tight, ...given });
    engine = losing.engine;
    want = await answers(engine);
    expect(engine.status().retractions).toBeGreaterThan(0);
  });
  afterAll(() => engine.close());

  test.each(smallestCaseOnly ? [[[7]]] : [[[1]], [[7, 5]]])(
    "after so many steps changes no bit of an answer: %j",
    async (lossesAfter) => {
      const { recoveries } = engine.status();
      losing.lossesAfter = [...lossesAfter];
      expect(await answers(engine)).toEqual(want);
      expect(losing.lossesAfter).toEqual([]);
      const idle = { healthy: true, recovering: false, runningRequests: 0, usedTokens: 0 };
      const all = recoveries + lossesAfter.length;
      expect(engine.status()).toMatchObject({ ...idle, recoveries: all });
      const kinds = losing.events.map(({ kind }) => kind);
      expect(kinds.slice(2 * recoveries)).toEqual(
        lossesAfter.flatMap(() => ["started", "finished"]),
      );
    },
  );

  test.skipIf(smallestCaseOnly)(
    "lets requests come, wait and leave meanwhile, and ends a profile",
    async () => {
      const leaving = new AbortController();
      const story = { ...STORY, sampling: { ...LONG, maxNewTokens: 32 } };
      const running = engine.generate({ ...story, requestId: "story" });
      let left: Promise<unknown> | undefined;
      const profile = engine.profile(async () => {
        left = answer(engine, { ...story, signal: leaving.signal });
        left.catch(() => {});
        await running.next();
        losing.lose();
        await new Promise(() => {});
      });
      profile.catch(() => {});
      await untilLost(engine);
      await expect(profile).rejects.toThrow("Cannot finish the profile");
      await expect(engine.profile(async () => {})).rejects.toThrow(DeviceError);
      const late = answer(engine, REQUESTS[0]!);
      expect(engine.status()).toMatchObject({ healthy: true, stalledFor: 0 });
      engine.abort("story");
      leaving.abort();
      await expect(left).rejects.toMatchObject({ name: "AbortError" });
      let last = await running.next();
      while (last.value?.finish === null) last = await running.next();
      expect(last.value?.finish).toMatchObject({ type: "abort" });
      expect(engine.status().recovering).toBe(true);
      expect(await late).toEqual(want[0]);
    },
  );

  test.skipIf(smallestCaseOnly)(
    "while no request runs is replaced at once; nothing is cached then",
    async () => {
      const { recoveries } = engine.status();
      expect(engine.status().cachedTokens).toBeGreaterThan(0);
      losing.lose();
      await until(() =>
        expect(engine.status()).toMatchObject({ recoveries: recoveries + 1, cachedTokens: 0 }),
      );
      expect(await answer(engine, REQUESTS[1]!)).toEqual(want[1]);
    },
  );
});

test("a device that is lost with drafts in flight changes no bit of an answer", async () => {
  const requests = smallestCaseOnly ? [...REQUESTS.slice(0, 1), STORY] : [...REQUESTS, STORY];
  const sampling = { ...LONG, maxNewTokens: 24, temperature: 0 };
  const asked = requests.map((one) => (one === STORY ? { ...STORY, sampling } : one));
  const options = { pageSize: 4, maxTotalTokens: 1024, contextLength: 80, recoveryWaits: [0] };
  const plain = await openEngine(options);
  const want = await Promise.all(asked.map((request) => answer(plain, request)));
  await plain.close();

  // As many drafts as pay: each that is right, as it takes next to nothing.
  const cost = (ms: number) => new StepCost([1, 64].map((rows) => ({ rows, ms })));
  const stepCosts = { target: cost(10), entering: cost(0.1), draft: cost(0.1) };
  const speculation = { algorithm: "EAGLE" } as const;
  const losing = await openLosingEngine({ ...options, speculation, stepCosts });
  const { engine } = losing;
  // The first step with drafts, and one behind it that has some again.
  let seen = 0;
  const losesAt = smallestCaseOnly ? [1] : [1, 4];
  loseWithSteps(losing, ({ sequences }) => {
    const verifies = sequences.some(({ phase, queryLength }) => {
      return phase !== "prefill" && queryLength > 1;
    });
    if (verifies) seen += 1;
    return verifies && losesAt.includes(seen);
  });
  expect(await Promise.all(asked.map((request) => answer(engine, request)))).toEqual(want);
  vi.restoreAllMocks();
  const idle = { healthy: true, recovering: false, runningRequests: 0, usedTokens: 0 };
  expect(engine.status()).toMatchObject({ ...idle, recoveries: losesAt.length });
  expect(engine.status().speculation!.acceptedDrafts).toBeGreaterThan(0);
  // One that knows of no loss.
  expect(await answer(engine, asked.at(-1)!)).toEqual(want.at(-1));
  await engine.close();
});

test("a lost device that is the only one ends requests with a DeviceError", async () => {
  const { device } = await openDevice();
  const engine = await openEngine({ device, maxTotalTokens: 4096 });
  const running = engine.generate(STORY);
  for (let i = 0; i < 3; i++) await running.next();
  device.destroy();
  const drain = async () => {
    for await (const _ of running);
  };
  await expect(drain()).rejects.toBeInstanceOf(DeviceError);
  await expect(engine.generate(STORY).next()).rejects.toBeInstanceOf(DeviceError);
  expect(engine.status()).toMatchObject({ healthy: false, recovering: false, runningRequests: 0 });
  await engine.close();
  const reload = openEngine({ device });
  await expect(reload).rejects.toThrow("Cannot load the model: the device is lost");
});

test.skipIf(smallestCaseOnly)("a device is given up when no try gives another", async () => {
  const open = deviceFactory();
  const tries = [
    () => Promise.reject(new Error("no adapter")),
    async () => {
      const device = await open();
      device.destroy();
      return device;
    },
    () => Promise.reject(new Error("still no adapter")),
  ];
  const recoveryWaits = [0, 0, 0.01];
  const { engine, events, lose } = await openLosingEngine({ recoveryWaits }, () =>
    tries.shift()!(),
  );
  const running = complete(engine, STORY);
  lose();
  const message = "Cannot replace a lost device after 3 tries: still no adapter";
  await expect(running).rejects.toThrow(message);
  await expect(engine.generate(STORY).next()).rejects.toBeInstanceOf(DeviceError);
  expect(engine.status()).toMatchObject({ healthy: false, recovering: false, recoveries: 0 });
  expect(events).toEqual([
    { kind: "started", reason: expect.any(String) },
    { kind: "retrying", reason: "no adapter", seconds: 0 },
    { kind: "retrying", reason: expect.stringContaining("the device is lost"), seconds: 0.01 },
    { kind: "failed", reason: message },
  ]);
  await engine.close();
});

test.skipIf(smallestCaseOnly)("close() ends the wait for another device", async () => {
  const { engine, lose } = await openLosingEngine({}, () => new Promise(() => {}));
  const running = complete(engine, STORY);
  lose();
  await untilLost(engine);
  await engine.close();
  expect((await running).last.finish).toMatchObject({ type: "abort" });
  expect(engine.status()).toMatchObject({ healthy: false, recovering: false, recoveries: 0 });
});

test.skipIf(smallestCaseOnly)(
  "requests do not go on where their answers might be others",
  async () => {
    const open = deviceFactory();
    const { engine, lose } = await openLosingEngine({}, async () => {
      const device = await open();
      const create = device.createShaderModule.bind(device);
      device.createShaderModule = ({ code, ...rest }) => {
        const isProbe = rest.label?.includes("probe");
        const fault = isProbe ? code.replaceAll("word & 0x007f007fu", "word & 0x00780078u") : code;
        return create({ ...rest, code: fault });
      };
      return device;
    });
    const running = complete(engine, STORY);
    lose();
    await expect(running).rejects.toThrow(
      /another device than the lost one: the adapter's self-test/,
    );
    await engine.close();

    const source = folderSource(EMBEDDED_MODEL);
    const changed = { ...source };
    const devices: GPUDevice[] = [];
    const options: LoadOptions = {
      device: async () => devices[devices.push(await open()) - 1]!,
      maxTotalTokens: 512,
      triesInvariance: false,
    };
    const other = await Engine.load(changed, options);
    changed.read = async (...range) => {
      const bytes = await source.read(...range);
      if (range[0].endsWith(".safetensors") && range[1] > 100_000) bytes[0]! ^= 1;
      return bytes;
    };
    devices[0]!.destroy();
    await until(() => expect(other.status().healthy).toBe(false));
    await expect(complete(other, STORY)).rejects.toThrow("the checkpoint changed from");
    expect(devices).toHaveLength(2);
    await devices[1]!.lost; // it is of no use
    await other.close();
  },
);

test("recoveryWaits are seconds", async () => {
  await expect(openEngine({ recoveryWaits: [1, -1] })).rejects.toThrow("recoveryWaits");
});
