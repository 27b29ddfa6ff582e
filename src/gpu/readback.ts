/**
 * Small results on their way from the GPU to the host: a ring of mappable buffers, so that a step's
 * result can be read while the next step runs and nothing is allocated per step.
 *
 * @module
 */
import { DeviceError } from "../errors.ts";
import type { Recorder } from "./recorder.ts";
import { finished } from "./submit_poll.ts";
import { type Tensor, whole } from "./tensor.ts";

const MAP_READ_USAGE = 0x1 | 0x8; // MAP_READ | COPY_DST
const MAP_MODE_READ = 0x1;

export class Readback {
  readonly #device: GPUDevice;
  readonly #buffers: GPUBuffer[];
  #next = 0;

  /**
   * @param bytes Largest result, in bytes.
   * @param depth Results that may be on their way at once.
   */
  constructor(device: GPUDevice, bytes: number, depth = 2) {
    const size = Math.max(Math.ceil(bytes / 4) * 4, 4);
    this.#device = device;
    this.#buffers = [];
    try {
      for (let i = 0; i < depth; i++) {
        this.#buffers.push(device.createBuffer({ label: "readback", size, usage: MAP_READ_USAGE }));
      }
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  /**
   * Records a copy of the first `bytes` bytes of `from`. Submit, then call the returned function:
   * it resolves to a copy of the bytes once the GPU has got there.
   *
   * @throws {DeviceError} from the returned function when the device is lost.
   */
  record(recorder: Recorder, from: Tensor, bytes: number): () => Promise<ArrayBuffer> {
    const read = this.#record(recorder, [{ ...from, size: bytes }]);
    return () => read((mapped) => mapped.slice(0, bytes));
  }

  /** The same into memory that is there already: the returned function says where. */
  recordInto(recorder: Recorder, from: Tensor, bytes: number): (into: Uint8Array) => Promise<void> {
    const read = this.#record(recorder, [{ ...from, size: bytes }]);
    return (into) => read((mapped) => into.set(new Uint8Array(mapped, 0, bytes)));
  }

  /**
   * The same of several results, all of each, one behind the other: the returned function shows them to
   * `take`, where they are, and they are gone when that returns.
   */
  recordAll(
    recorder: Recorder,
    results: readonly Tensor[],
  ): (take: (mapped: ArrayBuffer) => void) => Promise<void> {
    return this.#record(recorder, results);
  }

  #record(recorder: Recorder, results: readonly Tensor[]) {
    const buffer = this.#buffers[this.#next]!;
    this.#next = (this.#next + 1) % this.#buffers.length;
    let size = 0;
    for (const from of results) {
      const bytes = Math.ceil(from.size / 4) * 4;
      recorder.copy(from, { ...whole(buffer), offset: size }, bytes);
      size += bytes;
    }
    return async <T>(take: (mapped: ArrayBuffer) => T): Promise<T> => {
      try {
        await finished(this.#device, buffer.mapAsync(MAP_MODE_READ, 0, size));
      } catch (cause) {
        throw new DeviceError(`Cannot read ${size} bytes back: the device is lost`, { cause });
      }
      try {
        return take(buffer.getMappedRange(0, size));
      } finally {
        // Where there is no memory for a copy, later results still come through here.
        buffer.unmap();
      }
    };
  }

  destroy(): void {
    for (const buffer of this.#buffers) buffer.destroy();
  }
}
