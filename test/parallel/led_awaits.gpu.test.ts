/**
 * Whatever ranks that follow orders wait for may fail, at the load and at a step: then their group ends,
 * every request with an error, and nothing is left on the device.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deserialize, serialize } from "node:v8";
import { afterEach, beforeAll, describe, expect, onTestFailed, test, vi } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import type { PlainFormat } from "../../src/engine/ranks/order_channel.ts";
import type { DeviceSource } from "../../src/gpu/device.ts";
import { deviceFactory } from "../../src/node/device/device.ts";
import { prefixFiles } from "../../src/node/prefix_files.ts";
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
import { llama } from "../support/synthetic/llama.ts";
import { syntheticSource } from "../support/synthetic/source.ts";

/** Sites of the ranks themselves. */
const OF_LED_RANKS =
  /^src\/engine\/ranks\/(rank_leader|led_group|page_leader|follow_steps|order_channel|led_pages|led_times|meet_clocks|followed_pages|page_outcomes|rank_stopwatch)\.ts/;
/** Every so manieth is tried. */
const DISTANCE = fullTest ? 1 : 7;
/** What tells whether a device is lost fails itself never. */
const OF_A_LOSS = /await (lossOf|kindOf)\(/;
/** Pages that do not move are computed again, or end the request that they are of. */
const OF_PAGES = /^src\/engine\/ranks\/(led_pages|followed_pages)\.ts/;
/** A profile that a rank could not measure ends with an error that names the rank. */
const OF_TIMES = /^src\/engine\/ranks\/rank_stopwatch\.ts/;
/** What ranks of attention groups pass, which led_groups.gpu.test.ts has. */
const OF_GROUPS = /stepOfGroups|bringResult|runner\.idle|resultOf|readPart/;
/** Waits for whole models, which free what they have made where they fail; here only the wait would. */
const OF_THE_MODEL = /await load(Again|Alike|First|Model)?\(/;
const FORMAT: PlainFormat = { pack: serialize, unpack: deserialize };
const GIVEN = {
  ...{ triesInvariance: false, maxTotalTokens: 144, contextLength: 144, pageSize: 4 },
  ...{ retractionMemory: 2 ** 24, scheduleConservativeness: 0, recoveryWaits: [0] },
  experts: { redundant: 2, rebalance: { everySteps: 6, minBalancedness: 1 } },
};
/** Two of them, with their answers, do not fit the cache. */
const PROMPT = Array.from({ length: 66 }, (_, i) => 3 + ((31 * i) % 500));
/** So many that the order of a step has a second part. */
const BIASES = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [i + 3, -1]));

let sources: WatchedSources;

beforeAll(async () => {
  if (!smallestCaseOnly) sources = await watchedSources();
});
afterEach(() => {
  vi.restoreAllMocks();
  sources?.setHook(undefined);
});

/** What ranks load, and their devices, each of which a test may lose. */
interface Devices {
  readonly sources: readonly [DeviceSource, DeviceSource];
  /** Default: the embedded model, of which the first rank has all latents. */
  readonly open?: () => WeightSource;
  /** Loses the second rank's; absent where both have one that stays. */
  readonly lose?: () => void;
}

/** Loads two ranks, has them answer, move pages and end; what each has come to. */
async function course(
  hook: AwaitHook,
  { sources: [own, other], lose, open }: Devices,
): Promise<readonly PromiseSettledResult<unknown>[]> {
  const { modules } = sources;
  const { ledRanks } = modules["engine/ranks/rank_leader"];
  const [first, second] = modules["parallel/local"].localGroup(2);
  const link = { communicator: first!, format: FORMAT };
  const folder = await mkdtemp(join(tmpdir(), "wisp-led-"));
  const prefixStore = { storage: prefixFiles(folder), maxWait: 60 };
  const source = open ?? (() => folderSource(EMBEDDED_MODEL));
  const experts = open === undefined ? GIVEN.experts : undefined;
  const given = { ...GIVEN, experts, prefixStore };
  sources.setHook(hook);
  const lead = async () => {
    const led = ledRanks(link);
    const { Engine } = modules["engine/engine"];
    const options = { ...given, device: own, ...led.options } as LoadOptions;
    const engine = await Engine.load(source(), options);
    const answer = async (turn: number) => {
      const sampling = { maxNewTokens: 8, ignoreEos: true, temperature: 0, logitBias: BIASES };
      const tokens = PROMPT.map((token) => token + turn);
      for await (const _ of engine.generate({ tokens, sampling, storePrefix: turn === 0 }));
    };
    const work = async () => {
      await Promise.all([answer(0), answer(1)]);
      await untilStored(engine);
      await engine.flushCache();
      if (lose === undefined) {
        await engine.profile(() => answer(0));
        return;
      }
      lose();
      await answer(0);
    };
    const [worked] = await Promise.allSettled([work()]);
    await engine.close();
    // The others wait for it, where it is a request that has failed.
    const [ended] = await Promise.allSettled([led.end()]);
    for (const one of [worked, ended]) if (one!.status === "rejected") throw one!.reason;
  };
  const follow = async () => {
    const { loadFollower } = modules["engine/ranks/follow_steps"];
    const link = { communicator: second!, format: FORMAT };
    const options = { ...given, device: other } as LoadOptions;
    await (await loadFollower(source(), link, options))();
  };
  const settled = await Promise.allSettled([lead(), follow()]);
  sources.setHook(undefined);
  await rm(folder, { recursive: true });
  return settled;
}

