/**
 * What is asked of an adapter when a device is opened, the same on every platform.
 *
 * @module
 */

/**
 * Limits that are asked for above the WebGPU defaults, each up to what the adapter has and up to
 * the number given here. The caps are what the kernels may use at most: asking for more would only
 * hide a kernel that other adapters cannot run.
 */
const LIMIT_CAPS = {
  maxBufferSize: Number.POSITIVE_INFINITY,
  maxStorageBufferBindingSize: Number.POSITIVE_INFINITY,
  maxStorageBuffersPerShaderStage: 10,
  maxComputeWorkgroupStorageSize: 32768,
  maxComputeInvocationsPerWorkgroup: 1024,
  maxComputeWorkgroupSizeX: 1024,
  maxComputeWorkgroupSizeY: 1024,
  maxComputeWorkgroupSizeZ: 64,
} as const;

/** Features that variants of kernels use where an adapter has them. No kernel needs one. */
const WANTED_FEATURES: readonly GPUFeatureName[] = ["shader-f16", "subgroups", "timestamp-query"];

/** The descriptor that opens a device with all the limits and features this library can use. */
export function deviceRequest(adapter: GPUAdapter): GPUDeviceDescriptor {
  const requiredLimits: Record<string, number> = {};
  for (const [name, cap] of Object.entries(LIMIT_CAPS)) {
    requiredLimits[name] = Math.min(adapter.limits[name as keyof typeof LIMIT_CAPS], cap);
  }
  const requiredFeatures = WANTED_FEATURES.filter((name) => adapter.features.has(name));
  return { label: "wisp", requiredFeatures, requiredLimits };
}
