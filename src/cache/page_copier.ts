/**
 * Copies pages of the KV cache to other pages of it, on the GPU.
 *
 * WebGPU copies nothing within one buffer, so a page goes through a buffer of its own, one layer
 * after another.
 *
 * @module
 */
import { entryBytes, type KvCache } from "./kv_cache.ts";

/** The page that is copied and the one that is overwritten. */
export interface PageCopy {
  readonly from: number;
  readonly to: number;
}

const COPY_USAGE = 0x4 | 0x8; // COPY_SRC | COPY_DST

export class PageCopier {
  readonly #device: GPUDevice;
  readonly #cache: KvCache;
  /** One page of one layer. */
  readonly #passage: GPUBuffer;

  /** @param pageSize Tokens a page holds. */
  constructor(device: GPUDevice, cache: KvCache, pageSize: number) {
    const size = entryBytes(cache.shape) * pageSize;
    this.#device = device;
    this.#cache = cache;
    this.#passage = device.createBuffer({ label: "page copy", size, usage: COPY_USAGE });
  }

  /**
   * Copies all layers of pages, one after another: after everything submitted so far, before
   * everything that is submitted later.
   */
  copy(copies: readonly PageCopy[]): void {
    const passage = this.#passage;
    const encoder = this.#device.createCommandEncoder();
    for (const { buffer, offset } of this.#cache.layers) {
      for (const { from, to } of copies) {
        const { size } = passage;
        encoder.copyBufferToBuffer(buffer, offset + from * size, passage, 0, size);
        encoder.copyBufferToBuffer(passage, 0, buffer, offset + to * size, size);
      }
    }
    this.#device.queue.submit([encoder.finish()]);
  }

  destroy(): void {
    this.#passage.destroy();
  }
}
