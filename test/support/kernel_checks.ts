/**
 * What every kernel's check asks of it: the reference in every tuning, what a launch costs, and
 * faults that the check has to notice.
 *
 * @module
 */
import { describe, expect, test } from "vitest";
import { FEWEST_LANES } from "../../kernels/attention/exchange.ts";
import type { HostArrays, KernelCheck } from "../../kernels/check.ts";
import { layoutFor } from "../../kernels/linear/layout.ts";
import type { LaunchCost, StepArrays } from "../../src/gpu/launch_cost.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import { device, fullTest, smallestCaseOnly } from "./gpu.ts";
import { type CaseRun, type KernelOutcome, runCase } from "./kernel_outcome.ts";

const hasSubgroups = (layoutFor(device).subgroupSize ?? 0) >= FEWEST_LANES;

/** Files that end in .check.ts, by their names. */
type Checks = Readonly<Record<string, { readonly default: KernelCheck<object> }>>;

/** Of a check that compiles slowly, in the short campaign. */
const FEW_MUTANTS = 2;

type Run = Pick<CaseRun<object>, "shape" | "tuning" | "rewrite">;

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

/** Tests of some kernels. Compiling takes most of the time, so they are in several files. */
export function testKernels(checks: Checks): void {
  for (const { default: check } of Object.values(checks)) {
    const { name, feature } = check;
    const lacks = feature !== undefined && !device.features.has(feature);
    describe.skipIf(lacks)(lacks ? `${name} (no ${feature} here)` : name, () => {
      // The slow driver runs the smallest case only, as the long campaign runs every mutant there too.
      const cases = smallestCaseOnly ? check.cases.slice(0, 1) : check.cases;
      cases.forEach((shape, c) => {
        const { tunedCases = [0] } = check;
        const everyTuning = fullTest || tunedCases.includes(c);
        const tunings = everyTuning ? check.tunings : check.tunings.slice(0, 1);
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

      const fewer = check.compilesSlowly === true && !fullTest;
      const count = smallestCaseOnly ? 0 : fewer ? FEW_MUTANTS : check.mutants.length;
      for (const mutant of check.mutants.slice(0, count)) {
        const isThere = mutant.ofSubgroups !== true || hasSubgroups;
        test.runIf(isThere)(`catches: ${mutant.name}`, async () => {
          let planted = false;
          const rewrite = (_: string, code: string) => {
            planted ||= code.includes(mutant.replace);
            return code.replaceAll(mutant.replace, () => mutant.with);
          };
          const shape = check.cases[mutant.case ?? 0]!;
          const tuning = check.tunings[mutant.tuning ?? 0]!;
          const { error } = await run(check, { shape, tuning, rewrite });
          expect(planted, "the text to replace is not there").toBe(true);
          expect(error, "the fault went unnoticed").toBeGreaterThan(check.tolerance);
        });
      }
    });
  }
}
