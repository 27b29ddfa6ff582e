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
  /** Each cache, and a buffer for one page of one of its layers. */
  readonly #caches: readonly { readonly cache: KvCache; readonly passage: GPUBuffer }[];

  /**
   * @param caches That have the same pages.
   * @param pageSize Tokens a page holds.
   */
  constructor(device: GPUDevice, caches: readonly KvCache[], pageSize: number) {
    this.#device = device;
    this.#caches = caches.map((cache) => {
      const size = entryBytes(cache.shape) * pageSize;
      const passage = device.createBuffer({ label: "page copy", size, usage: COPY_USAGE });
      return { cache, passage };
    });
  }

  /**
   * Copies all layers of pages, one after another: after everything submitted so far, before
   * everything that is submitted later.
   */
  copy(copies: readonly PageCopy[]): void {
    const encoder = this.#device.createCommandEncoder();
    for (const { cache, passage } of this.#caches) {
      const { size } = passage;
      for (const { buffer, offset } of cache.layers) {
        for (const { from, to } of copies) {
          encoder.copyBufferToBuffer(buffer, offset + from * size, passage, 0, size);
          encoder.copyBufferToBuffer(passage, 0, buffer, offset + to * size, size);
        }
      }
    }
    this.#device.queue.submit([encoder.finish()]);
  }

  destroy(): void {
    for (const { passage } of this.#caches) passage.destroy();
  }
}
