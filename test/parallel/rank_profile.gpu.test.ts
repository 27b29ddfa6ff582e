/** Profiles of a group: what every rank launches and exchanges, by one clock. */
import { deserialize, serialize } from "node:v8";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { loadFollower } from "../../src/engine/ranks/follow_steps.ts";
import { asFirsts, meetClocks, offsetOf } from "../../src/engine/ranks/meet_clocks.ts";
import { ledRanks } from "../../src/engine/ranks/rank_leader.ts";
import { UnsupportedError } from "../../src/errors.ts";
import { deviceFactory } from "../../src/node/device/device.ts";
import { profileKernels } from "../../src/node/observe/kernel_profile.ts";
import { localGroup } from "../../src/parallel/local.ts";
import {
  chromeTrace,
  formatProfile,
  type HostSpan,
  type Profile,
  type ProfileOptions,
  type Spans,
} from "../../src/profile.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, smallestCaseOnly } from "../support/devices/gpu.ts";
import { chat, complete, openEngine } from "../support/engines/engine.ts";

const TOKENS = 5;
const sampling = { temperature: 0, maxNewTokens: TOKENS, ignoreEos: true };
const request = { messages: chat("Where does the time go?"), sampling };
const GIVEN = { triesInvariance: false, maxTotalTokens: 256, contextLength: 256 };

interface Opened {
  readonly engine: Engine;
  readonly close: () => Promise<unknown>;
}

/** Ranks that follow orders, as those that are processes do. */
async function openLed(size: number, last: GPUDevice = device): Promise<Opened> {
  const format = { pack: serialize, unpack: deserialize };
  const [first, ...others] = localGroup(size).map((communicator) => ({ communicator, format }));
  const led = ledRanks(first!);
  const following = others.map((link, i) => {
    const own = i === others.length - 1 ? last : device;
    return loadFollower(folderSource(EMBEDDED_MODEL), link, { ...GIVEN, device: own });
  });
  const options = { ...GIVEN, device, ...led.options };
  const engine = await Engine.load(folderSource(EMBEDDED_MODEL), options);
  const done = (await Promise.all(following)).map((follow) => follow());
  const close = async () => {
    await engine.close();
    await led.end();
    await Promise.all(done);
  };
  return { engine, close };
}

async function openLocal(size: number): Promise<Opened> {
  const engine = await openEngine({ ...GIVEN, tensorParallelSize: size });
  return { engine, close: () => engine.close() };
}

async function profiled({ engine }: Opened, options?: ProfileOptions) {
  await engine.flushCache();
  let tokens: readonly number[] = [];
  const profile = await engine.profile(async () => {
    tokens = (await complete(engine, request)).tokens;
  }, options);
  return { profile, tokens };
}

const ranksOf = (profile: Profile): readonly Spans[] => [profile, ...profile.otherRanks!];
type Kernels = Pick<Profile, "kernels">;
/** How often each kernel was launched. */
const launchesOf = ({ kernels }: Kernels) =>
  Object.fromEntries(kernels.map(({ kernel, launches }) => [kernel, launches]));
const ofLayers = (spans: readonly HostSpan[]) => spans.filter(({ name }) => name !== "an order");

afterEach(() => vi.restoreAllMocks());

