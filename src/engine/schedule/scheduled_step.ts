/**
 * What a schedule decided, written down: a batch as plain data, and what its rows are for.
 *
 * @module
 */
import { FROM_EXTERNAL, FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import type { Batch, BatchSequence } from "../../layers/batch.ts";
import type { PageTransfers } from "../step/page_transfers.ts";
import type { Sequence } from "./sequence.ts";
import type { StepProgress } from "./suspects.ts";

/** A batch and what its logit rows are for: first those that are sampled, then those to score. */
export interface ScheduledStep {
  readonly batch: Batch;
  readonly sampled: readonly Sequence[];
  /** Prompt rows whose log-probabilities are wanted. */
  readonly scored: readonly { readonly sequence: Sequence; readonly position: number }[];
  /** Every sequence with rows in the batch: their first position, and tokens computed after it. */
  readonly progress: StepProgress<Sequence>;
  /** Pages that have to move before it runs. */
  readonly transfers: PageTransfers;
}

/** Rows of one sequence, the first of those that are not computed. */
export interface Chunk {
  readonly sequence: Sequence;
  readonly rows: number;
}

/**
 * Writes chunks down as a step, and in their sequences that they begin and what the step will have
 * computed and sampled.
 *
 * @param chunks Those of generated rows first.
 */
export function buildStep(
  chunks: readonly Chunk[],
  { generatedChunks, number }: { readonly generatedChunks: number; readonly number: number },
): Omit<ScheduledStep, "transfers"> {
  const rowCount = chunks.reduce((sum, { rows }) => sum + rows, 0);
  const sources = new Uint32Array(rowCount);
  const sequences: BatchSequence[] = [];
  const logitRows: number[] = [];
  const sampled: Sequence[] = [];
  const external: Float32Array[] = [];
  const scored: { sequence: Sequence; position: number; row: number }[] = [];
  let row = 0;
  const progress = chunks.map(({ sequence, rows }, i) => {
    sequence.begin();
    const position = sequence.computed;
    const computed = position + rows;
    const embedded = Math.min(sequence.embeddedLength - position, rows);
    for (let j = 0; j < rows; j++) {
      if (j < embedded) {
        sources[row + j] = FROM_EXTERNAL + external.length;
        external.push(sequence.embeddings!.row(position + j));
      } else {
        sources[row + j] = sequence.tokens[position + j] ?? FROM_SAMPLED | sequence.sampledAt;
      }
      if (sequence.logprobs?.wantsRow(position + j)) {
        scored.push({ sequence, position: position + j, row: row + j });
      }
    }
    sequences.push({
      phase: i < generatedChunks ? "decode" : "prefill",
      queryStart: row,
      queryLength: rows,
      position,
      pageTable: sequence.pageTable,
    });
    row += rows;
    if (computed === sequence.length) {
      logitRows.push(row - 1);
      sequence.pending += 1;
      sequence.sampledIn = number;
      sequence.sampledAt = sampled.length;
      sampled.push(sequence);
    }
    sequence.computed = computed;
    return { sequence, position, computed };
  });
  for (const one of scored) logitRows.push(one.row);
  return {
    batch: { sequences, sources, external, logitRows: Uint32Array.from(logitRows) },
    sampled,
    scored,
    progress,
  };
}
