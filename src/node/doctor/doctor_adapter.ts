/**
 * What `wisp doctor` tells of the adapter: what it is, what it has, and whether it computes.
 *
 * @module
 */
import { EngineError } from "../../errors.ts";
import { WANTED_LIMITS } from "../../gpu/device.ts";
import type { AdapterPreference } from "../device/adapter_preference.ts";
import { type AdapterDescription, openDevice } from "../device/device.ts";
import { defaultDeviceMemory } from "../device/device_memory.ts";
import { storedTuning } from "../device/tuning_file.ts";

export interface AdapterFindings extends AdapterDescription {
  readonly features: readonly string[];
  /** Of the device that engines open. */
  readonly limits: Readonly<Record<string, number>>;
  /** What an engine takes the device to have, in bytes, unless it is told. */
  readonly assumedMemory: number;
  /** When the kernels were measured on it: ISO 8601. */
  readonly tuned: string | undefined;
}

const COUNT = 64;
const SQUARES = `
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
@compute @workgroup_size(${COUNT}) fn main(@builtin(local_invocation_index) i: u32) {
  numbers[i] = i * i;
}`;

class AdapterFault extends EngineError {
  readonly code = "adapter_fault";
}

/**
 * Opens a device and computes a little on it.
 *
 * @throws {DeviceError} when there is no adapter.
 * @throws {AdapterFault} when it computes wrongly.
 */
export async function examineAdapter(adapter?: AdapterPreference): Promise<AdapterFindings> {
  const { device, adapter: description } = await openDevice(adapter && { adapter });
  try {
    await requireSquares(device, description.name);
    const limits = device.limits as unknown as Readonly<Record<string, number>>;
    return {
      ...description,
      features: [...device.features].sort(),
      limits: Object.fromEntries(Object.keys(WANTED_LIMITS).map((name) => [name, limits[name]!])),
      assumedMemory: defaultDeviceMemory(description),
      tuned: (await storedTuning(device.adapterInfo).catch(() => undefined))?.measured,
    };
  } finally {
    device.destroy();
  }
}

async function requireSquares(device: GPUDevice, name: string): Promise<void> {
  const size = COUNT * Uint32Array.BYTES_PER_ELEMENT;
  const { STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
  const numbers = device.createBuffer({ size, usage: STORAGE | COPY_SRC });
  const result = device.createBuffer({ size, usage: COPY_DST | MAP_READ });
  const module = device.createShaderModule({ code: SQUARES });
  const pipeline = await device.createComputePipelineAsync({
    layout: "auto",
    compute: { module },
  });
  const bindings = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [{ binding: 0, resource: { buffer: numbers } }],
  });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, bindings);
  pass.dispatchWorkgroups(1);
  pass.end();
  encoder.copyBufferToBuffer(numbers, 0, result, 0, size);
  device.queue.submit([encoder.finish()]);
  await result.mapAsync(GPUMapMode.READ);
  const wrong = [...new Uint32Array(result.getMappedRange())].findIndex((n, i) => n !== i * i);
  if (wrong < 0) return;
  throw new AdapterFault(`Cannot compute on ${name}: the square of ${wrong} came out wrong`);
}