describe.skipIf(smallestCaseOnly).each([
  ["of one process", true, openLocal],
  ["that follow orders", false, openLed],
] as const)("ranks %s", (_, isLocal, open) => {
  test("show each launch and exchange, and no exchange ends before all have come to it", async () => {
    const opened = await open(4);
    const { profile, tokens } = await profiled(opened);
    expect(tokens).toEqual((await complete(opened.engine, request)).tokens);
    expect(profile.otherRanks!.map(({ rank }) => rank)).toEqual([1, 2, 3]);
    const names = ofLayers(profile.exchanges).map(({ name }) => name);
    expect(names.length).toBeGreaterThanOrEqual(2 * TOKENS);
    let worst = 0;
    for (const { kernels, launches, exchanges, host, clockError } of profile.otherRanks!) {
      expect(launches.length).toBe(profile.launches.length);
      expect(launchesOf({ kernels })).toEqual(launchesOf(profile));
      const took = launches.reduce((sum, { duration }) => sum + duration, 0);
      expect(kernels.reduce((sum, one) => sum + one.microseconds, 0)).toBeCloseTo(took, 3);
      const linear = (of: Kernels) => of.kernels.find(({ kernel }) => kernel === "linear/linear")!;
      expect(linear({ kernels }).boundMicroseconds).toBe(linear(profile).boundMicroseconds);
      expect(ofLayers(exchanges).map(({ name }) => name)).toEqual(names);
      expect(host.map(({ name }) => name)).toContain("submit");
      expect(launches[0]!.start).toBeGreaterThan(-clockError);
      const { start, duration } = ofLayers(exchanges)[0]!;
      expect(launches[0]!.start).toBeLessThan(start + duration);
      expect(clockError).toBeGreaterThanOrEqual(0);
      worst = Math.max(worst, clockError);
      const orders = exchanges.filter(({ name }) => name === "an order");
      // The last is what ends the profile.
      expect(orders).toHaveLength(isLocal ? 0 : TOKENS + 1);
    }
    if (isLocal) expect(worst).toBe(0);
    for (let i = 0; i < names.length; i++) {
      const met = ranksOf(profile).map(({ exchanges }) => ofLayers(exchanges)[i]!);
      const begun = Math.max(...met.map(({ start }) => start));
      const ended = Math.min(...met.map(({ start, duration }) => start + duration));
      expect(ended).toBeGreaterThan(begun - worst);
    }
    const events = chromeTrace(profile).traceEvents;
    expect(new Set(events.map(({ pid }) => pid))).toEqual(new Set([1, 2, 3, 4]));
    expect(await profiled(opened)).toMatchObject({
      tokens,
      profile: { otherRanks: { length: 3 } },
    });
    await opened.close();
  });

  test("measure as many steps as the first, and keep none where only sums are wanted", async () => {
    const opened = await open(2);
    const { profile } = await profiled(opened, { steps: 2 });
    expect(profile.steps).toBe(2);
    const embeddings = ranksOf(profile).map(
      ({ launches }) => launches.filter(({ kernel }) => kernel === "embedding/embedding").length,
    );
    expect(embeddings).toEqual([2, 2]);
    const sums = (await profiled(opened, { spans: false })).profile;
    expect(sums.otherRanks).toMatchObject([{ rank: 1, launches: [], host: [], exchanges: [] }]);
    expect(launchesOf(sums.otherRanks![0]!)).toEqual(launchesOf(sums));
    expect(formatProfile(sums)).toMatch(/^\d+ steps, 2 ranks together; /);
    const queries = vi.spyOn(device, "createQuerySet");
    await complete(opened.engine, request);
    expect(queries).not.toHaveBeenCalled();
    await opened.close();
  });

  test("have a table of all of them once the engine is closed", async () => {
    const opened = await open(2);
    const table = await profileKernels(opened.engine);
    await complete(opened.engine, request);
    await opened.close();
    const lines = (await table()).split("\n");
    expect(lines[0]).toMatch(/^\d+ steps, 2 ranks together; /);
    const { launches } = /^embedding\/embedding +(?<launches>\d+) /m.exec(lines.join("\n"))!
      .groups!;
    expect(Number(launches)).toBe(2 * TOKENS);
  });

  test("work that fails ends the profile on all of them, and another may follow", async () => {
    const opened = await open(2);
    const failed = opened.engine.profile(() => Promise.reject(new Error("the work failed")));
    await expect(failed).rejects.toThrow("the work failed");
    const { profile } = await profiled(opened);
    expect(profile.otherRanks![0]!.launches.length).toBe(profile.launches.length);
    await opened.close();
  });
});

describe.skipIf(smallestCaseOnly)("a rank that follows orders", () => {
  test("whose device takes no times refuses the profile by its number", async () => {
    const blind = await deviceFactory()();
    vi.spyOn(blind, "features", "get").mockReturnValue(new Set() as GPUSupportedFeatures);
    const opened = await openLed(3, blind);
    const refused = opened.engine.profile(async () => {});
    await expect(refused).rejects.toThrow(UnsupportedError);
    await expect(refused).rejects.toThrow("the device of rank 2 does not have");
    // Nothing is left of it on the rank that can.
    expect((await complete(opened.engine, request)).tokens).toHaveLength(TOKENS);
    await opened.close();
    blind.destroy();
  });
});

describe("clocks of ranks", () => {
  /** When exchanges begin and end by a clock that is so many milliseconds behind the first one's. */
  const meeting = (behind: number) => {
    const begun = [100, 110, 120];
    const first = begun.flatMap((time) => [time, time + 3]);
    // It comes 1 ms after the first one, and sees the end 2 ms after it.
    const own = begun.flatMap((time, i) => [time + 1 + i / 10 - behind, time + 5 - behind]);
    return offsetOf(Float64Array.from(own), Float64Array.from(first));
  };

  test.each([0, 4000, -17.5])("%d ms apart are known to what an exchange takes", (behind) => {
    const { ahead, error, at } = meeting(behind);
    expect(Math.abs(ahead - behind)).toBeLessThanOrEqual(error);
    // From the longest way there to the shortest way back.
    expect(error).toBeCloseTo((5 + 1.8) / 2, 9);
    expect(at).toBe(125 - behind);
  });

  test("that drift apart are followed from one meeting to the next", () => {
    const before = { at: 1000, ahead: 50, error: 0 };
    const behind = { at: 3000, ahead: 54, error: 0 };
    const times = [1000, 2000, 3000].map((time) => asFirsts(time, before, behind));
    expect(times).toEqual([1050, 2052, 3054]);
    expect(asFirsts(1000, before, before)).toBe(1050);
  });

  test("of one process are one", async () => {
    const all = await Promise.all(localGroup(3).map(meetClocks));
    for (const rank of all[0]!) {
      expect(Math.abs(rank.ahead)).toBeLessThanOrEqual(rank.error);
      expect(rank.error).toBeLessThan(5);
    }
    expect(all[1]).toEqual(all[0]);
  });
});
