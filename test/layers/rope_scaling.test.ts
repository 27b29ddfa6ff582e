import { describe, expect, test } from "vitest";
import {
  inverseFrequencies,
  type RopeScaling,
  ropeMagnitude,
  type YarnScaling,
} from "../../src/layers/attention/rope_scaling.ts";
import { ropeTable } from "../../src/layers/attention/rope_table.ts";

const DIM = 64;
const THETA = 10000;

function frequencies(scaling: RopeScaling | undefined, positions: number, theta = THETA): number[] {
  return [...inverseFrequencies({ theta, dim: DIM, scaling, positions })];
}

/** Plain speeds through logarithms, not powers. */
function plain(theta = THETA): number[] {
  return Array.from({ length: DIM / 2 }, (_, i) => Math.exp((-2 * i * Math.log(theta)) / DIM));
}

function close(actual: readonly number[], expected: readonly number[]): void {
  expect(actual.length).toBe(expected.length);
  actual.forEach((value, i) => {
    expect(Math.abs(value / expected[i]! - 1), `pair ${i}`).toBeLessThan(1.5e-7);
  });
}

describe("inverseFrequencies", () => {
  test("linear divides every speed, at any length", () => {
    const scaling = { type: "linear", factor: 4 } as const;
    for (const positions of [1, 1e6]) {
      close(
        frequencies(scaling, positions),
        plain().map((one) => one / 4),
      );
    }
    // Position 4p of a scaled table is position p of a plain one.
    const scaled = ropeTable({ theta: THETA, dim: DIM, scaling, positions: 41 });
    const unscaled = ropeTable({ theta: THETA, dim: DIM, positions: 11 });
    expect(scaled.subarray(40 * DIM)).toEqual(unscaled.subarray(10 * DIM));
  });

  const dynamic = { type: "dynamic", factor: 2, originalMaxPosition: 4096 } as const;

  test("dynamic leaves a context up to the original alone", () => {
    for (const positions of [16, 4096]) {
      expect(frequencies(dynamic, positions)).toEqual(frequencies(undefined, positions));
    }
  });

  test("dynamic raises theta by the length beyond it", () => {
    // 2 * 16384 / 4096 - (2 - 1) = 7
    close(frequencies(dynamic, 16384), plain(THETA * 7 ** (64 / 62)));
    expect(frequencies(dynamic, 4097)[31]!).toBeLessThan(frequencies(dynamic, 4096)[31]!);
    // The slowest pair turns as if positions were divided by 7, the fastest does not change.
    expect(frequencies(dynamic, 16384)[0]).toBe(1);
    expect(frequencies(dynamic, 16384)[31]! / plain()[31]!).toBeCloseTo(1 / 7, 6);
  });

  const yarn: YarnScaling = {
    type: "yarn",
    factor: 32,
    originalMaxPosition: 4096,
    betaFast: 32,
    betaSlow: 1,
    mscale: 1,
    mscaleAllDim: 0,
  };
  const rampEnd = (turns: number, theta: number) =>
    (DIM / 2) * (Math.log(4096 / (2 * Math.PI * turns)) / Math.log(theta));

  test.each([true, false])("yarn's ramp, with truncate %s", (truncate) => {
    const theta = 150000;
    const [low, high] = [rampEnd(32, theta), rampEnd(1, theta)];
    // Both ends lie between pairs, so that truncation shows.
    expect([Math.floor(low), Math.ceil(high)]).toEqual([8, 18]);
    expect(low).toBeGreaterThan(8.01);
    expect(high).toBeLessThan(17.99);
    const [from, to] = truncate ? [8, 18] : [low, high];
    const expected = plain(theta).map((speed, pair) => {
      if (pair <= from) return speed;
      if (pair >= to) return speed / 32;
      const slowed = (pair - from) / (to - from);
      return speed - speed * slowed * (1 - 1 / 32);
    });
    close(frequencies({ ...yarn, truncate }, 100, theta), expected);
  });

  test("yarn truncates unless it is told not to", () => {
    expect(frequencies(yarn, 1)).toEqual(frequencies({ ...yarn, truncate: true }, 1));
    expect(frequencies(yarn, 1)).not.toEqual(frequencies({ ...yarn, truncate: false }, 1));
  });

  test("llama3 goes by wavelengths", () => {
    const scaling = {
      type: "llama3",
      factor: 8,
      originalMaxPosition: 8192,
      lowFrequencyFactor: 1,
      highFrequencyFactor: 4,
    } as const;
    const expected = plain(500000).map((speed) => {
      const wavelength = (2 * Math.PI) / speed;
      if (wavelength < 8192 / 4) return speed;
      if (wavelength > 8192 / 1) return speed / 8;
      const smooth = (8192 / wavelength - 1) / (4 - 1);
      return (1 - smooth) * (speed / 8) + smooth * speed;
    });
    expect(expected.filter((speed, i) => speed === plain(500000)[i]).length).toBeGreaterThan(5);
    close(frequencies(scaling, 131072, 500000), expected);
    // The ramp is met: some pair lies strictly between its two ends.
    const ratios = expected.map((speed, i) => speed / plain(500000)[i]!);
    expect(ratios.some((ratio) => ratio > 0.13 && ratio < 0.99)).toBe(true);
  });

  const longrope = {
    type: "longrope",
    shortFactors: Array.from({ length: DIM / 2 }, (_, i) => 1 + i / 100),
    longFactors: Array.from({ length: DIM / 2 }, (_, i) => 1 + i * 2),
    originalMaxPosition: 4096,
    attentionFactor: 1.19,
  } as const;

  test.each([
    [4096, "shortFactors"],
    [4097, "longFactors"],
  ] as const)("longrope for %i positions takes the %s", (positions, which) => {
    const expected = plain().map((speed, i) => speed / longrope[which][i]!);
    close(frequencies(longrope, positions), expected);
  });
});

