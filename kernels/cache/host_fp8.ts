/**
 * FP8 runs of the cache on the host, for checks and tests: codes that share a scale.
 *
 * @module
 */
import { decodeBf16, encodeBf16 } from "../../src/dtype.ts";
import type { CacheDtype } from "./cache_kernel.ts";
import { mlaFp8EntryBytes } from "./mla_write.ts";

export type Fp8Dtype = Exclude<CacheDtype, "bf16" | "f32">;

const FORMATS = {
  fp8_e4m3: { fractionBits: 3, bias: 7, largest: 448 },
  fp8_e5m2: { fractionBits: 2, bias: 15, largest: 57344 },
} as const;

/** Values of a latent that share a scale. */
export const LATENT_RUN = 128;

const SMALLEST_MAGNITUDE = 1e-30;

export const isFp8Dtype = (dtype: CacheDtype): dtype is Fp8Dtype => dtype in FORMATS;

/** Nearest code, ties to even, saturating. */
export function encodeFp8(value: number, dtype: Fp8Dtype): number {
  const { fractionBits, bias, largest } = FORMATS[dtype];
  const magnitude = Math.min(Math.abs(value), largest);
  const lowest = 1 - bias;
  const exponent = Math.max(magnitude === 0 ? lowest : Math.floor(Math.log2(magnitude)), lowest);
  const steps = magnitude / 2 ** (exponent - fractionBits);
  const below = Math.floor(steps);
  const rest = steps - below;
  const rounded = rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
  const sign = value < 0 || Object.is(value, -0) ? 0x80 : 0;
  // The fraction of a normal number carries the leading one into the exponent.
  return sign | (((exponent - lowest) << fractionBits) + rounded);
}

export function decodeFp8(code: number, dtype: Fp8Dtype): number {
  const { fractionBits, bias } = FORMATS[dtype];
  const fraction = code & ((1 << fractionBits) - 1);
  const exponent = (code & 0x7f) >> fractionBits;
  const ones = exponent === 0 ? fraction : fraction + (1 << fractionBits);
  const magnitude = ones * 2 ** (Math.max(exponent, 1) - bias - fractionBits);
  return code & 0x80 ? -magnitude : magnitude;
}

/** The scale of values that share one, as f32. */
export function fp8Scale(values: ArrayLike<number>, dtype: Fp8Dtype): number {
  let largest = SMALLEST_MAGNITUDE;
  for (let i = 0; i < values.length; i++) largest = Math.max(largest, Math.abs(values[i]!));
  return Math.fround(Math.fround(largest) * Math.fround(1 / FORMATS[dtype].largest));
}

/** What is left of values that share a scale. */
export function roundFp8(values: Float64Array, dtype: Fp8Dtype): Float64Array {
  const scale = fp8Scale(values, dtype);
  return values.map((value) => decodeFp8(encodeFp8(value / scale, dtype), dtype) * scale);
}

/** True where an error of the last bits could round to the other neighbour. */
export const nearTieOfFp8 = (value: number, dtype: Fp8Dtype) =>
  encodeFp8(value * (1 + 1e-5), dtype) !== encodeFp8(value * (1 - 1e-5), dtype);

/** Values in runs of `length`, each one's codes in words and then its scale. */
export function fp8Runs(values: ArrayLike<number>, length: number, dtype: Fp8Dtype): Uint32Array {
  const words = new Uint32Array((values.length / length) * (length / 4 + 1));
  const bytes = new DataView(words.buffer);
  for (let run = 0, at = 0; run < values.length; run += length, at += length + 4) {
    const own = Array.from({ length }, (_, i) => values[run + i]!);
    const scale = fp8Scale(own, dtype);
    own.forEach((value, i) => {
      bytes.setUint8(at + i, encodeFp8(value / scale, dtype));
    });
    bytes.setFloat32(at + length, scale, true);
  }
  return words;
}

/** The values of `fp8Runs`. */
export function decodeFp8Runs(words: Uint32Array, length: number, dtype: Fp8Dtype): Float64Array {
  const { buffer, byteOffset, byteLength } = words;
  const bytes = new DataView(buffer, byteOffset, byteLength);
  const values = new Float64Array((words.length / (length / 4 + 1)) * length);
  for (let run = 0, at = 0; run < values.length; run += length, at += length + 4) {
    const scale = bytes.getFloat32(at + length, true);
    for (let i = 0; i < length; i++) {
      values[run + i] = decodeFp8(bytes.getUint8(at + i), dtype) * scale;
    }
  }
  return values;
}

export interface LatentShape {
  readonly latent: number;
  readonly rope: number;
}

/** Entries of a latent and a rope part: the latent's codes, its scales, the rope part in BF16. */
export function fp8Latents(
  entries: ArrayLike<number>,
  { latent, rope }: LatentShape,
  dtype: Fp8Dtype,
): Uint32Array {
  const bytesOf = mlaFp8EntryBytes(latent, rope);
  const count = entries.length / (latent + rope);
  const words = new Uint32Array((count * bytesOf) / 4);
  const bytes = new DataView(words.buffer);
  for (let e = 0; e < count; e++) {
    const own = Array.from({ length: latent + rope }, (_, i) => entries[e * (latent + rope) + i]!);
    const scales = e * bytesOf + latent;
    for (let first = 0; first < latent; first += LATENT_RUN) {
      const run = own.slice(first, Math.min(latent, first + LATENT_RUN));
      const scale = fp8Scale(run, dtype);
      run.forEach((value, i) => {
        bytes.setUint8(e * bytesOf + first + i, encodeFp8(value / scale, dtype));
      });
      bytes.setFloat32(scales + (first / LATENT_RUN) * 4, scale, true);
    }
    const ropes = scales + 4 * Math.ceil(latent / LATENT_RUN);
    for (let i = 0; i < rope; i++) {
      bytes.setUint16(ropes + 2 * i, encodeBf16(own[latent + i]!), true);
    }
  }
  return words;
}

/** The elements of `fp8Latents`. */
export function decodeFp8Latents(
  words: Uint32Array,
  { latent, rope }: LatentShape,
  dtype: Fp8Dtype,
): Float64Array {
  const bytesOf = mlaFp8EntryBytes(latent, rope);
  const bytes = new DataView(words.buffer, words.byteOffset, words.byteLength);
  const count = words.byteLength / bytesOf;
  const values = new Float64Array(count * (latent + rope));
  for (let e = 0; e < count; e++) {
    const at = e * (latent + rope);
    const scales = e * bytesOf + latent;
    for (let i = 0; i < latent; i++) {
      const scale = bytes.getFloat32(scales + Math.floor(i / LATENT_RUN) * 4, true);
      values[at + i] = decodeFp8(bytes.getUint8(e * bytesOf + i), dtype) * scale;
    }
    const ropes = scales + 4 * Math.ceil(latent / LATENT_RUN);
    for (let i = 0; i < rope; i++) {
      values[at + latent + i] = decodeBf16(bytes.getUint16(ropes + 2 * i, true));
    }
  }
  return values;
}

/** What a cache of latents keeps of one latent. */
export function roundFp8Latent(latent: Float64Array, dtype: Fp8Dtype): Float64Array {
  const out = new Float64Array(latent.length);
  for (let first = 0; first < latent.length; first += LATENT_RUN) {
    out.set(roundFp8(latent.slice(first, first + LATENT_RUN), dtype), first);
  }
  return out;
}
