/**
 * Words of four-bit codes, out of the order of a checkpoint's file into that of granules.
 *
 * @module
 */

/** Output, of eight neighbours, that each nibble of an AWQ word belongs to. */
export const AWQ_OUTPUTS: readonly number[] = [0, 2, 4, 6, 1, 3, 5, 7];

/** Signed, because larger numbers than 2^31 are slow. */
export type Words = Int32Array<ArrayBuffer>;

/** Four file rows of GPTQ words become the four words of each output's granule. */
export function moveWords(
  source: Words,
  from: number,
  rowWords: number,
  into: Words,
  to: number,
  offsets: Int32Array,
): void {
  for (let i = 0; i < offsets.length; i++) {
    const at = to + offsets[i]!;
    into[at] = source[from + i]!;
    into[at + 1] = source[from + rowWords + i]!;
    into[at + 2] = source[from + 2 * rowWords + i]!;
    into[at + 3] = source[from + 3 * rowWords + i]!;
  }
}

/** Eight file rows of AWQ words become one word of each output. */
export function transposeWords(
  source: Words,
  from: number,
  rowWords: number,
  into: Words,
  to: number,
  offsets: Int32Array,
): void {
  for (let i = 0; i < offsets.length; i += 8) {
    const column = from + i / 8;
    let a = source[column]!;
    let b = source[column + rowWords]!;
    let c = source[column + 2 * rowWords]!;
    let d = source[column + 3 * rowWords]!;
    let e = source[column + 4 * rowWords]!;
    let f = source[column + 5 * rowWords]!;
    let g = source[column + 6 * rowWords]!;
    let h = source[column + 7 * rowWords]!;
    // Halves, then bytes, then nibbles change places with those of a word further on.
    let t = ((a >>> 16) ^ e) & 0xffff;
    e ^= t;
    a ^= t << 16;
    t = ((b >>> 16) ^ f) & 0xffff;
    f ^= t;
    b ^= t << 16;
    t = ((c >>> 16) ^ g) & 0xffff;
    g ^= t;
    c ^= t << 16;
    t = ((d >>> 16) ^ h) & 0xffff;
    h ^= t;
    d ^= t << 16;
    t = ((a >>> 8) ^ c) & 0xff00ff;
    c ^= t;
    a ^= t << 8;
    t = ((b >>> 8) ^ d) & 0xff00ff;
    d ^= t;
    b ^= t << 8;
    t = ((e >>> 8) ^ g) & 0xff00ff;
    g ^= t;
    e ^= t << 8;
    t = ((f >>> 8) ^ h) & 0xff00ff;
    h ^= t;
    f ^= t << 8;
    t = ((a >>> 4) ^ b) & 0xf0f0f0f;
    into[to + offsets[i]!] = a ^ (t << 4);
    into[to + offsets[i + 1]!] = b ^ t;
    t = ((c >>> 4) ^ d) & 0xf0f0f0f;
    into[to + offsets[i + 2]!] = c ^ (t << 4);
    into[to + offsets[i + 3]!] = d ^ t;
    t = ((e >>> 4) ^ f) & 0xf0f0f0f;
    into[to + offsets[i + 4]!] = e ^ (t << 4);
    into[to + offsets[i + 5]!] = f ^ t;
    t = ((g >>> 4) ^ h) & 0xf0f0f0f;
    into[to + offsets[i + 6]!] = g ^ (t << 4);
    into[to + offsets[i + 7]!] = h ^ t;
  }
}
