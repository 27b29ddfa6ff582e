/**
 * A vocabulary's tokens as a few flat arrays, which another thread can be sent at once.
 *
 * @module
 */
import type { TokenSource } from "./grammar_vocabulary.ts";

export interface FlatTokens {
  /** All tokens end to end. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Token `i` has the bytes from `starts[i]` to `starts[i + 1]`. */
  readonly starts: Uint32Array<ArrayBuffer>;
  /** Ids of the special tokens. */
  readonly special: Uint32Array<ArrayBuffer>;
}

export function flatTokens(source: TokenSource): FlatTokens {
  const starts = new Uint32Array(source.size + 1);
  const special: number[] = [];
  for (let id = 0; id < source.size; id++) {
    starts[id + 1] = starts[id]! + source.bytes(id).length;
    if (source.isSpecial(id)) special.push(id);
  }
  const bytes = new Uint8Array(starts[source.size]!);
  for (let id = 0; id < source.size; id++) bytes.set(source.bytes(id), starts[id]!);
  return { bytes, starts, special: Uint32Array.from(special) };
}

/** The vocabulary again. */
export class FlatTokenSource implements TokenSource {
  readonly size: number;
  readonly #tokens: FlatTokens;
  readonly #special: ReadonlySet<number>;

  constructor(tokens: FlatTokens) {
    this.size = tokens.starts.length - 1;
    this.#tokens = tokens;
    this.#special = new Set(tokens.special);
  }

  bytes(id: number): Uint8Array {
    const { bytes, starts } = this.#tokens;
    return bytes.subarray(starts[id], starts[id + 1]);
  }

  isSpecial(id: number): boolean {
    return this.#special.has(id);
  }
}
