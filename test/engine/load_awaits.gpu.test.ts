/**
 * Whatever a load waits for or allocates may fail: then it ends with the error, and leaves nothing on
 * the device. So does an engine whose end fails.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { LOADS } from "../support/faults/loads.ts";
import {
  type AwaitHook,
  type WatchedSources,
  watchedSources,
} from "../support/faults/watched_awaits.ts";
import { watchBuffers } from "../support/faults/watched_buffers.ts";

/** Every so manieth site is tried. */
const DISTANCE = fullTest ? 1 : 24;
/** Waits for whole models, which free what they have made where they fail; here only the wait would. */
const OF_THE_MODEL: readonly string[] = [
  "src/engine/load/load.ts: return await load(checkpoint, given, communicator);",
  "src/engine/engine.ts: const loaded = await (options.loadRanks ?? loadRanks)(checkpoint, options);",
  "src/engine/ranks/rank_group.ts: return { ...asOne(await allOrCause(loads)), renewGroup: () => group[0]!.renew() };",
];

const COMMON = {
  device,
  pageSize: 4,
  contextLength: 128,
  maxTotalTokens: 512,
  triesInvariance: false,
};

let sources: WatchedSources;

beforeAll(async () => {
  if (!smallestCaseOnly) sources = await watchedSources();
});
afterEach(() => {
  sources?.setHook(undefined);
  sources?.setAllocationHook(undefined);
});

describe.skipIf(smallestCaseOnly).each(Object.entries(LOADS))("with %s", (_name, own) => {
  let left: () => string[];
  beforeAll(async () => {
    const { device: given = device } = (await own()).options;
    left = watchBuffers(typeof given === "function" ? await given(0) : given);
  });

  afterAll(() => vi.restoreAllMocks());

  /** Loads an engine and closes it, while awaits and allocations are watched. */
  async function load(watch: () => void): Promise<void> {
    const { Engine } = sources.modules["engine/engine"];
    const { source = folderSource(EMBEDDED_MODEL), options } = await own();
    const given = { ...COMMON, ...options } as LoadOptions;
    watch();
    try {
      const engine = await Engine.load(source, given);
      await engine.close();
    } finally {
      sources.setHook(undefined);
      sources.setAllocationHook(undefined);
    }
  }

  /** Has each of some sites fail, each at its first time. */
  async function failEach(sites: readonly string[], watch: (site: string, error: Error) => void) {
    const wrong: unknown[] = [];
    for (let i = 0; i < sites.length; i += DISTANCE) {
      const tried = sites[i]!;
      const error = new RangeError(`what fails is ${tried}`);
      const outcome = await load(() => watch(tried, error)).catch((thrown: unknown) => thrown);
      // A storage that does not answer is one without prefixes.
      const isStorage = tried.startsWith("src/cache/prefix_store.ts");
      const told = causesOf(outcome);
      const isTold = told.includes(error.message) || (isStorage && outcome === undefined);
      const buffers = left();
      if (!isTold || buffers.length > 0) wrong.push({ tried, told, buffers });
    }
    expect(wrong).toEqual([]);
  }

  test("each await of its load and end may fail", async () => {
    const found = new Set<string>();
    await load(() =>
      sources.setHook((site, awaited) => {
        found.add(site);
        return awaited;
      }),
    );
    expect(left()).toEqual([]);
    expect(found.size).toBeGreaterThan(40);
    const sites = [...found].filter((site) => !OF_THE_MODEL.includes(site));
    await failEach(sites, (wanted, error) => sources.setHook(failingOnce(wanted, error)));
  });

  test("each allocation of its load may fail", async () => {
    const found = new Set<string>();
    await load(() => sources.setAllocationHook((site) => found.add(site)));
    expect(found.size).toBeGreaterThan(40);
    await failEach([...found], (wanted, error) => {
      let isTried = false;
      sources.setAllocationHook((site) => {
        if (site !== wanted || isTried) return;
        isTried = true;
        throw error;
      });
    });
  });
});

function failingOnce(wanted: string, error: Error): AwaitHook {
  let isTried = false;
  return (site, awaited) => {
    if (site !== wanted || isTried) return awaited;
    isTried = true;
    return Promise.resolve(awaited).then(() => {
      throw error;
    });
  };
}

/** What an error says, and what made it. */
function causesOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined && causesOf(error.cause);
  return cause ? `${error}: ${cause}` : String(error);
}
