/**
 * A page that runs every kernel's check on the browser's device: the smallest case of each in its
 * first tuning; with `tunings` in the query in every tuning, with `cases` the other cases as well.
 *
 * @module
 */
import type { KernelCheck } from "../../../kernels/check.ts";
import { openDevice } from "../../../src/browser/device.ts";
import { runCase } from "../../support/devices/kernel_outcome.ts";
import { reporting } from "./report.ts";

const checks = import.meta.glob<{ default: KernelCheck<object> }>(
  "../../../kernels/**/*.check.ts",
  { eager: true },
);

/** One case with one tuning. */
export interface CheckedCase {
  readonly kernel: string;
  readonly shape: object;
  readonly tuning: Readonly<Record<string, number>>;
  /** What is wrong; nothing where the answer is as promised. */
  readonly problem?: string;
}

export interface CheckedKernels {
  readonly cases: readonly CheckedCase[];
  /** Checks of kernels that need a feature the device does not have. */
  readonly left: readonly string[];
  readonly features: readonly string[];
  /** WebGPU errors that no scope has caught. */
  readonly errors: readonly string[];
}

/** A case in some tunings, beside its reference and, where it is promised, bit for bit. */
async function checkedCase(
  device: GPUDevice,
  check: KernelCheck<object>,
  { shape, tunings }: { readonly shape: object; readonly tunings: KernelCheck<object>["tunings"] },
): Promise<CheckedCase[]> {
  const found: CheckedCase[] = [];
  let firstBits: string | undefined;
  for (const tuning of tunings) {
    const checked = { kernel: check.name, shape, tuning };
    try {
      const { error, where, bits } = await runCase(device, check, { shape, tuning });
      const words = bits.join();
      firstBits ??= words;
      if (error > check.tolerance) found.push({ ...checked, problem: `${where} (error ${error})` });
      else if (check.exactAcrossTunings && words !== firstBits) {
        found.push({ ...checked, problem: "other bits than the first tuning's" });
      } else found.push(checked);
    } catch (error) {
      found.push({ ...checked, problem: String(error) });
    }
  }
  return found;
}

await reporting(async (): Promise<CheckedKernels> => {
  const device = await openDevice();
  const errors: string[] = [];
  device.addEventListener("uncapturederror", ({ error }) => errors.push(error.message));
  const wanted = new URLSearchParams(location.search);
  const cases: CheckedCase[] = [];
  const left: string[] = [];
  for (const { default: check } of Object.values(checks)) {
    if (check.feature !== undefined && !device.features.has(check.feature)) {
      left.push(check.name);
      continue;
    }
    const [smallest, ...others] = check.cases;
    const first = check.tunings.slice(0, 1);
    const tunings = wanted.has("tunings") ? check.tunings : first;
    cases.push(...(await checkedCase(device, check, { shape: smallest!, tunings })));
    for (const shape of wanted.has("cases") ? others : []) {
      cases.push(...(await checkedCase(device, check, { shape, tunings: first })));
    }
  }
  await device.queue.onSubmittedWorkDone();
  return { cases, left, features: [...device.features], errors };
});
