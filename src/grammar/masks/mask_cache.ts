/**
 * Keeps masks up to a number of bytes, forgetting those that were not used for the longest time.
 *
 * @module
 */

/** A place for one mask, held by the matcher that made it. */
export interface CacheEntry<T> {
  /** Undefined once it was forgotten. */
  value: T | undefined;
  readonly bytes: number;
}

/** Memory of an entry itself. */
const ENTRY_BYTES = 200;

export class MaskCache {
  readonly #maxBytes: number;
  /** In the order of their last use. */
  readonly #entries = new Set<CacheEntry<unknown>>();
  #bytes = 0;

  /** @param maxBytes The newest entry is kept even where it alone is larger. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps a value for as long as there is room. */
  add<T>(value: T, bytes: number): CacheEntry<T> {
    const entry: CacheEntry<T> = { value, bytes: bytes + ENTRY_BYTES };
    this.#entries.add(entry);
    this.#bytes += entry.bytes;
    for (const oldest of this.#entries) {
      if (this.#bytes <= this.#maxBytes || oldest === entry) break;
      this.#entries.delete(oldest);
      this.#bytes -= oldest.bytes;
      oldest.value = undefined;
    }
    return entry;
  }

  /** Looks a value up, which is a use of it. */
  use<T>(entry: CacheEntry<T> | undefined): T | undefined {
    if (entry?.value === undefined) return undefined;
    this.#entries.delete(entry);
    this.#entries.add(entry);
    return entry.value;
  }
}
