/**
 * What every kernel's check asks of it: the reference in every tuning, and what a launch costs.
 *
 * @module
 */
import { describe, expect, test } from "vitest";
import type { HostArrays, KernelCheck } from "../../../kernels/check.ts";
import type { LaunchCost, StepArrays } from "../../../src/gpu/launch_cost.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import {
  device,
  firstTuningOnly,
  fullTest,
  smallestCaseOnly,
  subgroupTuningsOnly,
  tunedCasesOnly,
} from "./gpu.ts";
import { type CaseRun, type KernelOutcome, runCase } from "./kernel_outcome.ts";

/** Files that end in .check.ts, by their names. */
type Checks = Readonly<Record<string, { readonly default: KernelCheck<object> }>>;

type Run = Pick<CaseRun<object>, "shape" | "tuning">;

/** Runs one case and adds up what the wrapper says that its launches cost. */
async function run(
  check: KernelCheck<object>,
  options: Run,
): Promise<KernelOutcome & { readonly cost: LaunchCost }> {
  const kernel = check.name.split(" ")[0]!;
  let costOf: (() => LaunchCost) | undefined;
  const onBound = (recorder: Recorder, inputs: HostArrays) => {
    costOf = addCosts(recorder, { kernel, step: stepArrays(inputs, options.shape) });
  };
  const outcome = await runCase(device, check, { ...options, onBound });
  return { ...outcome, cost: costOf!() };
}

/**
 * Adds up what the launches that are recorded from now on cost, those of the kernel that the check
 * is named after; of all where there is no such kernel.
 */
function addCosts(
  recorder: Recorder,
  { kernel, step }: { readonly kernel: string; readonly step: StepArrays },
): () => LaunchCost {
  const costs: { readonly name: string; readonly cost: LaunchCost }[] = [];
  const launch = recorder.launch.bind(recorder);
  recorder.launch = (recorded) => {
    const { name } = recorded.kernel;
    const cost = recorded.kernel.cost(recorded.grid, step);
    expect(cost, `${name} does not say what it costs`).toBeDefined();
    costs.push({ name, cost: cost! });
    launch(recorded);
  };
  return () => {
    const own = costs.filter(({ name }) => name === kernel);
    const counted = (own.length > 0 ? own : costs).map(({ cost }) => cost);
    const sum = (what: keyof LaunchCost) => counted.reduce((total, cost) => total + cost[what], 0);
    return { bytes: sum("bytes"), flops: sum("flops") };
  };
}

/** What a step would tell its kernels. */
function stepArrays({ rows, items }: HostArrays, shape: object): StepArrays {
  const words = (array: HostArrays[string] | undefined) =>
    array instanceof Uint32Array ? array : undefined;
  const rowCount = "rows" in shape && typeof shape.rows === "number" ? shape.rows : 0;
  const all = words(rows) ?? new Uint32Array(4 * rowCount);
  return { rows: all, decodeRows: all.length / 4, items: words(items) ?? new Uint32Array() };
}

/** Where subgroups are wide, only what uses them is run. */
const isAsked = ({ subgroups = 0 }: Readonly<Record<string, number>>) =>
  subgroups > 0 || !subgroupTuningsOnly;

/** Tests of some kernels. Compiling takes most of the time, so they are in several files. */
export function testKernels(checks: Checks): void {
  for (const { default: check } of Object.values(checks)) {
    const { name, feature, tunedCases = [0] } = check;
    if (!check.tunings.some(isAsked) || (tunedCasesOnly && tunedCases.length === 0)) continue;
    const lacks = feature !== undefined && !device.features.has(feature);
    describe.skipIf(lacks)(lacks ? `${name} (no ${feature} here)` : name, () => {
      // The slow driver runs the smallest case only, and all in the long campaign.
      const cases = smallestCaseOnly ? check.cases.slice(0, 1) : check.cases;
      cases.forEach((shape, c) => {
        const isTuned = tunedCases.includes(c);
        if (tunedCasesOnly && !isTuned) return;
        const everyTuning = !firstTuningOnly && (fullTest || isTuned);
        const chosen = everyTuning ? check.tunings : check.tunings.slice(0, 1);
        const tunings = chosen.filter(isAsked);
        if (tunings.length === 0) return;
        test(`matches its reference: ${JSON.stringify(shape)}`, async () => {
          let first: Awaited<ReturnType<typeof run>> | undefined;
          for (const tuning of tunings) {
            const outcome = await run(check, { shape, tuning });
            expect(outcome.error, `${JSON.stringify(tuning)} ${outcome.where}`).toBeLessThanOrEqual(
              check.tolerance,
            );
            first ??= outcome;
            if (check.exactAcrossTunings) expect(outcome.bits).toEqual(first.bits);
          }
          const { bytes, flops } = first!.cost;
          expect(bytes, "bytes that the wrapper tells").toBeCloseTo(check.bytes(shape), 3);
          expect(flops, "operations that the wrapper tells").toBeCloseTo(check.flops(shape), 3);
        });
      });
    });
  }
}
