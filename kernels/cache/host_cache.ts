/**
 * The cache's element types on the host, for checks.
 *
 * @module
 */
import { encodeBf16 } from "../../src/dtype.ts";

/** BF16 elements as the cache holds them: two in a word, the even one in the low half. */
export function bf16Words(values: ArrayLike<number>): Uint32Array {
  return Uint32Array.from(
    { length: values.length / 2 },
    (_, i) => (encodeBf16(values[2 * i]!) | (encodeBf16(values[2 * i + 1]!) << 16)) >>> 0,
  );
}

/** The elements of `bf16Words`. */
export function decodeBf16(words: Uint32Array): Float32Array {
  const bits = new Uint32Array(words.length * 2);
  words.forEach((word, i) => {
    bits[2 * i] = word << 16;
    bits[2 * i + 1] = word & 0xffff0000;
  });
  return new Float32Array(bits.buffer);
}
