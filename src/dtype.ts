/**
 * Element types of tensors: how many bytes an element has and how its bits become a number.
 *
 * @module
 */

/** Element types a checkpoint may hold, in safetensors' spelling. */
export type Dtype = "F32" | "F16" | "BF16" | "F8_E4M3" | "I8" | "U8" | "I32" | "I64";

/** Bytes of one element. */
export const DTYPE_BYTES: Readonly<Record<Dtype, number>> = {
  F32: 4,
  F16: 2,
  BF16: 2,
  F8_E4M3: 1,
  I8: 1,
  U8: 1,
  I32: 4,
  I64: 8,
};

const scratch = new DataView(new ArrayBuffer(4));

/** The upper 16 bits of a float32, rounded to nearest, ties to even; NaN stays NaN. */
export function encodeBf16(value: number): number {
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  if (Number.isNaN(value)) return (bits >>> 16) | 0x40;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

export function decodeBf16(bits: number): number {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}

/** IEEE half precision. */
export function decodeF16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The nearest IEEE half, ties to even; infinite beyond 65520. */
export function encodeF16(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  if (Number.isNaN(value)) return sign | 0x7e00;
  const magnitude = Math.abs(value);
  // 65520 is halfway between the largest half and what would be the next one.
  if (magnitude >= 65520) return sign | 0x7c00;
  const exponent = Math.max(Math.floor(Math.log2(magnitude || 2 ** -24)), -14);
  const steps = magnitude / 2 ** (exponent - 10);
  let rounded = Math.floor(steps);
  const rest = steps - rounded;
  if (rest > 0.5 || (rest === 0.5 && rounded % 2 === 1)) rounded += 1;
  // A carry out of the fraction arrives in the exponent by the addition itself.
  return sign | (((exponent + 14) << 10) + rounded);
}

/** OCP E4M3 (no infinities; 0x7f and 0xff are NaN). */
export function decodeE4m3(code: number): number {
  const sign = code & 0x80 ? -1 : 1;
  const exponent = (code >> 3) & 0xf;
  const fraction = code & 7;
  if ((code & 0x7f) === 0x7f) return Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -9;
  return sign * (1 + fraction / 8) * 2 ** (exponent - 7);
}

/** Nearest E4M3 code, ties to even, saturating at 448. */
export function encodeE4m3(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x80 : 0;
  if (Number.isNaN(value)) return sign | 0x7f;
  const magnitude = Math.min(Math.abs(value), 448);
  // Steps of 2^-9 below the smallest normal 2^-6, else of an eighth of the power of two.
  const exponent = Math.max(Math.floor(Math.log2(magnitude || 2 ** -20)), -6);
  const step = 2 ** (exponent - 3);
  const steps = magnitude / step;
  let rounded = Math.floor(steps);
  const rest = steps - rounded;
  if (rest > 0.5 || (rest === 0.5 && rounded % 2 === 1)) rounded += 1;
  // `rounded` may reach 16, which is 8 of the next exponent: the sum below carries by itself.
  return sign | (exponent === -6 ? rounded : ((exponent + 6) << 3) + rounded);
}
