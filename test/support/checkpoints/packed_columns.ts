/**
 * Four-bit codes as AutoAWQ and GPTQ files have them, and as the linear kernels do.
 *
 * @module
 */
import type { ColumnPacking } from "../../../kernels/linear/weights/column_scales.ts";
import { granulePlace, type WeightOrder } from "../../../kernels/linear/weights/weight_order.ts";

const AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7];

/** `[K, N]` codes as a file has them: word by word, nibble by nibble. */
export function packFile(
  packing: ColumnPacking,
  codes: readonly (readonly number[])[],
): Uint8Array<ArrayBuffer> {
  const [K, N] = [codes.length, codes[0]!.length];
  const words = new Uint32Array((K * N) / 8);
  words.forEach((_, i) => {
    for (let nibble = 0; nibble < 8; nibble++) {
      const code =
        packing === "awq"
          ? codes[Math.floor(i / (N / 8))]![(i % (N / 8)) * 8 + AWQ_ORDER[nibble]!]!
          : codes[Math.floor(i / N) * 8 + nibble]![i % N]!;
      words[i]! += code * 16 ** nibble;
    }
  });
  return new Uint8Array(words.buffer);
}

/** Code of output n and input k of a matrix laid out for the linear kernels. */
export function codeAt(
  words: Uint32Array,
  order: WeightOrder,
  columns: number,
  n: number,
  k: number,
): number {
  const granule = granulePlace(order, Math.ceil(columns / 128) * 4)(n, Math.floor(k / 32));
  return (words[granule * 4 + Math.floor((k % 32) / 8)]! >>> (4 * (k % 8))) & 15;
}
