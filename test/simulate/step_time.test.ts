/** How long steps take, term by term, worked out by hand. */
import { expect, test } from "vitest";
import { type AdapterProfile, H200 } from "../../src/simulate/adapter_profile.ts";
import { exchangeSeconds, parseLink, parseRate } from "../../src/simulate/link.ts";
import { stepTime } from "../../src/simulate/step_time.ts";
import type { StepWork } from "../../src/simulate/step_work.ts";

const PROFILE: AdapterProfile = {
  name: "a device",
  adapter: H200.adapter,
  copy: 1e9,
  fma: 1e12,
  launch: 0.01,
  host: { step: 0, launch: 0, readback: 0, readByte: 0 },
  shares: new Map([["", new Map([[1, 0.5]])]]),
};
const LINK = { latency: 0.5, bandwidth: 1e6 };
const NOTHING: StepWork = { rows: 1, launches: [], exchanges: [], submits: 1, readBytes: 0 };
const alone = { profile: PROFILE, link: LINK, ranks: 1, sharing: 1 };

const launch = (kernel: string, work: { bytes?: number; flops?: number; count?: number }) => ({
  ...NOTHING,
  launches: [{ kernel, bytes: 0, flops: 0, count: 1, ...work }],
});

test("a launch takes the longer of its bytes and its operations, by its share, and what every launch takes", () => {
  // 1e8 bytes at 1e9 a second are 0.1 s, at half that rate 0.2 s; 1e10 operations would be 0.02 s.
  const read = stepTime(launch("linear/linear", { bytes: 1e8, flops: 1e10, count: 3 }), alone);
  expect(read.parts).toMatchObject({
    weights: expect.closeTo(0.6),
    launches: expect.closeTo(0.03),
  });
  expect([read.seconds, read.bound]).toEqual([expect.closeTo(0.63), "weights"]);
  // 1e12 operations are a second, at half the rate two.
  const computed = stepTime(launch("linear/linear", { bytes: 1e8, flops: 1e12 }), alone);
  expect([computed.seconds, computed.bound]).toEqual([expect.closeTo(2.01), "arithmetic"]);
  const cached = stepTime(launch("attention/mla/mla_decode", { bytes: 1e8 }), alone);
  expect([cached.parts.cache, cached.bound]).toEqual([expect.closeTo(0.2), "cache"]);
  const short = stepTime(launch("norm/add_norm", { count: 4 }), alone);
  expect([short.seconds, short.bound]).toEqual([expect.closeTo(0.04), "launches"]);
});

test("ranks bring bytes together through the link, after those have come to the host", () => {
  const work = { ...NOTHING, exchanges: [{ kind: "sum", bytes: 1000, count: 2 }] } as const;
  const host = { step: 0, launch: 0, readback: 0.25, readByte: 1e-4 };
  const timed = { ...alone, ranks: 4, profile: { ...PROFILE, host } };
  // Each of two takes half a second and three times 1000 bytes at 1e6 a second.
  const step = stepTime({ ...work, readBytes: 2000 }, timed);
  expect(step.parts.link).toBeCloseTo(2 * 0.503);
  // Two waits of 0.25 s; 2000 bytes come, and 2 times 4000 go.
  expect(step.parts.readbacks).toBeCloseTo(0.5 + 1);
  expect([step.seconds, step.bound]).toEqual([expect.closeTo(1.006 + 1.5), "readbacks"]);
  const { link, readbacks } = stepTime({ ...work, readBytes: 2000 }, { ...timed, ranks: 1 }).parts;
  expect([link, readbacks]).toEqual([0, 0]);
});

test("one rank's host is hidden behind its device, one of several is not", () => {
  const host = { step: 0.1, launch: 0.02, readback: 0, readByte: 0 };
  const timed = { ...alone, profile: { ...PROFILE, host } };
  const work = launch("linear/linear", { bytes: 5e7, count: 2 });
  // 0.2 s and two launches of 0.01 s on the device; 0.1 s and two of 0.02 s on the host.
  expect(stepTime(work, timed).parts.host).toBe(0);
  expect(stepTime(work, { ...timed, ranks: 2 }).parts.host).toBeCloseTo(0.14);
  const short = stepTime(launch("norm/add_norm", {}), timed);
  expect([short.parts.host, short.seconds]).toEqual([expect.closeTo(0.11), expect.closeTo(0.12)]);
});

test("ranks that share an adapter take turns in it and its host, and not in the link", () => {
  const host = { step: 0, launch: 0.02, readback: 0.25, readByte: 0 };
  const exchanges = [{ kind: "gather", bytes: 1000, count: 1 }] as const;
  const work = { ...launch("linear/linear", { bytes: 1e8 }), exchanges };
  const timed = { ...alone, ranks: 4, profile: { ...PROFILE, host } };
  const apart = stepTime(work, timed).parts;
  const shared = stepTime(work, { ...timed, sharing: 4 }).parts;
  for (const part of ["weights", "launches", "host", "readbacks"] as const) {
    expect(shared[part], part).toBeCloseTo(4 * apart[part]);
  }
  expect(shared.link).toBeCloseTo(apart.link);
});

test("kinds of exchanges may have speeds of their own", () => {
  const kinds = { experts: { latency: 0, bandwidth: 2e6 } };
  const seconds = (kind: "experts" | "sum") =>
    exchangeSeconds({ ...LINK, kinds }, { kind, bytes: 1e6, ranks: 3 });
  expect([seconds("experts"), seconds("sum")]).toEqual([1, 2.5]);
});

test("rates are bits or bytes a second", () => {
  expect(["400Gbit", "50GB/s", "100Mbit", "0.5MB/s"].map(parseRate)).toEqual([
    5e10, 5e10, 1.25e7, 5e5,
  ]);
  expect(["400", "Gbit", "-1Gbit", "0Gbit", "400 Gbit", "1TB/s"].map(parseRate)).toEqual(
    Array(6).fill(undefined),
  );
});

test("a link is a rate, or speeds by what is exchanged", () => {
  expect(parseLink("8Gbit", 1e-5)).toEqual({ latency: 1e-5, bandwidth: 1e9 });
  const given = {
    bandwidth: "1GB/s",
    latency: 20,
    sum: { latency: 3 },
    experts: { bandwidth: "2GB/s" },
  };
  expect(parseLink(JSON.stringify(given), 1e-5)).toEqual({
    latency: 2e-5,
    bandwidth: 1e9,
    kinds: {
      sum: { latency: 3e-6, bandwidth: 1e9 },
      experts: { latency: 2e-5, bandwidth: 2e9 },
    },
  });
  expect(parseLink('{"bandwidth": "1GB/s"}', 1e-5)).toMatchObject({ latency: 1e-5, kinds: {} });
});

test.each([
  ["fast", "write a number and Gbit"],
  ["{", "it is no JSON"],
  ["{}", "it has no bandwidth"],
  ['{"bandwidth": 4}', "bandwidth is no rate in quotation marks"],
  ['{"bandwidth": "1Gbit", "latency": -1}', "latency is no number of microseconds"],
  ['{"bandwidth": "1Gbit", "sum": []}', "sum is no object"],
  ['{"bandwidth": "1Gbit", "sum": {"kinds": 1}}', 'sum has "kinds", not bandwidth, latency'],
  ['{"bandwidth": "1Gbit", "logits": {}}', 'it has "logits", not bandwidth, latency, gather'],
  [`{"a":${"[".repeat(200)}`, "100"],
])("refuses the link %s", (text, problem) => {
  expect(() => parseLink(text, 0)).toThrow(problem);
});
