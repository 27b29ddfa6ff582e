/**
 * What host memory keeps of a retracted sequence.
 *
 * @module
 */

/** Pages of one sequence that are kept for it, or about to be. */
export interface SavedPages {
  /** Tokens `[start, end)` are in them; `start` is the first of a page. */
  readonly start: number;
  readonly end: number;
  readonly byteLength: number;
  /** Absent until they have been read. */
  bytes: Uint8Array<ArrayBuffer> | undefined;
}
