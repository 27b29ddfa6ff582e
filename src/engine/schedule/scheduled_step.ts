/**
 * What a schedule decided, written down: a batch as plain data, and what its rows are for; and what
 * sequences get from it.
 *
 * @module
 */

import { FROM_EXTERNAL, FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import { placesOf } from "../../layers/attention/parted_rope.ts";
import type { Batch, BatchSequence, DraftedSequence } from "../../layers/batch.ts";
import { isTree } from "../../layers/draft_tree.ts";
import { type DraftNodes, pathTo } from "../../speculation/draft_nodes.ts";
import type { SpeculationFigures } from "../../speculation_figures.ts";
import type { DraftJudge, DraftWork } from "../drafts/draft_work.ts";
import type { SampledRow } from "../sample/sampled_row.ts";
import type { PageTransfers } from "../step/page_transfers.ts";
import type { DraftRequest } from "../step/step_drafts.ts";
import type { Sequence } from "./sequence.ts";
import { NO_FIGURES, withStep } from "./sequence_drafts.ts";
import type { StepProgress } from "./suspects.ts";

/** A batch and what its logit rows are for: first those that are sampled, then those to score. */
export interface ScheduledStep {
  readonly batch: Batch;
  /**
   * By sampled row, whose next token it is: a sequence has one, and behind it one for each of the
   * drafts that the step verifies.
   */
  readonly sampled: readonly Sequence[];
  /** The drafts of those sequences that have any, each in the order of its rows; see `continued`. */
  readonly drafts: ReadonlyMap<Sequence, readonly number[]>;
  /** Where they are trees, the nodes that they follow. */
  readonly parents: ReadonlyMap<Sequence, readonly number[]>;
  /** Sequences that go on from the step before: as many of the drafts that it makes are verified. */
  readonly continued: ReadonlySet<Sequence>;
  /** What the model's draft module is to draft, and for whom; absent where it drafts nothing. */
  readonly draftRequest: (DraftRequest & { readonly owners: readonly Sequence[] }) | undefined;
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
  /** Those of its tokens; drafts have rows behind them. */
  readonly rows: number;
  /** Tokens that may follow its last one. Default none. */
  readonly drafts?: readonly number[];
  /** The nodes that they follow, where they are a tree. Default: they follow each other. */
  readonly parents?: readonly number[] | undefined;
  /**
   * Whether only the GPU knows its newest token and the drafts, of which the count is right: the
   * newest step in flight makes them. Default false.
   */
  readonly isContinued?: boolean;
}

const NO_DRAFTS: readonly number[] = [];

export interface StepSetting {
  /** Chunks of generated rows, which come first. */
  readonly generatedChunks: number;
  /** Of the step, among all of the scheduler. */
  readonly number: number;
  /** What the model's draft module does in it. */
  readonly drafts: DraftWork;
}

/**
 * Writes chunks down as a step, and in their sequences that they begin and what the step will have
 * computed and sampled.
 *
 * @param chunks Those of generated rows first.
 */
export function buildStep(
  chunks: readonly Chunk[],
  setting: StepSetting,
): Omit<ScheduledStep, "transfers"> {
  const builder = new StepBuilder(
    chunks.reduce((sum, { rows, drafts = NO_DRAFTS }) => sum + rows + drafts.length, 0),
    setting,
  );
  const progress = chunks.map((chunk) => builder.add(chunk));
  return builder.step(progress);
}

class StepBuilder {
  readonly #setting: StepSetting;
  readonly #sources: Uint32Array<ArrayBuffer>;
  readonly #sequences: BatchSequence[] = [];
  readonly #external: Float32Array[] = [];
  readonly #logitRows: number[] = [];
  readonly #sampled: Sequence[] = [];
  readonly #verified = new Map<Sequence, readonly number[]>();
  readonly #parents = new Map<Sequence, readonly number[]>();
  readonly #continued = new Set<Sequence>();
  readonly #scored: { sequence: Sequence; position: number; row: number }[] = [];
  readonly #drafted: DraftedSequence[] = [];
  readonly #owners: Sequence[] = [];
  #row = 0;

  constructor(rows: number, setting: StepSetting) {
    this.#sources = new Uint32Array(rows);
    this.#setting = setting;
  }

  add(chunk: Chunk): StepProgress<Sequence>[number] {
    const { sequence, rows, drafts = NO_DRAFTS, parents, isContinued = false } = chunk;
    sequence.begin();
    const position = sequence.computed;
    const computed = position + rows;
    const queryStart = this.#row;
    this.#addSources(sequence, rows);
    this.#sources.set(drafts, queryStart + rows);
    const isGenerated = this.#sequences.length < this.#setting.generatedChunks;
    const queryLength = rows + drafts.length;
    const phase = phaseOf(isGenerated, drafts);
    const places = sequence.embeddings?.places;
    this.#sequences.push({
      phase,
      queryStart,
      queryLength,
      position,
      pageTable: sequence.pageTable,
      ...(isContinued && { continues: sequence.drafting!.continuation }),
      ...(parents !== undefined && { tree: { parents: [-1, ...parents] } }),
      places: places && placesOf(places, position, position + queryLength),
    });
    if (isContinued) this.#continued.add(sequence);
    if (parents !== undefined) this.#parents.set(sequence, parents);
    if (computed === sequence.length) this.#sample(sequence, queryStart + rows - 1, drafts);
    this.#row += queryLength;
    // Whether drafts are its next tokens is not known before the step has run.
    sequence.computed = computed;
    return { sequence, position, computed };
  }

  #addSources(sequence: Sequence, rows: number): void {
    const { computed: position, embeddings, tokens, sampledAt, logprobs } = sequence;
    for (let j = 0; j < rows; j++) {
      const row = this.#row + j;
      const embedding = embeddings?.row(position + j);
      if (embedding !== undefined) {
        this.#sources[row] = FROM_EXTERNAL + this.#external.length;
        this.#external.push(embedding);
      } else {
        this.#sources[row] = tokens[position + j] ?? FROM_SAMPLED | sampledAt;
      }
      if (logprobs?.wantsRow(position + j)) {
        this.#scored.push({ sequence, position: position + j, row });
      }
    }
  }

  /** @param row That of its newest token; those of its drafts stand behind it. */
  #sample(sequence: Sequence, row: number, drafts: readonly number[]): void {
    const { number, drafts: work } = this.#setting;
    // Where a tree is verified, the step moves its entries together, and drafts on the way.
    const takes = sequence.wantsDrafts || isTree(this.#sequences.at(-1)!);
    const count = takes ? work.countOf(sequence) : 0;
    const isDrafted = count > 0;
    const firstLogitRow = this.#sampled.length;
    const made = { place: this.#drafted.length, count };
    sequence.drafting?.begin(drafts.length, isDrafted ? made : undefined);
    sequence.pending += 1;
    sequence.sampledIn = number;
    sequence.sampledAt = firstLogitRow;
    if (isDrafted) {
      const place = this.#sequences.length - 1;
      this.#drafted.push({ sequence: place, firstLogitRow, logitRows: 1 + drafts.length });
      this.#owners.push(sequence);
    }
    for (let j = 0; j <= drafts.length; j++) {
      this.#logitRows.push(row + j);
      this.#sampled.push(sequence);
    }
    if (drafts.length > 0) this.#verified.set(sequence, drafts);
  }

  step(progress: StepProgress<Sequence>): Omit<ScheduledStep, "transfers"> {
    const { steps, enters } = this.#setting.drafts;
    for (const { row } of this.#scored) this.#logitRows.push(row);
    const batch: Batch = {
      sequences: this.#sequences,
      sources: this.#sources,
      external: this.#external,
      logitRows: Uint32Array.from(this.#logitRows),
    };
    const draftRequest = { steps, sequences: this.#drafted, owners: this.#owners };
    return {
      batch: enters
        ? { ...batch, nextSources: nextSources(batch, progress, this.#sampled) }
        : batch,
      sampled: this.#sampled,
      drafts: this.#verified,
      parents: this.#parents,
      continued: this.#continued,
      draftRequest: this.#drafted.length > 0 ? draftRequest : undefined,
      scored: this.#scored,
      progress,
    };
  }
}

/** The sources of the tokens behind the rows: those that are known, else what the step samples. */
function nextSources(
  { sequences, sources, logitRows }: Batch,
  progress: StepProgress<Sequence>,
  sampled: readonly Sequence[],
): Uint32Array<ArrayBuffer> {
  const next = new Uint32Array(sources.length);
  sequences.forEach(({ queryStart, queryLength, position }, i) => {
    const { sequence, computed } = progress[i]!;
    for (let j = 0; j < queryLength; j++) {
      const at = position + j + 1;
      // An embedding has no token; the last one of a chunk stands for the one behind it.
      const isEmbedded = sequence.embeddings?.row(at) !== undefined;
      if (isEmbedded)
        next[queryStart + j] = sources[queryStart + Math.min(j + 1, queryLength - 1)]!;
      else if (at < computed) next[queryStart + j] = sources[queryStart + j + 1]!;
      else next[queryStart + j] = sequence.tokens[at] ?? 0;
    }
  });
  // A row behind which a token is sampled has that, whatever was drafted there.
  for (let i = 0; i < sampled.length; i++) next[logitRows[i]!] = FROM_SAMPLED | i;
  return next;
}

function phaseOf(isGenerated: boolean, drafts: readonly number[]): BatchSequence["phase"] {
  if (!isGenerated) return "prefill";
  return drafts.length > 0 ? "verify" : "decode";
}

/** How each sampled row of a step is sampled, in order. */
export function sampledRows({ sampled, drafts, parents }: ScheduledStep): SampledRow[] {
  let first = 0;
  return sampled.map((sequence, i) => {
    if (i === 0 || sampled[i - 1] !== sequence) first = i;
    const node = i - first;
    const own = drafts.get(sequence);
    const above = parents.get(sequence);
    if (above !== undefined)
      return treeRow(sequence, { tokens: own!, parents: above }, node, first);
    const row = sequence.sampledRow({ node, drafted: own?.slice(0, node) });
    // Behind a row stands that of the draft of its token.
    return sampled[i + 1] === sequence ? { ...row, firstChild: i + 1 } : row;
  });
}

/** @param first The sampled row of node 0. */
function treeRow(sequence: Sequence, nodes: DraftNodes, node: number, first: number): SampledRow {
  const { tokens, parents } = nodes;
  const path = pathTo(parents, node);
  const row = sequence.sampledRow({
    node,
    drafted: path.slice(1).map((one) => tokens[one - 1]!),
    drawnBefore: path.slice(0, -1).map((one) => node - one),
  });
  const child = parents.indexOf(node);
  const sibling = node === 0 ? -1 : parents.indexOf(parents[node - 1]!, node);
  return {
    ...row,
    ...(child >= 0 && { firstChild: first + child + 1 }),
    ...(sibling >= 0 && { nextSibling: first + sibling + 1 }),
  };
}

/** What sequences got from a step. */
export interface CommittedStep {
  readonly sampledTokens: number;
  /** Of the sequences that got tokens behind their first one. */
  readonly speculation: SpeculationFigures;
}

/** What came back from the GPU. */
export interface StepResults {
  /** By sampled row. */
  readonly tokens: Uint32Array;
  /** By sequence of the step's `draftRequest`. */
  readonly proposed: readonly Uint32Array[];
}

/**
 * @param judge Is told what became of the drafts of sequences that go on.
 * @param give Calls `accept` where the sequence still runs.
 */
export function commitStep(
  { sampled, drafts, parents, draftRequest, continued }: ScheduledStep,
  { tokens, proposed }: StepResults,
  judge: DraftJudge,
  give: (sequence: Sequence, accept: () => void) => void,
): CommittedStep {
  let sampledTokens = 0;
  let speculation = NO_FIGURES;
  let owner = 0;
  for (let row = 0; row < sampled.length; ) {
    const sequence = sampled[row]!;
    const given = drafts.get(sequence) ?? NO_DRAFTS;
    const drawn = tokens.subarray(row, row + 1 + given.length);
    const made = draftRequest?.owners[owner] === sequence ? proposed[owner++] : undefined;
    row += drawn.length;
    give(sequence, () => {
      // The commit of the step before has told it what that step made.
      const verified = continued.has(sequence)
        ? sequence.drafting!.made(given.length)
        : { drafts: given, parents: parents.get(sequence) };
      const { length: count } = verified.drafts;
      const isFirst = sequence.completionLength === 0;
      const taken = sequence.accept(drawn, { ...verified, proposed: made && Array.from(made) });
      sampledTokens += taken;
      if (!isFirst) speculation = withStep(speculation, count, taken - 1);
      // Behind an answer's end right drafts count as little as wrong ones.
      if (sequence.finish === null) judge.verified(sequence, count, taken - 1);
    });
  }
  return { sampledTokens, speculation };
}
