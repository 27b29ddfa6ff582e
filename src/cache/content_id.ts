/**
 * Ids of contents that are no tokens, such as embeddings, by which the radix cache knows them again.
 *
 * An id is a keyed hash (HalfSipHash-2-4 with 64 bits, of which it keeps 52): without the key no
 * client can make a content whose id is another's, and so be given what the cache has of that. Ids
 * lie in `[2^52, 2^53)`: each is exact as a number, and none is a token's.
 *
 * Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), with the 32-bit words
 * of the authors' HalfSipHash.
 *
 * @module
 */

const FIRST_ID = 2 ** 52;
const HIGH_BITS = 0xfffff;

export type ContentKey = readonly [number, number];

export class ContentIds {
  readonly #key: ContentKey;
  readonly #state = new Int32Array(4);

  /** @param key Two 32-bit words. Default: from the platform's random source. */
  constructor(key: ContentKey = randomKey()) {
    this.#key = key;
  }

  /** The id of a content; equal words have equal ids. */
  of(words: Uint32Array): number {
    const [low, high] = this.hash(words);
    return FIRST_ID + (high & HIGH_BITS) * 2 ** 32 + low;
  }

  /** The hash in full, two 32-bit words with the lower one first. */
  hash(words: Uint32Array): readonly [number, number] {
    const state = this.#state;
    const [k0, k1] = this.#key;
    state[0] = k0;
    state[1] = k1 ^ 0xee;
    state[2] = k0 ^ 0x6c796765;
    state[3] = k1 ^ 0x74656462;
    for (let i = 0; i < words.length; i++) absorb(state, words[i]!);
    absorb(state, words.length << 26); // bytes, in the highest byte
    state[2]! ^= 0xee;
    mix(state, 4);
    const low = state[1]! ^ state[3]!;
    state[1]! ^= 0xdd;
    mix(state, 4);
    return [low >>> 0, (state[1]! ^ state[3]!) >>> 0];
  }
}

function randomKey(): ContentKey {
  const [k0, k1] = crypto.getRandomValues(new Uint32Array(2));
  return [k0!, k1!];
}

function absorb(state: Int32Array, word: number): void {
  state[3]! ^= word;
  mix(state, 2);
  state[0]! ^= word;
}

function mix(state: Int32Array, rounds: number): void {
  let v0 = state[0]!;
  let v1 = state[1]!;
  let v2 = state[2]!;
  let v3 = state[3]!;
  for (let round = 0; round < rounds; round++) {
    v0 = (v0 + v1) | 0;
    v1 = rotate(v1, 5) ^ v0;
    v0 = rotate(v0, 16);
    v2 = (v2 + v3) | 0;
    v3 = rotate(v3, 8) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = rotate(v3, 7) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = rotate(v1, 13) ^ v2;
    v2 = rotate(v2, 16);
  }
  state[0] = v0;
  state[1] = v1;
  state[2] = v2;
  state[3] = v3;
}

function rotate(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits));
}
