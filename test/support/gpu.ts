/**
 * The device that GPU tests share, and short ways to get data onto it and back.
 *
 * `WISP_ADAPTER` chooses the driver; `setup.ts` fails every test that leaves a WebGPU
 * error behind.
 *
 * @module
 */

import { type AdapterDescription, openDevice } from "../../src/node/device.ts";
import { gpuErrors } from "./gpu_errors.ts";

const opened = await openDevice();

export const device: GPUDevice = opened.device;
export const adapter: AdapterDescription = opened.adapter;

gpuErrors.flush = () => device.queue.onSubmittedWorkDone();
device.addEventListener("uncapturederror", (event) => {
  gpuErrors.messages.push(event.error.message);
});
device.lost.then(({ reason, message }) => {
  if (reason !== "destroyed") gpuErrors.messages.push(`device lost: ${message}`);
});

/** True in the fast run on a slow adapter: a suite then runs its smallest case only. */
export const smallestCaseOnly = process.env.WISP_TEST_SMALLEST === "1";

/** True in `npm run test:full`: every case, every tuning. */
export const fullTest = process.env.WISP_TEST_FULL === "1";

/** Numbers in [0, 1), the same for the same seed. (Generator: Mulberry32, T. Ettinger.) */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A storage buffer with these contents, padded with zeros to a multiple of 4 bytes. */
export function upload(data: ArrayBufferView, usage: GPUBufferUsageFlags = 0): GPUBuffer {
  const size = Math.max(4, Math.ceil(data.byteLength / 4) * 4);
  const buffer = device.createBuffer({
    size,
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST | usage,
    mappedAtCreation: true,
  });
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  new Uint8Array(buffer.getMappedRange()).set(bytes);
  buffer.unmap();
  return buffer;
}

/**
 * The contents of a buffer, which needs `COPY_SRC`.
 *
 * @param length Bytes, a multiple of 4; the rest of the buffer when absent.
 * @param of The device it is on, when that is not the shared one.
 */
export async function download(
  buffer: GPUBuffer,
  offset = 0,
  length = buffer.size - offset,
  of = device,
): Promise<ArrayBuffer> {
  const staging = of.createBuffer({
    size: length,
    usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
  });
  const encoder = of.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, offset, staging, 0, length);
  of.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const copy = staging.getMappedRange().slice(0);
  staging.destroy();
  return copy;
}
