/**
 * A device that is only described: a model is laid out and its steps are recorded on it as on a real
 * one, and nothing is allocated, compiled or run.
 *
 * @module
 */
import type { PipelineEntry, PipelineRequest } from "../gpu/pipeline_cache.ts";
import { PipelineCache } from "../gpu/pipeline_cache.ts";

/** What of an adapter decides how a model is laid out and launched. */
export interface DeviceDescription {
  /** As WebGPU tells it. */
  readonly vendor: string;
  readonly architecture: string;
  readonly device: string;
  readonly description: string;
  readonly limits: Readonly<Record<DescribedLimit, number>>;
}

/** Those that decide something. */
export const DESCRIBED_LIMITS = [
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
] as const;

type DescribedLimit = (typeof DESCRIBED_LIMITS)[number];

export function descriptionOf({ adapterInfo, limits }: GPUDevice): DeviceDescription {
  const { vendor, architecture, device, description } = adapterInfo;
  const {
    maxStorageBufferBindingSize,
    maxStorageBuffersPerShaderStage,
    maxComputeWorkgroupStorageSize,
  } = limits;
  return {
    vendor,
    architecture,
    device,
    description,
    limits: {
      maxStorageBufferBindingSize,
      maxStorageBuffersPerShaderStage,
      maxComputeWorkgroupStorageSize,
    },
  };
}

/** Bytes between uniforms of launches: nothing depends on it. */
const UNIFORM_ALIGNMENT = 256;

/** Takes every call that laying out and recording make. */
export function describedDevice(
  description: DeviceDescription,
  onCopy: (bytes: number) => void,
): GPUDevice {
  const { limits, ...adapterInfo } = description;
  const pass = { end() {}, setPipeline() {}, setBindGroup() {} };
  const dispatched = { ...pass, dispatchWorkgroups() {}, dispatchWorkgroupsIndirect() {} };
  const encoder = {
    beginComputePass: () => dispatched,
    copyBufferToBuffer: (...[, , , , bytes]: [unknown, unknown, unknown, unknown, number]) =>
      onCopy(bytes),
    clearBuffer() {},
    finish: () => ({}),
  };
  const device: Partial<Record<keyof GPUDevice, unknown>> = {
    adapterInfo,
    features: new Set(),
    limits: {
      ...limits,
      maxBufferSize: limits.maxStorageBufferBindingSize,
      minUniformBufferOffsetAlignment: UNIFORM_ALIGNMENT,
    },
    queue: { writeBuffer() {}, submit() {}, onSubmittedWorkDone: () => Promise.resolve() },
    createBuffer: describedBuffer,
    createBindGroup: () => ({}),
    createCommandEncoder: () => encoder,
  };
  return device as GPUDevice;
}

function describedBuffer({ size, usage, label = "" }: GPUBufferDescriptor): Partial<GPUBuffer> {
  return {
    size,
    usage,
    label,
    mapAsync: () => Promise.resolve(undefined),
    getMappedRange: (_, bytes = size) => new ArrayBuffer(bytes),
    unmap: () => undefined,
    destroy: () => undefined,
  };
}

/** Compiles nothing. */
export class DescribedPipelines extends PipelineCache {
  override get({ kernel }: PipelineRequest): PipelineEntry {
    const layout = {} as GPUBindGroupLayout;
    return { label: kernel, layout, pipeline: {} as GPUComputePipeline };
  }
}
