import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine, LocalRequest } from "../../src/engine/engine.ts";
import type { RecoveryEvent } from "../../src/engine/engine_options.ts";
import type { LoadOptions } from "../../src/engine/load.ts";
import { DeviceError } from "../../src/errors.ts";
import { deviceFactory, openDevice } from "../../src/node/device.ts";
import { chat, complete, openEngine } from "../support/engine.ts";

const prompt = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * 31) % 2000));
const LONG = { maxNewTokens: 16, ignoreEos: true };
const STORY: LocalRequest = {
  messages: chat("Tell me a story."),
  sampling: { ...LONG, maxNewTokens: 500 },
};

/** Whatever an answer can depend on: several fill the cache, so that some are retracted. */
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

/** An engine whose devices can be lost at will: at the end of so many steps, or at once. */
async function openLosing(options: Partial<LoadOptions> = {}) {
  const devices: GPUDevice[] = [];
  const events: RecoveryEvent[] = [];
  const open = deviceFactory();
  const losing = {
    devices,
    events,
    /** Steps until the device is lost, one entry for each. */
    after: [] as number[],
    lose: () => devices.at(-1)!.destroy(),
  };
  const engine = await openEngine({
    device: async () => {
      devices.push(await open());
      return devices.at(-1)!;
    },
    onRecovery: (event) => events.push(event),
    onStep: () => {
      losing.after[0]! -= 1;
      if (losing.after[0] !== 0) return;
      losing.after.shift();
      losing.lose();
    },
    ...options,
  });
  return { ...losing, engine, losing };
}

const answers = async (engine: Engine) =>
  (await Promise.all(REQUESTS.map((request) => complete(engine, request)))).map(
    ({ text, tokens, last }) => ({ text, tokens, finish: last.finish, last: last.logprobs }),
  );

describe("a device that is lost and can be replaced", () => {
  let opened: Awaited<ReturnType<typeof openLosing>>;
  let want: Awaited<ReturnType<typeof answers>>;
  beforeAll(async () => {
    opened = await openLosing({ pageSize: 4, maxTotalTokens: 256, maxRunningRequests: 4 });
    want = await answers(opened.engine);
  });
  afterAll(() => opened.engine.close());

  test("changes no answer", async () => {
    const { engine, losing, events } = opened;
    losing.after = [6];
    expect(await answers(engine)).toEqual(want);
    expect(events.map(({ kind }) => kind)).toContain("finished");
    expect(engine.status()).toMatchObject({
      healthy: true,
      recovering: false,
      recoveries: 1,
      usedTokens: 0,
    });
  });
});

test("a lost device ends running and later requests with a DeviceError when it is the only one", async () => {
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
});
