/**
 * What a schedule decided, written down: a batch as plain data, and what its rows are for.
 *
 * @module
 */
import { FROM_EXTERNAL, FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import type { SpeculationFigures } from "../../generation.ts";
import type { Batch, BatchSequence } from "../../layers/batch.ts";
import type { SampledRow } from "../sample/sampled_row.ts";
import type { PageTransfers } from "../step/page_transfers.ts";
import type { Sequence } from "./sequence.ts";
import type { StepProgress } from "./suspects.ts";

/** A batch and what its logit rows are for: first those that are sampled, then those to score. */
export interface ScheduledStep {
  readonly batch: Batch;
  /**
   * By sampled row, whose next token it is: a sequence has one, and behind it one for each of the
   * drafts that the step verifies.
   */
  readonly sampled: readonly Sequence[];
  /** The drafts of those sequences that have any, each in the order of its rows. */
  readonly drafts: ReadonlyMap<Sequence, readonly number[]>;
  /** Prompt rows whose log-probabilities are wanted. */
  readonly scored: readonly { readonly sequence: Sequence; readonly position: number }[];
  /** Every sequence with rows in the batch: their first position, and tokens computed after it. */
  readonly progress: StepProgress<Sequence>;
  /** Pages that have to move before it runs. */
  readonly transfers: PageTransfers;
}

/** What sequences got from a step. */
export interface CommittedStep {
  readonly sampledTokens: number;
  /** Of the sequences that got tokens behind their first one. */
  readonly speculation: SpeculationFigures;
}

/** Rows of one sequence, the first of those that are not computed. */
export interface Chunk {
  readonly sequence: Sequence;
  /** Those of its tokens; drafts have rows behind them. */
  readonly rows: number;
  /** Tokens that may follow its last one. Default none. */
  readonly drafts?: readonly number[];
}

const NO_DRAFTS: readonly number[] = [];

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
  const rowCount = chunks.reduce(
    (sum, { rows, drafts = NO_DRAFTS }) => sum + rows + drafts.length,
    0,
  );
  const sources = new Uint32Array(rowCount);
  const sequences: BatchSequence[] = [];
  const logitRows: number[] = [];
  const sampled: Sequence[] = [];
  const verified = new Map<Sequence, readonly number[]>();
  const external: Float32Array[] = [];
  const scored: { sequence: Sequence; position: number; row: number }[] = [];
  let row = 0;
  const progress = chunks.map(({ sequence, rows, drafts = NO_DRAFTS }, i) => {
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
    sources.set(drafts, row + rows);
    sequences.push({
      phase: phaseOf(i < generatedChunks, drafts),
      queryStart: row,
      queryLength: rows + drafts.length,
      position,
      pageTable: sequence.pageTable,
    });
    row += rows;
    if (computed === sequence.length) {
      sequence.pending += 1;
      sequence.verify(drafts.length);
      sequence.sampledIn = number;
      sequence.sampledAt = sampled.length;
      for (let j = 0; j <= drafts.length; j++) {
        logitRows.push(row - 1 + j);
        sampled.push(sequence);
      }
      if (drafts.length > 0) verified.set(sequence, drafts);
    }
    row += drafts.length;
    // Whether drafts are its next tokens is not known before the step has run.
    sequence.computed = computed;
    return { sequence, position, computed };
  });
  for (const one of scored) logitRows.push(one.row);
  return {
    batch: { sequences, sources, external, logitRows: Uint32Array.from(logitRows) },
    sampled,
    drafts: verified,
    scored,
    progress,
  };
}

function phaseOf(isGenerated: boolean, drafts: readonly number[]): BatchSequence["phase"] {
  if (!isGenerated) return "prefill";
  return drafts.length > 0 ? "verify" : "decode";
}

/** How each sampled row of a step is sampled, in order. */
export function sampledRows({ sampled, drafts }: ScheduledStep): SampledRow[] {
  let first = 0;
  return sampled.map((sequence, i) => {
    if (i === 0 || sampled[i - 1] !== sequence) first = i;
    return sequence.sampledRow(drafts.get(sequence)?.slice(0, i - first));
  });
}