/** Waits for a stored prefix, which may never be there where a wait for it has failed. */
async function untilStored(engine: Engine): Promise<void> {
  for (let turn = 0; turn < 200 && engine.status().prefixStore!.storedTokens === 0; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** What goes wrong where each of these waits fails once: the error is told, and nothing is left. */
async function trySites(sites: readonly string[], devices: () => Promise<Devices>) {
  let tried = "nothing";
  onTestFailed(() => console.log(`Tried: ${tried}`));
  const left = watchBuffers(device);
  const wrong: unknown[] = [];
  for (let i = 0; i < sites.length; i += DISTANCE) {
    tried = sites[i]!;

    const error = new RangeError(`what fails is ${tried}`);
    let isTried = false;
    const told = await course(
      (site, awaited) => {
        if (site !== tried || isTried) return awaited;
        isTried = true;
        return Promise.resolve(awaited).then(() => {
          throw error;
        });
      },
      await devices(),
    );
    const reasons = told.map((one) => (one.status === "rejected" ? String(one.reason) : "none"));
    const isHeard = reasons.some((reason) =>
      OF_TIMES.test(tried) ? reason !== "none" : reason.includes(error.message),
    );
    const isTold = OF_PAGES.test(tried) || isHeard;
    const buffers = left();
    if (!isTold || buffers.length > 0) wrong.push({ tried, reasons, buffers });
  }
  return wrong;
}

async function sitesOf(devices: Devices): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  const whole = await course((site, awaited) => {
    if (OF_LED_RANKS.test(site)) found.add(site);
    return awaited;
  }, devices);
  expect(whole).toEqual(Array(2).fill({ status: "fulfilled", value: undefined }));
  return found;
}

const STAYING: Devices = { sources: [device, device] };
/** Each rank has a head, which the first one gathers. */
const OF_HEADS: Devices = {
  ...STAYING,
  open: () => {
    const sizes = { hidden_size: 256, intermediate_size: 512, vocab_size: 1024, head_dim: 64 };
    const heads = { num_attention_heads: 4, num_key_value_heads: 2, num_hidden_layers: 1 };
    return syntheticSource(llama({ ...sizes, ...heads, tie_word_embeddings: false }), 8);
  },
};
async function leaving(): Promise<Devices> {
  const next = deviceFactory();
  const lost = await next();
  const sources = [deviceFactory(), deviceFactory({}, lost)] as const;
  return { sources, lose: () => lost.destroy() };
}

describe.skipIf(smallestCaseOnly)("each await of ranks that follow orders", () => {
  let found: readonly [
    staying: ReadonlySet<string>,
    ofHeads: ReadonlySet<string>,
    leaving: ReadonlySet<string>,
  ];
  const mayFail = (site: string) =>
    !NEVER_FAIL.includes(site) && !OF_THE_MODEL.test(site) && !OF_A_LOSS.test(site);

  test("is passed", async () => {
    const ofHeads = await sitesOf(OF_HEADS);
    // Another device is as much as two loads: only the long run has it.
    found = [
      await sitesOf(STAYING),
      ofHeads,
      fullTest ? await sitesOf(await leaving()) : new Set(),
    ];
    if (!fullTest) return;
    const own = sources.sites.filter(
      (site) => OF_LED_RANKS.test(site) && !OF_A_LOSS.test(site) && !OF_GROUPS.test(site),
    );
    expect(own.filter((site) => !found.some((sites) => sites.has(site)))).toEqual([]);
  });

  test("may fail", async () => {
    const sites = [...found[0]].filter(mayFail);
    expect(await trySites(sites, async () => STAYING)).toEqual([]);
    const ofHeads = [...found[1]].filter((site) => mayFail(site) && !found[0].has(site));
    expect(ofHeads.length).toBeGreaterThan(0);
    expect(await trySites(ofHeads, async () => OF_HEADS)).toEqual([]);
  });

  test.runIf(fullTest)("may fail while a device is replaced", async () => {
    const sites = [...found[2]].filter((site) => mayFail(site) && !found[0].has(site));
    expect(await trySites(sites, leaving)).toEqual([]);
  });
});
