/** Kernels as the package carries them: shortened, and what they were. */
import { expect, test } from "vitest";
import type { KernelCheck } from "../kernels/check.ts";
import { device, fullTest, smallestCaseOnly } from "./support/devices/gpu.ts";
import { runCase } from "./support/devices/kernel_outcome.ts";
import { loadShortKernels } from "./support/devices/short_kernels.ts";

const wholeChecks = import.meta.glob<{ default: KernelCheck<object> }>("../kernels/**/*.check.ts", {
  eager: true,
});
const isLeftOut = smallestCaseOnly && !fullTest;
const shortChecks = isLeftOut ? [] : await loadShortKernels();

/**
 * One of each file that kernels share, in the run that has no time for all, beside those that a
 * device of the null backend cannot compile.
 */
const some = ["attention/gqa_decode", "linear/linear int4", "moe/route", "sampling/sample"];
const checks = Object.values(wholeChecks)
  .map(({ default: check }) => check)
  .filter(({ feature }) => feature === undefined || device.features.has(feature))
  .filter(({ name, storageBuffers }) => fullTest || storageBuffers || some.includes(name));

test.skipIf(isLeftOut).each(checks)("$name is the same when it is shortened", async (check) => {
  const shortened = shortChecks.find(({ name }) => name === check.name)!;
  const run = { shape: check.cases[0]!, tuning: check.tunings[0]! };
  const whole = await runCase(device, check, run);
  const short = await runCase(device, shortened, run);
  expect(short.error, short.where).toBeLessThanOrEqual(check.tolerance);
  expect(short.bits).toEqual(whole.bits);
});
