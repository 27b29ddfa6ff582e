import { totalmem } from "node:os";
import { expect, test } from "vitest";
import { defaultDeviceMemory } from "../../../src/node/device/device_memory.ts";

const gpu = { driver: "", backend: "Vulkan", isCpu: false } as const;

test.each([
  ["nvidia-h200", 139],
  ["NVIDIA GeForce RTX 4090", 24],
  ["nvidia-geforce-rtx-3080-ti", 12],
  ["nvidia-geforce-rtx-3080", 10],
  ["something-new", 4],
])("defaultDeviceMemory of %s is %i GiB", (name, gib) => {
  expect(defaultDeviceMemory({ ...gpu, name })).toBe(gib * 2 ** 30);
});

test("defaultDeviceMemory of a CPU is half of the machine's memory at most", () => {
  const memory = defaultDeviceMemory({ ...gpu, name: "llvmpipe", isCpu: true });
  expect(memory).toBeGreaterThan(0);
  expect(memory).toBeLessThanOrEqual(totalmem() / 2);
});
