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
  /** Bytes of one binding. */
  readonly maxBindingBytes: number;
}

/** Takes every call that laying out and recording make. */
export function describedDevice(
  description: DeviceDescription,
  onCopy: (bytes: number) => void,
): GPUDevice {
  const { maxBindingBytes, ...adapterInfo } = description;
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
      maxBufferSize: maxBindingBytes,
      maxStorageBufferBindingSize: maxBindingBytes,
      minUniformBufferOffsetAlignment: 256,
      maxComputeWorkgroupsPerDimension: 65_535,
      maxComputeWorkgroupStorageSize: 32_768,
      maxComputeInvocationsPerWorkgroup: 1024,
      maxComputeWorkgroupSizeX: 1024,
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
