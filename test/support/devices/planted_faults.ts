/**
 * Faults that are planted in kernels' texts, and that their checks have to notice. Each is a kernel
 * to compile, so they are planted where the record of planted faults does not have the check as it
 * is now, and all of them in the long campaign.
 *
 * @module
 */
import { afterAll, describe, expect, test } from "vitest";
import { FEWEST_LANES } from "../../../kernels/attention/exchange.ts";
import type { KernelCheck, Mutant } from "../../../kernels/check.ts";
import { layoutFor } from "../../../kernels/linear/weights/layout.ts";
import { assembledKernels } from "../../../kernels/print/assembled_kernels.ts";
import { hashOfCheck, readFaultRecord, writeFaultRecord } from "./fault_record.ts";
import { adapter, device, fullTest } from "./gpu.ts";
import { runCase } from "./kernel_outcome.ts";

const hasSubgroups = (layoutFor(device).subgroupSize ?? 0) >= FEWEST_LANES;
const isUpdating = process.env.WISP_UPDATE_PLANTED_FAULTS === "1";

/** The drivers of the record by their names; another adapter is in no record. */
const driver = /llvmpipe/i.test(adapter.name)
  ? "lavapipe"
  : /swiftshader/i.test(adapter.name)
    ? "swiftshader"
    : adapter.name;

/** Files that end in .check.ts, by their paths from the folder of the tests of kernels. */
type Checks = Readonly<Record<string, { readonly default: KernelCheck<object> }>>;

/** Tests of the faults of some kernels. Compiling takes most of the time, so they are in several files. */
export function testPlantedFaults(checks: Checks): void {
  const record = readFaultRecord();
  for (const [path, { default: check }] of Object.entries(checks)) {
    const { name: kernel, feature } = check;
    if (feature !== undefined && !device.features.has(feature)) continue;
    const mutants = check.mutants.filter(({ ofSubgroups }) => ofSubgroups !== true || hasSubgroups);
    const planted = mutants.length;
    const hash = hashOfCheck(path.replace(/^(\.\.\/)+/, ""), textsOf(check, mutants));
    const last = record.find((one) => one.kernel === kernel && one.driver === driver);
    describe(kernel, () => {
      if (last?.hash === hash && !fullTest) {
        test("its faults were planted in it as it is now, and caught", () => {
          expect(last).toEqual({ kernel, driver, hash, caught: planted, planted });
        });
        return;
      }
      let [ran, caught] = [0, 0];
      test.each(mutants)("catches: $name", async (mutant) => {
        ran += 1;
        await expectCaught(check, mutant);
        caught += 1;
      });
      afterAll(() => {
        // A filter by name may leave some out.
        if (isUpdating && ran === planted) {
          writeFaultRecord({ kernel, driver, hash, caught, planted });
        }
      });
    });
  }
}

const shapeOf = (check: KernelCheck<object>, mutant: Mutant) => check.cases[mutant.case ?? 0]!;
const tuningOf = (check: KernelCheck<object>, mutant: Mutant) => check.tunings[mutant.tuning ?? 0]!;

/** Texts of the kernels in which the faults are planted. */
function textsOf(check: KernelCheck<object>, mutants: readonly Mutant[]): readonly string[] {
  const runs = new Map(
    mutants.map((mutant) => [
      `${mutant.case ?? 0} ${mutant.tuning ?? 0}`,
      { shape: shapeOf(check, mutant), tuning: tuningOf(check, mutant) },
    ]),
  );
  return [...runs.values()]
    .flatMap((one) => assembledKernels(check, one, device))
    .map(({ code }) => code);
}

async function expectCaught(check: KernelCheck<object>, mutant: Mutant): Promise<void> {
  let isPlanted = false;
  const rewrite = (_: string, code: string) => {
    isPlanted ||= code.includes(mutant.replace);
    return code.replaceAll(mutant.replace, () => mutant.with);
  };
  const [shape, tuning] = [shapeOf(check, mutant), tuningOf(check, mutant)];
  const { error } = await runCase(device, check, { shape, tuning, rewrite });
  expect(isPlanted, "the text to replace is not there").toBe(true);
  expect(error, "the fault went unnoticed").toBeGreaterThan(check.tolerance);
}
