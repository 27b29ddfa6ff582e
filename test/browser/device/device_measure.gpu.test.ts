/**
 * What the demo's device page measures, on the embedded model and without a page.
 *
 * @module
 */
import { beforeAll, describe, expect, test } from "vitest";
import { type DeviceReport, median } from "../../../examples/browser/device/device_report.ts";
import {
  fitSettings,
  MEASURE_STEPS,
  type MeasuredEngine,
  type MeasureOptions,
  measureDevice,
} from "../../../examples/browser/device/measure.ts";
import { describeAdapter } from "../../../src/browser/device.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { GenerationChunk } from "../../../src/generation.ts";
import { device, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openEngine } from "../../support/engines/engine.ts";

const settings = { runs: 2, prefillTokens: 40, decodeTokens: 6, batch: 3 };

/** Engines that were loaded, and the last chunk of every answer. */
const engines: Engine[] = [];
const answers: GenerationChunk[] = [];
const closed: MeasuredEngine[] = [];

async function load(): Promise<MeasuredEngine> {
  const engine = await openEngine({ contextLength: 64 });
  const { generate, close } = engine;
  engines.push(engine);
  engine.close = () => {
    closed.push(engine);
    return close.call(engine);
  };
  engine.generate = (request) => {
    const chunks = generate.call(engine, request);
    const next = chunks.next.bind(chunks);
    chunks.next = async () => {
      const result = await next();
      if (!result.done && result.value.finish !== null) answers.push(result.value);
      return result;
    };
    return chunks;
  };
  return engine;
}

const common: MeasureOptions = {
  load,
  adapter: describeAdapter({
    info: device.adapterInfo,
    features: device.features,
    limits: device.limits,
  } as unknown as GPUAdapter),
  userAgent: "a test",
  library: { name: "wisp-llm", version: "1.2.3" },
  settings,
};

const isRate = (value: number) => Number.isFinite(value) && value > 0;

describe("a measurement of this device", () => {
  let report: DeviceReport;
  const steps: string[] = [];

  beforeAll(async () => {
    report = await measureDevice({ ...common, onStep: (step) => steps.push(step) });
  });

  test("runs every step once and leaves no engine behind", () => {
    expect(steps).toEqual(MEASURE_STEPS);
    expect(engines).toHaveLength(2);
    expect(closed).toEqual(engines);
  });

  test("times the tokens it says, after a run that does not count", () => {
    const [prefill, decode, together] = report.speeds;
    expect(prefill).toMatchObject({ phase: "prefill", batch: 1 });
    expect(decode).toMatchObject({ phase: "decode", batch: 1 });
    expect(together).toMatchObject({ phase: "decode", batch: 3 });
    expect(prefill!.runs.map(({ tokens }) => tokens)).toEqual([40, 40]);
    expect(decode!.runs.map(({ tokens }) => tokens)).toEqual([5, 5]);
    expect(together!.runs.map(({ tokens }) => tokens)).toEqual([15, 15]);
    const lengths = answers
      .slice(1)
      .map(({ promptTokens, completionTokens, cachedTokens }) => [
        ...[promptTokens, completionTokens, cachedTokens],
      ]);
    // Each speed has one run more; then the kernels of a prefill and of a decode.
    expect(lengths).toEqual([
      ...Array.from({ length: 3 }, () => [40, 1, 0]),
      ...Array.from({ length: 3 + 3 * 3 }, () => [16, 6, 0]),
      ...[
        [40, 1, 0],
        [16, 6, 0],
      ],
    ]);
  });

  test("takes the median of rates that are finite and agree with their runs", () => {
    for (const { runs, tokensPerSecond } of report.speeds) {
      const rates = runs.map(({ tokens, seconds }) => tokens / seconds);
      expect(rates.every(isRate)).toBe(true);
      expect(tokensPerSecond).toBeCloseTo((rates[0]! + rates[1]!) / 2, 9);
    }
  });

  test("has the golden answer, the self-test and the times to load", () => {
    expect(report.answer.text).toBe("The capital of Japan is Tokyo.");
    expect(report.answer.isExpected).toBe(true);
    expect(report.selfTest).toEqual(engines[1]!.selfTest);
    for (const { seconds, pipelines, compileSeconds } of Object.values(report.load)) {
      expect([seconds, compileSeconds].every(isRate)).toBe(true);
      expect(pipelines).toBe(engines[0]!.pipelines.length);
    }
    expect(report.model.contextLength).toBe(64);
    expect(report.model.weightBytes).toBe(engines[0]!.memoryPlan.weightBytes);
  });

  test("has every kernel of both phases beside the adapter's rates", () => {
    if (!device.features.has("timestamp-query")) {
      expect(report).toMatchObject({ kernels: null });
      expect(report.whyNoKernels).toContain("timestamp-query");
      return;
    }
    const { rates, grainMicroseconds, phases } = report.kernels!;
    expect([rates.copy, rates.fma, grainMicroseconds].every(isRate)).toBe(true);
    expect(phases.map(({ phase }) => phase)).toEqual(["prefill", "decode"]);
    for (const { phase, steps: count, kernels } of phases) {
      expect(count).toBeGreaterThan(0);
      expect(kernels.map(({ microseconds }) => -microseconds)).toEqual(
        kernels.map(({ microseconds }) => -microseconds).sort((a, b) => a - b),
      );
      expect(kernels.every(({ launches, bytes }) => launches > 0 && bytes > 0)).toBe(true);
      const names = kernels.map(({ kernel }) => kernel);
      expect(names.includes("attention/mla_decode"), phase).toBe(phase === "decode");
    }
  });

  test("is JSON that reads back as it was", () => {
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
    expect(report).toMatchObject({ schema: "wisp-device-report", version: 1, userAgent: "a test" });
    expect(Math.abs(Date.now() - Date.parse(report.date))).toBeLessThan(600_000);
  });
});

const CANCELLED = [
  { at: "load again", loads: 1 },
  { at: "decode together", loads: 2 },
];

test.each(smallestCaseOnly ? CANCELLED.slice(0, 1) : CANCELLED)(
  "a measurement cancelled at $at ends and closes its engine",
  async ({ at, loads }) => {
    const count = engines.length;
    const controller = new AbortController();
    const onStep = (step: string) => {
      if (step !== at) return;
      // Later, so that requests run: their engine says that they are aborted.
      if (loads === 2) setTimeout(() => controller.abort(), 1);
      else controller.abort();
    };
    const cancelled = measureDevice({ ...common, signal: controller.signal, onStep });
    await expect(cancelled).rejects.toMatchObject({ name: "AbortError" });
    expect(engines.length).toBe(count + loads);
    expect(closed).toEqual(engines);
  },
);

test("settings fit the context, and are counts", () => {
  expect(fitSettings({}, 128)).toEqual({
    ...{ runs: 5, prefillTokens: 127, decodeTokens: 64, batch: 8 },
  });
  expect(() => fitSettings({ runs: 0 }, 128)).toThrow("runs must be a whole number of at least 1");
  expect(() => fitSettings({ decodeTokens: 1 }, 128)).toThrow("decodeTokens must be");
});

test("a median is the middle value, or between the two in the middle", () => {
  expect(median([9, 1, 10])).toBe(9);
  expect(median([9, 1, 10, 2])).toBe(5.5);
  expect(() => median([])).toThrow(RangeError);
});
