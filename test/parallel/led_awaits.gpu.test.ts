/**
 * Whatever ranks that follow orders wait for may fail, at the load and at a step: then their group ends,
 * every request with an error, and nothing is left on the device.
 */
import { deserialize, serialize } from "node:v8";
import { afterEach, beforeAll, expect, onTestFailed, test, vi } from "vitest";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import type { PlainFormat } from "../../src/engine/ranks/order_channel.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { NEVER_FAIL } from "../support/faults/never_fail.ts";
import {
  type AwaitHook,
  type WatchedSources,
  watchedSources,
} from "../support/faults/watched_awaits.ts";
import { watchBuffers } from "../support/faults/watched_buffers.ts";

/** Sites of the ranks themselves. */
const OF_LED_RANKS = /^src\/engine\/ranks\/(rank_leader|follow_steps|order_channel)\.ts/;
/** Every so manieth is tried. */
const DISTANCE = fullTest ? 1 : 5;
/** Waits for whole models, which free what they have made where they fail; here only the wait would. */
const OF_THE_MODEL = /await load(Alike|Model)\(/;
const FORMAT: PlainFormat = { pack: serialize, unpack: deserialize };
const GIVEN = { device, triesInvariance: false, maxTotalTokens: 256, contextLength: 64 };
/** So long that its order has a second part. */
const PROMPT = Array.from({ length: 40 }, (_, i) => 3 + ((31 * i) % 500));
const BIASES = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [i + 3, -1]));

let sources: WatchedSources;

beforeAll(async () => {
  if (!smallestCaseOnly) sources = await watchedSources();
});
afterEach(() => {
  vi.restoreAllMocks();
  sources?.setHook(undefined);
});

/** Loads two ranks, has them answer, and ends them; what each has come to. */
async function course(hook: AwaitHook): Promise<readonly PromiseSettledResult<unknown>[]> {
  const { modules } = sources;
  const { endOrders, ledRanks } = modules["engine/ranks/rank_leader"];
  const [first, second] = modules["parallel/local"].localGroup(2);
  const own = { communicator: first!, format: FORMAT };
  const link = { communicator: second!, format: FORMAT };
  sources.setHook(hook);
  const lead = async () => {
    const options = { ...GIVEN, ...ledRanks(own) } as LoadOptions;
    const { Engine } = modules["engine/engine"];
    const engine = await Engine.load(folderSource(EMBEDDED_MODEL), options);
    const tokens: number[] = [];
    try {
      const sampling = { maxNewTokens: 12, ignoreEos: true, temperature: 0, logitBias: BIASES };
      for await (const chunk of engine.generate({ tokens: PROMPT, sampling })) {
        tokens.push(...chunk.tokens);
      }
    } finally {
      await engine.close();
    }
    await endOrders(own);
    return tokens;
  };
  const follow = async () => {
    const { loadFollower } = modules["engine/ranks/follow_steps"];
    const run = await loadFollower(folderSource(EMBEDDED_MODEL), link, GIVEN as LoadOptions);
    await run();
  };
  const settled = await Promise.allSettled([lead(), follow()]);
  sources.setHook(undefined);
  return settled;
}

test.skipIf(smallestCaseOnly)("each await of ranks that follow orders may fail", async () => {
  let tried = "nothing";
  onTestFailed(() => console.log(`Tried: ${tried}`));
  const left = watchBuffers(device);
  const found = new Set<string>();
  const whole = await course((site, awaited) => {
    if (OF_LED_RANKS.test(site)) found.add(site);
    return awaited;
  });
  expect(whole.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
  expect(left()).toEqual([]);
  const own = sources.sites.filter((site) => OF_LED_RANKS.test(site));
  expect(own.filter((site) => !found.has(site))).toEqual([]);
  const sites = own.filter((site) => !NEVER_FAIL.includes(site) && !OF_THE_MODEL.test(site));
  const wrong: unknown[] = [];
  for (let i = 0; i < sites.length; i += DISTANCE) {
    tried = sites[i]!;
    const error = new RangeError(`what fails is ${tried}`);
    let isTried = false;
    const told = await course((site, awaited) => {
      if (site !== tried || isTried) return awaited;
      isTried = true;
      return Promise.resolve(awaited).then(() => {
        throw error;
      });
    });
    const reasons = told.map((one) => (one.status === "rejected" ? String(one.reason) : "none"));
    const isTold = reasons.some((reason) => reason.includes(error.message));
    const buffers = left();
    if (!isTold || buffers.length > 0) wrong.push({ tried, reasons, buffers });
  }
  expect(wrong).toEqual([]);
});
