/**
 * How large the workspace is in which prompt attention expands cached entries.
 *
 * The expanded form of latent attention up-projects every cached entry that a prompt row looks at.
 * A workspace that holds a whole prefix takes one pass over it; a smaller one takes it in chunks,
 * cut at the fixed split length, to the very same bits. So it is a matter of memory and launches
 * alone, and what is wished for gives way to the cache.
 *
 * @module
 */
import type { ModelShape } from "../../models/model.ts";

export interface PrefillWorkspace extends Pick<ModelShape, "expandedEntry" | "splitLength"> {
  /** Whether prefixes of many tokens are taken in chunks; else everything in one piece. */
  readonly chunkedPrefix: boolean;
  /** Prefixes of a step that have fewer tokens together are taken in one piece. */
  readonly chunkedPrefixThreshold: number;
}

export interface WorkspaceBounds {
  /** Keys that the prompt rows of one step look at in all, at most. */
  readonly maxKeys: number;
  /** Rows of one step. */
  readonly maxRows: number;
  /** Bytes that weights leave, and those of them that the cache must have. */
  readonly leftBytes: number;
  readonly cacheBytes: number;
  readonly maxTensorBytes: number;
}

/**
 * Splits of a chunk where memory allows it: a prefix shorter than one still leaves room for those
 * of other sequences.
 */
const CHUNK_SPLITS = 2;
/** Of what weights leave, so that the cache keeps the rest. */
const LARGEST_SHARE = 1 / 8;

/** Entries that the workspace holds: whole splits, one at least; 0 where none is needed. */
export function prefillCapacity(
  { expandedEntry: entry, splitLength, chunkedPrefix, chunkedPrefixThreshold }: PrefillWorkspace,
  { maxKeys, maxRows, leftBytes, cacheBytes, maxTensorBytes }: WorkspaceBounds,
): number {
  if (entry === undefined) return 0;
  const whole = Math.ceil(maxKeys / splitLength);
  const shortest = chunkedPrefixThreshold === 0 ? 0 : chunkedPrefixThreshold - 1 + maxRows;
  const chunk = Math.max(Math.ceil(shortest / splitLength), CHUNK_SPLITS);
  const wanted = chunkedPrefix ? Math.min(chunk, whole) : whole;
  const room = Math.min(leftBytes * LARGEST_SHARE, leftBytes - cacheBytes);
  const held = Math.min(room / entry.bytes, maxTensorBytes / entry.widest);
  return Math.max(Math.min(wanted, Math.floor(held / splitLength)), 1) * splitLength;
}

/** Keys that the prompt rows of one batch may look at: one long prefix, or many short prompts. */
export function maxPrefillKeys(contextLength: number, maxRows: number): number {
  return contextLength + 2 * maxRows;
}
