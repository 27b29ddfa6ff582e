/**
 * The keys and values of every token in use: one tensor a layer, addressed by slot.
 *
 * A slot is `page * pageSize + offset`. What an entry holds is the attention's business: latent and
 * rope part for MLA. Entries are written by a layer's kernel before its attention reads them. Behind
 * the slots that tokens have stands one for rows that only fill a batch up.
 *
 * @module
 */
import type { CacheDtype } from "../../kernels/cache/cache_kernel.ts";
import { UnsupportedError } from "../errors.ts";
import { allocateTensor, type Tensor } from "../gpu/tensor.ts";

export type { CacheDtype };

export interface KvCacheShape {
  readonly layers: number;
  /** Elements of one token's entry in one layer; of an FP8 entry, scales included, its bytes. */
  readonly entryWidth: number;
  readonly dtype: CacheDtype;
}

const ELEMENT_BYTES: Readonly<Record<CacheDtype, number>> = {
  f32: 4,
  bf16: 2,
  fp8_e4m3: 1,
  fp8_e5m2: 1,
};

/** Bytes of one token in one layer, a whole number of 32-bit words. */
export function entryBytes({ entryWidth, dtype }: KvCacheShape): number {
  if (dtype === "bf16" && entryWidth % 2 !== 0) {
    throw new UnsupportedError(
      `a cache entry of ${entryWidth} values in BF16`,
      "it is an odd number",
    );
  }
  return entryWidth * ELEMENT_BYTES[dtype];
}

/** Bytes of one token in all layers. */
export function bytesPerToken(shape: KvCacheShape): number {
  return entryBytes(shape) * shape.layers;
}

/** Slots that no token has. */
export const PADDING_SLOTS = 1;

export class KvCache {
  readonly shape: KvCacheShape;
  /** Slots for tokens; the slot of this number is for rows of padding. */
  readonly slots: number;
  /** Per layer `[slots + PADDING_SLOTS, entryWidth]`. */
  readonly layers: readonly Tensor[];

  constructor(device: GPUDevice, shape: KvCacheShape, slots: number) {
    this.shape = shape;
    this.slots = slots;
    const bytes = entryBytes(shape) * (slots + PADDING_SLOTS);
    this.layers = Array.from({ length: shape.layers }, (_, i) =>
      allocateTensor(device, bytes, `kv cache of layer ${i}`),
    );
  }

  /**
   * Makes entries zero: after everything submitted so far, before everything that is submitted later.
   *
   * @param runs Slots, in runs of `count` from each of these on.
   */
  clear(device: GPUDevice, runs: readonly number[], count: number): void {
    const size = entryBytes(this.shape);
    const encoder = device.createCommandEncoder();
    for (const { buffer, offset } of this.layers) {
      for (const first of runs) encoder.clearBuffer(buffer, offset + first * size, count * size);
    }
    device.queue.submit([encoder.finish()]);
  }

  destroy(): void {
    for (const { buffer } of this.layers) buffer.destroy();
  }
}
