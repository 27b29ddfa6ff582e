/**
 * Short ways to get data onto a device and back. Works in Node and in a page.
 *
 * @module
 */
import { finished } from "../../../src/gpu/submit_poll.ts";

/** A storage buffer with these contents, padded with zeros to a multiple of 4 bytes. */
export function uploadTo(
  device: GPUDevice,
  data: ArrayBufferView,
  usage: GPUBufferUsageFlags = 0,
): GPUBuffer {
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

export interface DownloadOptions {
  /** Bytes to leave out at the beginning, a multiple of 4. Default 0. */
  readonly offset?: number;
  /** Bytes, a multiple of 4. Default: the rest of the buffer. */
  readonly length?: number;
}

/** The contents of a buffer of `device`, which needs `COPY_SRC`. */
export async function downloadFrom(
  device: GPUDevice,
  buffer: GPUBuffer,
  { offset = 0, length = buffer.size - offset }: DownloadOptions = {},
): Promise<ArrayBuffer> {
  const staging = device.createBuffer({
    size: length,
    usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
  });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, offset, staging, 0, length);
  device.queue.submit([encoder.finish()]);
  await finished(device, staging.mapAsync(GPUMapMode.READ));
  const copy = staging.getMappedRange().slice(0);
  staging.destroy();
  return copy;
}
