/** Several loads on one device at the same time, as a program with two models begins. */
import { beforeAll, expect, test } from "vitest";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { Engine } from "../../../src/engine/engine.ts";
import { openDevice } from "../../../src/node/device/device.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { device } from "../../support/devices/gpu.ts";
import { complete, EMBEDDED_MODEL, openEngine } from "../../support/engines/engine.ts";

const SMALL = { maxTotalTokens: 512, maxRunningRequests: 2 } as const;
const QUESTION = {
  messages: [{ role: "user", content: "What is the capital of Japan?" }],
  sampling: { temperature: 0 },
} as const;
const STORY = {
  messages: [{ role: "user", content: "Tell me a story." }],
  sampling: { temperature: 0, maxNewTokens: 120, ignoreEos: true },
} as const;

/** What one load, alone on the device, has and answers. */
let alone: Awaited<ReturnType<typeof tokensOf>>;
let story: readonly number[];

beforeAll(async () => {
  const engine = await openEngine(SMALL);
  alone = await tokensOf(engine);
  story = (await complete(engine, STORY)).tokens;
  await engine.close();
});

async function tokensOf(engine: Engine) {
  const { tokens } = await complete(engine, QUESTION);
  const { batchInvariant, failures } = engine.selfTest;
  return { tokens, batchInvariant, failures, pipelines: engine.pipelines.length };
}

/** The embedded model, whose weights cannot be read to their end. */
function brokenSource(): WeightSource {
  const source = folderSource(EMBEDDED_MODEL);
  let reads = 0;
  return {
    ...source,
    read: async (file, offset, length) => {
      if (offset > 100_000 && ++reads > 2) throw new Error("the disk is gone");
      return source.read(file, offset, length);
    },
  };
}

test.each([2, 3])("%i at once answer like one", async (count) => {
  const loads = Array.from({ length: count }, () => openEngine(SMALL));
  const engines = await Promise.all(loads);
  const answers = await Promise.all(engines.map(tokensOf));
  expect(answers).toEqual(engines.map(() => alone));
  for (const engine of engines) await engine.close();
});

test("one that fails beside another leaves it as it is", async () => {
  const [broken, good] = await Promise.allSettled([
    Engine.load(brokenSource(), { device, ...SMALL }),
    openEngine(SMALL),
  ]);
  expect(broken).toMatchObject({ reason: { message: expect.stringContaining("the disk") } });
  const engine = (good as PromiseFulfilledResult<Engine>).value;
  expect(await tokensOf(engine)).toEqual(alone);
  await engine.close();
});

test("beside an engine that runs neither changes the other's answer", async () => {
  const running = await openEngine(SMALL);
  let isLoading = true;
  const stories: (readonly number[])[] = [];
  const writing = (async () => {
    do stories.push((await complete(running, STORY)).tokens);
    while (isLoading);
  })();
  const loaded = await openEngine({ ...SMALL, triesInvariance: true });
  isLoading = false;
  expect(await tokensOf(loaded)).toEqual(alone);
  await loaded.close();
  await writing;
  expect(stories).toEqual(stories.map(() => story));
  await running.close();
});

test.each(["adapter", "weights", "pipelines"] as const)(
  "a device that is lost while two load, at %s, ends both",
  async (phase) => {
    const { device: own } = await openDevice();
    const onProgress = (progress: { readonly phase: string }) => {
      if (progress.phase === phase) own.destroy();
    };
    const loads = await Promise.allSettled([
      openEngine({ ...SMALL, device: own, onProgress }),
      // Whichever comes to the phase first: neither has ended by then.
      openEngine({ ...SMALL, device: own, onProgress }),
    ]);
    const message = expect.stringMatching(/^Cannot load the model: the device is lost/);
    const lost = { status: "rejected", reason: { code: "device_error", message } };
    expect(loads).toMatchObject([lost, lost]);
    // The one beside it, on another device, is there all the same.
    const engine = await openEngine(SMALL);
    expect(await tokensOf(engine)).toEqual(alone);
    await engine.close();
  },
);
