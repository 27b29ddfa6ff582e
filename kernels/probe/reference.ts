/**
 * Inputs of the probe and what it must make of them.
 *
 * @module
 */
import { decodeE4m3, decodeF16 } from "../../src/dtype.ts";

const SIZE = 256;

/** The codes 0x7f and 0xff are NaN, which no checkpoint holds: any number may come of them. */
export const isNanCode = (code: number): boolean => (code & 0x7f) === 0x7f;

export function probeInputs() {
  const codes = new Uint32Array(Uint8Array.from({ length: SIZE }, (_, code) => code).buffer);
  return {
    codes,
    scales: Float32Array.from({ length: SIZE }, (_, i) => 2 ** ((i % 7) - 3)),
    // Subnormals of both signs in the low half, normal numbers in the high one.
    halves: Uint32Array.from({ length: SIZE }, (_, i) => {
      const subnormal = ((i & 1) << 15) | (1 + 4 * i - (i & 3));
      return (((0x0400 + 97 * i) << 16) | subnormal) >>> 0;
    }),
    left: Float32Array.from({ length: SIZE }, (_, i) => (i * 37) % 101),
    right: Float32Array.from({ length: SIZE }, (_, i) => (i * 53) % 97),
  };
}

export function probeReference({ scales, halves, left, right }: ReturnType<typeof probeInputs>) {
  const unpacked = Float64Array.from({ length: 2 * SIZE }, (_, i) =>
    decodeF16((halves[i >> 1]! >>> (16 * (i & 1))) & 0xffff),
  );
  const sum = left.reduce((total, value, i) => total + value * right[i]!, 0);
  return {
    decoded: Float64Array.from({ length: SIZE }, (_, code) => decodeE4m3(code) * scales[code]!),
    unpacked,
    sums: Float64Array.from([sum, sum]),
  };
}
