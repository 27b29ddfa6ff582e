/**
 * A piece of a GPU buffer, as a kernel binds it.
 *
 * @module
 */

/** Bytes `[offset, offset + size)` of a buffer; `offset` is a multiple of 256. */
export interface Tensor {
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly size: number;
}

/** Every byte of `buffer`. */
export function whole(buffer: GPUBuffer): Tensor {
  return { buffer, offset: 0, size: buffer.size };
}

// The values of GPUBufferUsage, which is a global of browsers only.
const COPY_SRC = 0x4;
const COPY_DST = 0x8;
const STORAGE = 0x80;

/** Usage of a tensor of grids, beside those of every tensor. */
export const GRID_USAGE = 0x100; // INDIRECT
/** Words of a launch's grid there: workgroups along x, y and z, and one for nothing. */
export const GRID_WORDS = 4;

/** Usage of every buffer that kernels read or write. */
const STORAGE_USAGE = STORAGE | COPY_SRC | COPY_DST;

/**
 * A new storage tensor of at least `bytes` bytes, zero-filled.
 *
 * @param usage Usages beside those of every tensor.
 */
export function allocateTensor(
  device: GPUDevice,
  bytes: number,
  label: string,
  usage: GPUBufferUsageFlags = 0,
): Tensor {
  const size = Math.max(Math.ceil(bytes / 16) * 16, 16);
  return whole(device.createBuffer({ label, size, usage: STORAGE_USAGE | usage }));
}
