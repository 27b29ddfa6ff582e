import { expect, test } from "vitest";
import { DeviceError } from "../../src/errors.ts";
import { allocating, deviceDescriptor } from "../../src/gpu/device.ts";
import { device } from "../support/devices/gpu.ts";

/** A device whose memory is used up: what real ones do not do on request. */
function exhausted(): GPUDevice {
  const scopes: GPUErrorFilter[] = [];
  return {
    pushErrorScope: (filter: GPUErrorFilter) => void scopes.push(filter),
    popErrorScope: async () => (scopes.pop() === "out-of-memory" ? { message: "no room" } : null),
  } as unknown as GPUDevice;
}

test("allocating() says what was asked when the device is out of memory", async () => {
  const failing = allocating(exhausted(), "3.00 GiB of weights", () => 1);
  await expect(failing).rejects.toBeInstanceOf(DeviceError);
  await expect(failing).rejects.toThrow(
    "Cannot allocate 3.00 GiB of weights: the device is out of memory (no room)",
  );
});

test("allocating() says what was asked when the device refuses it", async () => {
  const usage = GPUBufferUsage.STORAGE;
  const size = device.limits.maxBufferSize + 4;
  const failing = allocating(device, "a cache", () => device.createBuffer({ size, usage }));
  await expect(failing).rejects.toBeInstanceOf(DeviceError);
  await expect(failing).rejects.toThrow(/^Cannot allocate a cache: /);
});

test("allocating() tells of its own failures only, when another allocates at the same time", async () => {
  const usage = GPUBufferUsage.STORAGE;
  const allocate = (size: number) =>
    allocating(device, `${size} bytes`, () => device.createBuffer({ size, usage }).destroy());
  const tooMany = device.limits.maxBufferSize + 4;
  const sizes = [4, tooMany, 8, 16, tooMany, 32];
  const told = (await Promise.allSettled(sizes.map(allocate))).map((one) =>
    one.status === "rejected" ? (one.reason as Error).message : "allocated",
  );
  const refused = expect.stringMatching(`^Cannot allocate ${tooMany} bytes: `);
  expect(told).toEqual(sizes.map((size) => (size === tooMany ? refused : "allocated")));
});

test("allocating() passes on what the work returns, and what it throws", async () => {
  expect(await allocating(device, "nothing", () => 7)).toBe(7);
  const failing = allocating(device, "nothing", () => {
    throw new RangeError("ours");
  });
  await expect(failing).rejects.toThrow(RangeError);
});

test("deviceDescriptor() asks for no more than the adapter has, nor more than kernels use", () => {
  const adapter = {
    features: new Set(["shader-f16", "depth-clip-control"]),
    limits: {
      maxBufferSize: 2 ** 30,
      maxStorageBufferBindingSize: 2 ** 27,
      maxStorageBuffersPerShaderStage: 48,
      maxComputeWorkgroupStorageSize: 65536,
      maxComputeInvocationsPerWorkgroup: 256,
      maxComputeWorkgroupSizeX: 256,
      maxComputeWorkgroupsPerDimension: 65535,
    },
  } as unknown as GPUAdapter;
  expect(deviceDescriptor(adapter)).toEqual({
    requiredFeatures: ["shader-f16"],
    requiredLimits: {
      maxBufferSize: 2 ** 30,
      maxStorageBufferBindingSize: 2 ** 27,
      maxStorageBuffersPerShaderStage: 10,
      maxComputeWorkgroupStorageSize: 32768,
      maxComputeInvocationsPerWorkgroup: 256,
      maxComputeWorkgroupSizeX: 256,
      maxComputeWorkgroupsPerDimension: 65535,
    },
  });
});