describe("ropeMagnitude", () => {
  const yarn: YarnScaling = {
    type: "yarn",
    factor: 16,
    originalMaxPosition: 1024,
    betaFast: 32,
    betaSlow: 1,
    mscale: 1,
    mscaleAllDim: 0,
  };
  test.each<[string, RopeScaling | undefined, number]>([
    ["none", undefined, 1],
    ["linear", { type: "linear", factor: 4 }, 1],
    ["dynamic", { type: "dynamic", factor: 4, originalMaxPosition: 10 }, 1],
    ["yarn, general", yarn, 1 + Math.log(16) / 10],
    ["yarn that is told", { ...yarn, attentionFactor: 0.75, mscaleAllDim: 1 }, 0.75],
    ["yarn, both mscales equal", { ...yarn, mscale: 0.8, mscaleAllDim: 0.8 }, 1],
    [
      "yarn, both mscales",
      { ...yarn, mscaleAllDim: 0.5 },
      (1 + Math.log(16) / 10) / (1 + Math.log(16) / 20),
    ],
    ["yarn that stretches nothing", { ...yarn, factor: 1 }, 1],
  ])("%s", (_, scaling, expected) => {
    expect(ropeMagnitude(scaling)).toBeCloseTo(expected, 12);
  });

  test("multiplies cosines and sines, at position 0 too", () => {
    const scaling = {
      type: "longrope",
      shortFactors: [1, 1],
      longFactors: [2, 2],
      originalMaxPosition: 2,
      attentionFactor: 1.5,
    } as const;
    const [short, long] = [2, 3].map((positions) =>
      ropeTable({ theta: 100, dim: 4, scaling, positions }),
    );
    expect([...short!.subarray(0, 4)]).toEqual([1.5, 0, 1.5, 0]);
    expect([...long!.subarray(0, 4)]).toEqual([1.5, 0, 1.5, 0]);
    expect(short![5]).toBeCloseTo(1.5 * Math.sin(1), 6);
    expect(long![5]).toBeCloseTo(1.5 * Math.sin(0.5), 6);
    expect(long![6]).toBeCloseTo(1.5 * Math.cos(0.05), 6);
  });
});
