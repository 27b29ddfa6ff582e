import { expect, test, vi } from "vitest";
import type { TimedLaunch } from "../../src/gpu/launch_timer.ts";
import { ProfileCollector } from "../../src/gpu/profile_collector.ts";

const RATES = { copy: 1e9, fma: 1e10 };

/** A launch at so many microseconds of the GPU's clock, which began long before. */
function launch(kernel: string, begin: number, microseconds: number, cost = {}): TimedLaunch {
  const at = (time: number) => 10n ** 18n + BigInt(time) * 1000n;
  return {
    kernel,
    part: "layer 0",
    grid: [1, 1, 1],
    cost: { bytes: 0, flops: 0, ...cost },
    begin: at(begin),
    end: at(begin + microseconds),
  };
}

/** A collector that begins at 5 seconds of the host's clock. */
function setUp(options: { readonly spans?: boolean } = {}): ProfileCollector {
  vi.spyOn(performance, "now").mockReturnValue(5000);
  const collector = new ProfileCollector({ rates: RATES, spans: true, ...options });
  vi.restoreAllMocks();
  return collector;
}

test("no launch begins before it was submitted, and one on an idle GPU begins right then", () => {
  const collector = setUp();
  // The first waits 3 ms for what is not measured, the second runs at once, the third waits.
  const times = { submitted: 5001, returned: 5002 };
  collector.submit({ ...times, launches: [launch("a", 4000, 10)] });
  collector.submit({ submitted: 5010, returned: 5011, launches: [launch("a", 10_000, 10)] });
  collector.submit({ submitted: 5012, returned: 5013, launches: [launch("a", 14_000, 10)] });
  const { launches, host } = collector.profile(3);
  expect(launches.map(({ start }) => start)).toEqual([4000, 10_000, 14_000]);
  expect(host).toEqual([
    { name: "submit", start: 1000, duration: 1000 },
    { name: "submit", start: 10_000, duration: 1000 },
    { name: "submit", start: 12_000, duration: 1000 },
  ]);
});

test("the bound of each launch is that of what it has more of", () => {
  const collector = setUp();
  const launches = [
    launch("a", 0, 30, { bytes: 20_000, flops: 10_000 }), // 20 us of bytes
    launch("b", 40, 100),
    launch("a", 150, 30, { bytes: 1000, flops: 50_000 }), // 5 us of operations
  ];
  collector.submit({ submitted: 5000, returned: 5000, launches });
  expect(collector.profile(1).kernels).toEqual([
    {
      ...{ kernel: "b", launches: 1, microseconds: 100 },
      ...{ bytes: 0, flops: 0, boundMicroseconds: 0 },
    },
    {
      ...{ kernel: "a", launches: 2, microseconds: 60 },
      ...{ bytes: 21_000, flops: 60_000, boundMicroseconds: expect.closeTo(25, 9) },
    },
  ]);
});

test("what the host does is in order of its beginning, as a viewer nests it", () => {
  const collector = setUp();
  collector.host("detokenize", 5002, 5003);
  collector.host("commit", 5001, 5004);
  expect(collector.profile(0).host.map(({ name }) => name)).toEqual(["commit", "detokenize"]);
});

test("spans beyond those that are kept are counted, and in the sums", () => {
  const collector = setUp();
  const launches = Array.from({ length: 1000 }, (_, i) => launch("a", 2 * i, 1));
  for (let i = 0; i < 201; i++) collector.submit({ submitted: 5000, returned: 5000, launches });
  const profile = collector.profile(201);
  expect(profile.launches).toHaveLength(200_000);
  expect(profile.omittedSpans).toBe(1000);
  expect(profile.kernels[0]!.launches).toBe(201_000);
});
