/**
 * Bytes of tensors as functions of seed, name and place: any range of any tensor, in any order,
 * without the rest.
 *
 * A counter is hashed into 32 bits; 12 of them choose one of 4096 quantiles of a normal
 * distribution, rounded to BF16 when the table is built. Two elements come from one hash.
 *
 * @module
 */
import { encodeBf16 } from "../../../src/dtype.ts";

/** What the bytes of a tensor are. */
export type Values =
  /** BF16 numbers, near normal. */
  | { readonly kind: "normal"; readonly mean: number; readonly sigma: number }
  /** E4M3 numbers of either sign, 0.5 to 1.875 in size. */
  | { readonly kind: "fp8" }
  /** Bytes, all equally likely: two E2M1 numbers each. */
  | { readonly kind: "nibbles" }
  /** Bytes of `first` to `first + 3`: exponents of E8M0 scales. */
  | { readonly kind: "exponents"; readonly first: number };

/** Writes the bytes of a tensor from `offset` on into all of `target`. */
export type Fill = (target: Uint8Array, offset: number) => void;

const QUANTILES = 4096;
const CHUNK_WORDS = 1 << 14;
const EXPONENT_MASK = 0x03030303;
/** Four codes: what varies of them, and what does not. */
const FP8_MASK = 0x8f8f8f8f;
const FP8_BASE = 0x30303030;
/** Root mean square of the numbers of kind "fp8". */
export const FP8_SIZE = 1.159;
const LOW_TAIL = 0.02425;

const scratch = new Uint32Array(CHUNK_WORDS);
const scratchBytes = new Uint8Array(scratch.buffer);

export function fillOf(seed: number, name: string, values: Values): Fill {
  const a = keyOf(name, seed, 0x811c9dc5);
  const b = keyOf(name, seed, 0x2545f491);
  switch (values.kind) {
    case "normal": {
      const table = normalTable(values.mean, values.sigma);
      return inChunks((first, count) => normalWords({ a, b, first, count, table }));
    }
    case "fp8": {
      const [mask, base] = [FP8_MASK, FP8_BASE];
      return inChunks((first, count) => plainWords({ a, b, first, count, mask, base }));
    }
    case "nibbles":
      return inChunks((first, count) => plainWords({ a, b, first, count, mask: -1, base: 0 }));
    case "exponents": {
      const base = Math.imul(values.first, 0x01010101);
      const mask = EXPONENT_MASK;
      return inChunks((first, count) => plainWords({ a, b, first, count, mask, base }));
    }
    default:
      return values satisfies never;
  }
}

/** `words` leaves words of the tensor in `scratch`; ranges may begin and end inside a word. */
function inChunks(words: (first: number, count: number) => void): Fill {
  return (target, offset) => {
    let done = 0;
    while (done < target.length) {
      const at = offset + done;
      const first = Math.floor(at / 4);
      const skipped = at - first * 4;
      const bytes = Math.min(target.length - done, CHUNK_WORDS * 4 - skipped);
      words(first, Math.ceil((skipped + bytes) / 4));
      target.set(scratchBytes.subarray(skipped, skipped + bytes), done);
      done += bytes;
    }
  };
}

interface Words {
  readonly a: number;
  readonly b: number;
  readonly first: number;
  readonly count: number;
}

function normalWords({ a, b, first, count, table }: Words & { table: Uint16Array }): void {
  for (let i = 0; i < count; i++) {
    let x = (Math.imul(first + i, 0x9e3779b1) + a) | 0;
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = ((x ^ (x >>> 15)) + b) | 0;
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    x ^= x >>> 15;
    scratch[i] = table[x & 0xfff]! | (table[(x >>> 16) & 0xfff]! << 16);
  }
}

function plainWords(words: Words & { readonly mask: number; readonly base: number }): void {
  const { a, b, first, count, mask, base } = words;
  for (let i = 0; i < count; i++) {
    let x = (Math.imul(first + i, 0x9e3779b1) + a) | 0;
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = ((x ^ (x >>> 15)) + b) | 0;
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    x ^= x >>> 15;
    scratch[i] = (x & mask) + base;
  }
}

/** FNV-1a of the name, begun with the seed. */
function keyOf(name: string, seed: number, basis: number): number {
  let key = basis ^ Math.imul(seed, 0x9e3779b1);
  for (let i = 0; i < name.length; i++) key = Math.imul(key ^ name.charCodeAt(i), 0x01000193);
  key = Math.imul(key ^ (key >>> 16), 0x85ebca6b);
  return key ^ (key >>> 13);
}

function normalTable(mean: number, sigma: number): Uint16Array {
  return Uint16Array.from({ length: QUANTILES }, (_, i) =>
    encodeBf16(mean + sigma * normalQuantile((i + 0.5) / QUANTILES)),
  );
}

/** P. J. Acklam's rational approximation of the inverse normal distribution. */
function normalQuantile(p: number): number {
  if (p > 0.5) return -normalQuantile(1 - p);
  const ratio = (above: readonly number[], below: readonly number[], x: number) => {
    const polynomial = (factors: readonly number[]) => factors.reduce((sum, f) => sum * x + f, 0);
    return polynomial(above) / polynomial([...below, 1]);
  };
  if (p < LOW_TAIL) {
    const above = [
      -7.784894002430293e-3, -0.3223964580411365, -2.400758277161838, -2.549732539343734,
      4.374664141464968, 2.938163982698783,
    ];
    const below = [7.784695709041462e-3, 0.3224671290700398, 2.445134137142996, 3.754408661907416];
    return ratio(above, below, Math.sqrt(-2 * Math.log(p)));
  }
  const above = [
    -39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269, -30.66479806614716,
    2.506628277459239,
  ];
  const below = [
    -54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972,
    -13.28068155288572,
  ];
  const centred = p - 0.5;
  return centred * ratio(above, below, centred * centred);
}
