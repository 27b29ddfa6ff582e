/**
 * What an engine allocates on its device, counted by purpose.
 *
 * A model is laid out twice: first with a ledger that only counts, so that a start that cannot
 * succeed fails with figures before anything is allocated; then with the device.
 *
 * @module
 */
import { UnsupportedError } from "../errors.ts";
import { allocateTensor, type Tensor } from "./tensor.ts";

/** What memory is for; the memory plan reports by it. */
export type MemoryPurpose = "weights" | "activations" | "cache";

export interface MemoryLimits {
  readonly maxBufferSize: number;
  readonly maxStorageBufferBindingSize: number;
}

export class DeviceMemory {
  readonly limits: MemoryLimits;
  readonly #device: GPUDevice | undefined;
  readonly #bytes = new Map<MemoryPurpose, number>();
  readonly #tensors = new Map<GPUBuffer, { readonly purpose: MemoryPurpose; bytes: number }>();
  readonly #owned: { destroy(): void }[] = [];

  /** @param device Without one, tensors are counted and nothing is allocated: do not bind them. */
  constructor(limits: MemoryLimits, device?: GPUDevice) {
    this.limits = limits;
    this.#device = device;
  }

  /** Whether tensors are counted alone. */
  get onlyCounts(): boolean {
    return this.#device === undefined;
  }

  /** Bytes one tensor may have. */
  get maxTensorBytes(): number {
    return Math.min(this.limits.maxStorageBufferBindingSize, this.limits.maxBufferSize);
  }

  /**
   * A new storage tensor, zero-filled.
   *
   * @param usage Usages beside those of every tensor.
   * @throws {UnsupportedError} when it is larger than one binding may be.
   */
  allocate(purpose: MemoryPurpose, bytes: number, label: string, usage = 0): Tensor {
    if (bytes > this.maxTensorBytes) {
      throw new UnsupportedError(
        `${label} of ${bytes} bytes`,
        `this adapter binds at most ${this.maxTensorBytes} bytes at once`,
      );
    }
    const tensor =
      this.#device === undefined
        ? { buffer: undefined as unknown as GPUBuffer, offset: 0, size: bytes }
        : allocateTensor(this.#device, bytes, label, usage);
    this.#bytes.set(purpose, this.bytes(purpose) + bytes);
    if (this.#device !== undefined) this.#tensors.set(tensor.buffer, { purpose, bytes });
    return tensor;
  }

  /**
   * Writes host bytes into a tensor; a length that is no multiple of 4 is padded with zeros. Without
   * a device they go nowhere.
   */
  write(tensor: Tensor, byteOffset: number, data: ArrayBufferView<ArrayBuffer>): void {
    if (this.#device === undefined) return;
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const whole = bytes.length - (bytes.length % 4);
    const at = tensor.offset + byteOffset;
    const { queue } = this.#device;
    if (whole > 0) queue.writeBuffer(tensor.buffer, at, bytes, 0, whole);
    if (whole === bytes.length) return;
    const tail = new Uint8Array(4);
    tail.set(bytes.subarray(whole));
    queue.writeBuffer(tensor.buffer, at + whole, tail);
  }

  bytes(purpose: MemoryPurpose): number {
    return this.#bytes.get(purpose) ?? 0;
  }

  /** Frees one tensor before the others; nothing to do the second time, and without a device. */
  free({ buffer }: Tensor): void {
    const tensor = this.#tensors.get(buffer);
    if (tensor === undefined) return;
    this.#tensors.delete(buffer);
    this.#bytes.set(tensor.purpose, this.bytes(tensor.purpose) - tensor.bytes);
    buffer.destroy();
  }

  /** Frees `one` together with the tensors. */
  own<T extends { destroy(): void }>(one: T): T {
    this.#owned.push(one);
    return one;
  }

  /** Frees everything allocated here. */
  destroy(): void {
    for (const buffer of this.#tensors.keys()) buffer.destroy();
    this.#tensors.clear();
    for (const one of this.#owned) one.destroy();
    this.#owned.length = 0;
  }
}
