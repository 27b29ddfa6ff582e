import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { DeviceError, InvalidRequestError, UnsupportedError } from "../../../src/errors.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { tuningFor } from "../../../src/gpu/tuning.ts";
import { chromeTrace, formatProfile, type Profile } from "../../../src/profile.ts";
import { device } from "../../support/devices/gpu.ts";
import { chat, complete, openEngine } from "../../support/engines/engine.ts";
import { until } from "../../support/until.ts";

const TOKENS = 6;
const sampling = { temperature: 0, maxNewTokens: TOKENS, ignoreEos: true };
const request = { messages: chat("Where does the time go?"), sampling };

let engine: Engine;

beforeAll(async () => {
  engine = await openEngine();
});

afterEach(() => vi.restoreAllMocks());

/** The tokens of the request, whose prompt is computed anew. */
async function answer(): Promise<readonly number[]> {
  await engine.flushCache();
  return (await complete(engine, request)).tokens;
}

const total = (profile: Profile, what: "launches" | "microseconds") =>
  profile.kernels.reduce((sum, kernel) => sum + kernel[what], 0);

describe("a profile of an answer", () => {
  let profile: Profile;
  let tokens: readonly number[];
  /** Names of the kernels that were launched, in order. */
  const launched: string[] = [];

  beforeAll(async () => {
    const { launch } = Recorder.prototype;
    vi.spyOn(Recorder.prototype, "launch").mockImplementation(function (this: Recorder, one) {
      // Others measure what the adapter can do.
      if (this.timer !== undefined && !one.kernel.name.startsWith("probe/")) {
        launched.push(one.kernel.name);
      }
      launch.call(this, one);
    });
    profile = await engine.profile(async () => {
      tokens = await answer();
    });
  });

  test("has every launch of every step, replayed ones too", () => {
    // The prompt's step samples the first token.
    expect(profile.steps).toBe(TOKENS);
    expect(profile.launches.map(({ kernel }) => kernel)).toEqual(launched);
    expect(total(profile, "launches")).toBe(launched.length);
    expect(new Set(profile.kernels.map(({ kernel }) => kernel))).toEqual(new Set(launched));
    expect(launched).toContain("attention/mla_decode");
    // Where the output head finds the best token itself, nothing is left to sample.
    const sampled = tuningFor(device.adapterInfo).findsBest === true ? [] : ["sampling"];
    const parts = new Set(profile.launches.map(({ part }) => part));
    expect([...parts]).toEqual(
      expect.arrayContaining(["embedding", "layer 0", "output head", ...sampled]),
    );
  });

  test("changes no token", async () => {
    expect(tokens).toHaveLength(TOKENS);
    expect(await answer()).toEqual(tokens);
  });

  test("says for each kernel what it moved and computed, and the least time for that", () => {
    const { copy, fma } = profile.rates;
    for (const { kernel, bytes, boundMicroseconds } of profile.kernels) {
      expect(bytes, kernel).toBeGreaterThan(0);
      expect(boundMicroseconds, kernel).toBeGreaterThan(0);
    }
    for (const { kernel, boundMicroseconds } of profile.kernels) {
      const launches = profile.launches.filter((one) => one.kernel === kernel);
      const bound = launches.reduce(
        (sum, { bytes, flops }) => sum + Math.max(bytes / copy, flops / fma),
        0,
      );
      expect(boundMicroseconds / (bound * 1e6)).toBeCloseTo(1, 6);
    }
    const attention = profile.launches.filter(({ kernel }) => kernel === "attention/mla_decode");
    // Each token sees one key more.
    const [first, second] = [attention[0]!.bytes, attention.at(-1)!.bytes];
    expect(second).toBeGreaterThan(first);
  });

  test("puts launches behind their submits, in order, within the profile", () => {
    const submits = profile.host.filter(({ name }) => name === "submit");
    expect(submits).toHaveLength(TOKENS);
    let end = 0;
    for (const { start, duration } of profile.launches) {
      expect(start).toBeGreaterThanOrEqual(end - 1);
      end = start + duration;
    }
    expect(profile.launches[0]!.start).toBeGreaterThanOrEqual(submits[0]!.start - 1);
    expect(end).toBeLessThanOrEqual(profile.microseconds);
    expect(total(profile, "microseconds")).toBeLessThanOrEqual(end + 1);
  });

  test("has what the host did, and in what order", () => {
    const names = profile.host.map(({ name }) => name);
    for (const name of [
      "schedule",
      "record",
      "submit",
      "sample readback",
      "commit",
      "detokenize",
    ]) {
      expect(names).toContain(name);
    }
    expect(names.slice(0, 3)).toEqual(["schedule", "record", "submit"]);
    const [record, submit] = ["record", "submit"].map(
      (name) => profile.host.find((span) => span.name === name)!,
    );
    expect(submit!.start).toBeGreaterThanOrEqual(record!.start);
  });

  test("is a table of kernels and a trace", () => {
    const [head, titles, ...lines] = formatProfile(profile).split("\n");
    expect(head).toMatch(/^6 steps; the adapter: copy [\d.]+ GB\/s, fma [\d.]+ GFLOP\/s$/);
    expect(titles).toMatch(/^kernel +launches +us +share +GB\/s +GFLOP\/s +of bound$/);
    expect(lines).toHaveLength(profile.kernels.length + 1);
    expect(lines.at(-1)).toMatch(new RegExp(`^all +${launched.length} +\\d+ +100\\.0 %`));
    const events = chromeTrace(profile).traceEvents.filter(({ ph }) => ph === "X");
    expect(events).toHaveLength(profile.launches.length + profile.host.length);
  });
});

