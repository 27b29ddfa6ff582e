import { describe, expect, test } from "vitest";
import type { KernelCheck } from "../kernels/check.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { device, fullTest, seeded, smallestCaseOnly } from "./support/gpu.ts";
import {
  compareTensors,
  destroyTensors,
  type KernelOutcome,
  uploadArrays,
} from "./support/kernel_outcome.ts";

const checks = import.meta.glob<{ default: KernelCheck<object> }>("../kernels/**/*.check.ts", {
  eager: true,
});

/** Runs one case and measures how far its outputs are from the reference. */
async function run(
  check: KernelCheck<object>,
  shape: object,
  tuning: Readonly<Record<string, number>>,
  rewrite?: (kernel: string, code: string) => string,
): Promise<KernelOutcome> {
  const inputs = check.inputs(shape, seeded(1));
  const want = check.reference(shape, inputs);
  const tensors = uploadArrays(inputs, want);
  const recorder = new Recorder(device, { maxLaunches: 64, ...(rewrite && { rewrite }) });
  const record = check.bind(recorder, shape, tensors, tuning);
  await recorder.pipelines.ready();
  device.pushErrorScope("validation");
  record();
  recorder.submit();
  const outcome = await compareTensors(want, tensors);
  const invalid = await device.popErrorScope();
  if (invalid !== null) throw new Error(invalid.message);
  destroyTensors(tensors);
  recorder.destroy();
  return outcome;
}

for (const { default: check } of Object.values(checks)) {
  describe(check.name, () => {
    // The slow driver runs the smallest case only, as the long campaign runs every mutant there too.
    const cases = smallestCaseOnly ? check.cases.slice(0, 1) : check.cases;
    cases.forEach((shape, c) => {
      const tunings = fullTest || c === 0 ? check.tunings : check.tunings.slice(0, 1);
      test(`matches its reference: ${JSON.stringify(shape)}`, async () => {
        let first: KernelOutcome | undefined;
        for (const tuning of tunings) {
          const outcome = await run(check, shape, tuning);
          expect(outcome.error, `${JSON.stringify(tuning)} ${outcome.where}`).toBeLessThanOrEqual(
            check.tolerance,
          );
          first ??= outcome;
          if (check.exactAcrossTunings) expect(outcome.bits).toEqual(first.bits);
        }
      });
    });

    const mutants = smallestCaseOnly ? [] : check.mutants;
    for (const mutant of mutants) {
      test(`catches: ${mutant.name}`, async () => {
        let planted = false;
        const rewrite = (_: string, code: string) => {
          planted ||= code.includes(mutant.replace);
          return code.replaceAll(mutant.replace, () => mutant.with);
        };
        const shape = check.cases[mutant.case ?? 0]!;
        const { error } = await run(check, shape, check.tunings[mutant.tuning ?? 0]!, rewrite);
        expect(planted, "the text to replace is not there").toBe(true);
        expect(error, "the fault went unnoticed").toBeGreaterThan(check.tolerance);
      });
    }
  });
}
