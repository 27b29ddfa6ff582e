import { expect, test } from "vitest";
import type { KernelCheck } from "../../../kernels/check.ts";
import { openDefaultDevice } from "../../support/devices/default_device.ts";
import { fullTest } from "../../support/devices/gpu.ts";
import { runCase } from "../../support/devices/kernel_outcome.ts";
import { chat, complete, openEngine } from "../../support/engines/engine.ts";

const MEBI = 2 ** 20;
/** The defaults of https://www.w3.org/TR/webgpu/#limits that an engine can run into. */
const DEFAULT_LIMITS = {
  maxBufferSize: 256 * MEBI,
  maxStorageBufferBindingSize: 128 * MEBI,
  maxStorageBuffersPerShaderStage: 8,
  maxComputeWorkgroupStorageSize: 16384,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupsPerDimension: 65535,
  minStorageBufferOffsetAlignment: 256,
  minUniformBufferOffsetAlignment: 256,
};

const checks = import.meta.glob<{ default: KernelCheck<object> }>(
  "../../../kernels/**/*.check.ts",
  {
    eager: true,
  },
);

const device = await openDefaultDevice();

test("a device of default limits has no more than that", () => {
  expect(device.limits).toMatchObject(DEFAULT_LIMITS);
  for (const feature of ["shader-f16", "subgroups", "timestamp-query"]) {
    expect(device.features.has(feature), feature).toBe(false);
  }
});

test("Engine answers on a device of default limits and no features", async () => {
  const engine = await openEngine({ device, maxTotalTokens: 256, maxRunningRequests: 1 });
  const messages = chat("What is the capital of Japan?");
  const { text } = await complete(engine, { messages, sampling: { temperature: 0 } });
  await engine.close();
  expect(text).toBe("The capital of Japan is Tokyo.");
});

const portable = Object.values(checks)
  .map(({ default: check }) => check)
  .filter(({ feature, storageBuffers }) => feature === undefined && storageBuffers === undefined);

test.runIf(fullTest).each(portable)("$name needs no more than default limits", async (check) => {
  for (const tuning of check.tunings) {
    const { error, where } = await runCase(device, check, { shape: check.cases[0]!, tuning });
    expect(error, `${JSON.stringify(tuning)} ${where}`).toBeLessThanOrEqual(check.tolerance);
  }
});
