/**
 * Batches of steps whose time, or work, is asked for. What the rows say does not matter, but that they
 * say different things, and so go to different experts.
 *
 * @module
 */
import type { SampledRow } from "../engine/sample/sampled_row.ts";
import type { Batch } from "../layers/batch.ts";

const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 } as const;

export interface SizedBatch {
  readonly batch: Batch;
  readonly sampled: readonly SampledRow[];
}

/**
 * One token for each of `sequences`, with `context` tokens in front of it. Sequences share pages but the
 * last one, of which each has its own.
 */
export function decodeBatch(sequences: number, context: number, pageSize: number): SizedBatch {
  const full = Math.floor(context / pageSize);
  const shared = pagesOf(full);
  const rows = Array.from({ length: sequences }, (_, s) => {
    const place = { queryStart: s, queryLength: 1, position: context };
    return { phase: "decode" as const, ...place, pageTable: [...shared, full + s] };
  });
  const logitRows = Uint32Array.from(rows, (_, s) => s);
  return sampledBatch({ sequences: rows, sources: tokensOf(sequences), logitRows });
}

/** `tokens` of a prompt, with `before` tokens in the cache. */
export function prefillBatch(tokens: number, before: number, pageSize: number): SizedBatch {
  const place = { queryStart: 0, queryLength: tokens, position: before };
  const pageTable = pagesOf(Math.ceil((before + tokens) / pageSize));
  const sequences = [{ phase: "prefill" as const, ...place, pageTable }];
  const logitRows = Uint32Array.of(tokens - 1);
  return sampledBatch({ sequences, sources: tokensOf(tokens), logitRows });
}

function sampledBatch(batch: Batch): SizedBatch {
  const sampled = Array.from(batch.logitRows, () => ({ sampling: GREEDY, position: 0 }));
  return { batch, sampled };
}

/** Of every vocabulary. */
const TOKENS = 61;

function tokensOf(rows: number): Uint32Array<ArrayBuffer> {
  return Uint32Array.from({ length: rows }, (_, row) => (37 * row) % TOKENS);
}

function pagesOf(count: number): readonly number[] {
  return Array.from({ length: count }, (_, page) => page);
}