test("as many steps are measured as were asked for, then no more", async () => {
  let isOver = false;
  const profile = await engine.profile(
    async () => {
      await answer();
      isOver = true;
    },
    { steps: 2 },
  );
  expect(profile.steps).toBe(2);
  expect(isOver).toBe(false);
  expect(profile.kernels.map(({ kernel }) => kernel)).toContain("attention/mla_prefill");
  expect(profile.launches.filter(({ kernel }) => kernel === "embedding/embedding")).toHaveLength(2);
  await until(() => expect(isOver).toBe(true));
});

test("steps before the first that is wanted are left out", async () => {
  const { steps } = await engine.profile(answer, { firstStep: 1_000_000 });
  expect(steps).toBe(0);
});

test("without spans there are sums only", async () => {
  const profile = await engine.profile(answer, { spans: false });
  expect(profile).toMatchObject({ launches: [], host: [], omittedSpans: 0, steps: TOKENS });
  expect(total(profile, "launches")).toBeGreaterThan(100);
});

test("nothing is allocated, and no time is asked for, where no profile is taken", async () => {
  await answer();
  const queries = vi.spyOn(device, "createQuerySet");
  const buffers = vi.spyOn(device, "createBuffer");
  const passes = vi.spyOn(GPUCommandEncoder.prototype, "beginComputePass");
  await answer();
  expect(queries).not.toHaveBeenCalled();
  expect(buffers).not.toHaveBeenCalled();
  // A pass for each step, and none with times.
  expect(passes.mock.calls).toEqual(Array.from({ length: TOKENS }, () => []));
});

describe("refuses", () => {
  test("a second profile while one is taken", async () => {
    await engine.profile(async () => {
      const second = engine.profile(async () => {});
      await expect(second).rejects.toThrow(InvalidRequestError);
      await expect(second).rejects.toThrow("one is being taken already");
    });
    await expect(engine.profile(async () => {})).resolves.toMatchObject({ steps: 0, kernels: [] });
  });

  test.each([{ steps: 0 }, { steps: 1.5 }, { firstStep: -1 }])("%j", async (options) => {
    const refused = engine.profile(async () => {}, options);
    await expect(refused).rejects.toThrow(InvalidRequestError);
    await expect(refused).rejects.toThrow(Object.keys(options)[0]!);
  });

  test("work that fails, with its error, and goes on", async () => {
    const failed = engine.profile(() => Promise.reject(new Error("the work failed")));
    await expect(failed).rejects.toThrow("the work failed");
    expect(await answer()).toHaveLength(TOKENS);
  });
});

test("refuses devices that take no times, by the name of the feature they lack", async () => {
  vi.spyOn(device, "features", "get").mockReturnValue(new Set() as GPUSupportedFeatures);
  const refused = engine.profile(async () => {});
  await expect(refused).rejects.toThrow(UnsupportedError);
  await expect(refused).rejects.toThrow("timestamp-query");
});

test("ends when the engine is closed, which takes no more of them", async () => {
  let onStart = () => {};
  const started = new Promise<void>((resolve) => {
    onStart = resolve;
  });
  const profile = engine.profile(() => {
    onStart();
    return new Promise(() => {});
  });
  await started;
  await answer();
  await engine.close();
  expect((await profile).steps).toBe(TOKENS);
  await expect(engine.profile(async () => {})).rejects.toThrow(DeviceError);
});
