/**
 * Drives a loaded model without an engine: sequences, pages and batches are the test's own, and
 * every row's logits can be read.
 *
 * @module
 */
import { join } from "node:path";
import { FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import { movesOfPath } from "../../../src/cache/entry_mover.ts";
import { PagePool } from "../../../src/cache/page_pool.ts";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { type LoadedModel, loadModel } from "../../../src/engine/load/load.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { RowSampling } from "../../../src/engine/sample/sampled_row.ts";
import type { StepOptions } from "../../../src/engine/step/step_runner.ts";
import type { RunOptions } from "../../../src/gpu/plan.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import type { Batch, BatchSequence, DraftedSequence } from "../../../src/layers/batch.ts";
import { folderSource, SHARED_MODELS } from "../checkpoints/folder_source.ts";
import { device, download } from "../devices/gpu.ts";

export const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };

/** A sequence and how much of it is in the cache. */
export interface SessionSequence {
  readonly tokens: number[];
  computed: number;
  pageTable: number[];
}

/** Rows of one sequence in a batch. */
export interface Rows {
  readonly sequence: SessionSequence;
  readonly phase: "prefill" | "decode";
  readonly count: number;
}

/** A draft tree behind what of a sequence is computed; its nodes stay drafts until they are accepted. */
export interface TreeRows {
  readonly sequence: SessionSequence;
  readonly phase: "verify";
  readonly parents: readonly number[];
  /** A token for each node, the sequence's newest the first. */
  readonly tokens: readonly number[];
}

const countOf = (part: Rows | TreeRows) =>
  part.phase === "verify" ? part.tokens.length : part.count;

const generatedRow = (sequence: SessionSequence): Rows => ({
  sequence,
  phase: "decode",
  count: 1,
});

export class ModelSession {
  readonly loaded: LoadedModel;
  readonly #pool: PagePool;
  readonly #vocabularySize: number;

  constructor(loaded: LoadedModel) {
    const { memoryBudget, options, definition } = loaded;
    this.loaded = loaded;
    this.#pool = new PagePool(memoryBudget.cacheTokens / options.pageSize, options.pageSize);
    this.#vocabularySize = definition.shape.vocabularySize;
  }

  /** Loads a model of the shared data, or any source, with every row's logits available. */
  static async open(
    model: string | WeightSource,
    options: Partial<LoadOptions> = {},
  ): Promise<ModelSession> {
    const source = typeof model === "string" ? folderSource(join(SHARED_MODELS!, model)) : model;
    const maxLogitRows = options.maxRowsPerStep ?? 256;
    const checkpoint = await Checkpoint.open(source);
    const usual = { maxRowsPerStep: 256, maxTotalTokens: 4096, triesInvariance: false };
    const given = { device, ...usual, ...options, maxLogitRows };
    return new ModelSession(await loadModel(checkpoint, given));
  }

  /** A sequence with nothing computed. `skip` pages are wasted first, so that tables differ. */
  sequence(tokens: readonly number[], skip = 0): SessionSequence {
    this.#pool.allocate(skip);
    return { tokens: [...tokens], computed: 0, pageTable: [] };
  }

  release(sequence: SessionSequence): void {
    this.#pool.release(sequence.pageTable);
    sequence.pageTable = [];
  }

  /** Computes rows, generated ones first, and returns the logits of every row in order. */
  async run(parts: readonly (Rows | TreeRows)[], options?: StepOptions): Promise<Float32Array[]> {
    const { length: count } = await this.#run(parts, { keepsLogits: true, ...options });
    return this.logits(count);
  }

  /** Logits of the first rows of the last step, which was told to keep them. */
  logits(count: number): Promise<Float32Array[]> {
    return this.#rows(this.loaded.runner.logits, count);
  }

  /**
   * Computes rows and drafts behind them, all of whose tokens are drawn. Of a tree, the step itself moves
   * the entries of the path that is right, which the sequence is not told.
   *
   * @param steps Drafts of each part.
   * @param drafted What gets drafts. Default: each part, of whose generated rows the first is its newest
   * token's, and the last row of a prompt's.
   */
  async draft(
    parts: readonly (Rows | TreeRows)[],
    {
      steps,
      drafted,
      knowsNext = false,
      sampling = GREEDY,
      ahead = steps,
      ...options
    }: StepOptions & {
      readonly steps: number;
      /** Whether the tokens behind generated rows are the sequence's too, and not those drawn. */
      readonly knowsNext?: boolean;
      /** How tokens and drafts are drawn; the token behind a row has its position plus 1. */
      readonly sampling?: RowSampling;
      /** Positions behind their rows that sequences have pages for. */
      readonly ahead?: number;
      readonly drafted?: readonly DraftedSequence[];
    },
  ): Promise<{ readonly tokens: Uint32Array; readonly drafts: readonly Uint32Array[] }> {
    const known = parts.flatMap((part) => {
      const { tokens, computed } = part.sequence;
      return Array.from({ length: countOf(part) }, (_, i) => tokens[computed + i + 1]);
    });
    const positions = parts.flatMap((part) =>
      Array.from({ length: countOf(part) }, (_, i) => part.sequence.computed + i + 1),
    );
    const sampled = positions.map((position) => ({ sampling, position }));
    const { batch } = this.#batch(parts, ahead);
    // A draft is verified against what is drawn, whatever comes behind it.
    const isPrompt = parts.flatMap((part) => Array(countOf(part)).fill(part.phase === "prefill"));
    const nextSources = Uint32Array.from(known, (token, i) =>
      (isPrompt[i] || knowsNext) && token !== undefined ? token : FROM_SAMPLED | i,
    );
    const usual = batch.sequences.map(({ phase, queryStart, queryLength }, sequence) => {
      const skipped = phase === "prefill" ? queryLength - 1 : 0;
      return { sequence, firstLogitRow: queryStart + skipped, logitRows: queryLength - skipped };
    });
    const sequences = drafted ?? usual;
    const request = sequences.length > 0 ? { drafts: { steps, sequences } } : {};
    const submitted = await this.loaded.runner.submit({ ...batch, nextSources }, sampled, {
      ...options,
      ...request,
    });
    return { tokens: await submitted.tokens, drafts: await submitted.drafts };
  }

  /** Logits of the first drafts of the last step that was told to keep them. */
  draftLogits(count: number): Promise<Float32Array[]> {
    return this.#rows(this.loaded.runner.draftLogits!, count);
  }

  /** Computes rows as an engine does and returns the best token after each. */
  #run(parts: readonly (Rows | TreeRows)[], options?: StepOptions): Promise<Uint32Array> {
    const { batch, sampled } = this.#batch(parts);
    return this.loaded.runner.run(batch, sampled, options);
  }

  /**
   * The next rows of sequences, which are computed then, and how their tokens are drawn.
   *
   * @param ahead Positions behind them that sequences have pages for.
   */
  #batch(parts: readonly (Rows | TreeRows)[], ahead = 0) {
    const sources: number[] = [];
    const sequences: BatchSequence[] = parts.map((part) => {
      const { sequence, phase } = part;
      const { tokens, computed, pageTable } = sequence;
      const own =
        part.phase === "verify" ? part.tokens : tokens.slice(computed, computed + part.count);
      const missing = this.#pool.pagesFor(computed + own.length + ahead) - pageTable.length;
      if (missing > 0) this.#pool.allocate(missing, pageTable);
      const queryStart = sources.length;
      for (const token of own) sources.push(token);
      const tree = part.phase === "verify" ? { parents: part.parents } : undefined;
      if (part.phase !== "verify") sequence.computed += part.count;
      return { phase, queryStart, queryLength: own.length, position: computed, pageTable, tree };
    });
    const batch: Batch = {
      sequences,
      sources: Uint32Array.from(sources),
      logitRows: Uint32Array.from(sources, (_, i) => i),
    };
    return { batch, sampled: sources.map(() => ({ sampling: GREEDY, position: 0 })) };
  }

  async #rows({ buffer, offset }: Tensor, count: number): Promise<Float32Array[]> {
    const { runner, device: own } = this.loaded;
    const { logitsStride: stride } = runner;
    const all = new Float32Array(await download(buffer, offset, count * stride * 4, own));
    return Array.from({ length: count }, (_, i) =>
      all.slice(i * stride, i * stride + this.#vocabularySize),
    );
  }

  /** Makes a path of the tree that was computed last, from its root on, part of the sequence. */
  accept({ sequence, tokens }: TreeRows, path: readonly number[]): void {
    const { pageTable, computed } = sequence;
    this.loaded.mover!.move([{ pageTable, moves: movesOfPath(computed, path) }]);
    sequence.tokens.length = computed;
    for (const node of path) sequence.tokens.push(tokens[node]!);
    sequence.computed += path.length;
  }

  /** The whole prompt in chunks of at most `chunk` tokens; logits of every position. */
  async prefill(
    sequence: SessionSequence,
    chunk = Number.POSITIVE_INFINITY,
  ): Promise<Float32Array[]> {
    const logits: Float32Array[] = [];
    const most = Math.min(chunk, this.loaded.options.maxRows);
    while (sequence.computed < sequence.tokens.length) {
      const count = Math.min(most, sequence.tokens.length - sequence.computed);
      logits.push(...(await this.run([{ sequence, phase: "prefill", count }])));
    }
    return logits;
  }

  /** One token more for each sequence, together; the logits after it. */
  decode(sequences: readonly SessionSequence[], options?: RunOptions): Promise<Float32Array[]> {
    return this.run(sequences.map(generatedRow), options);
  }

  /** The same, for the best token after each: no logits are kept. */
  decodeBest(sequences: readonly SessionSequence[]): Promise<Uint32Array> {
    return this.#run(sequences.map(generatedRow));
  }

  close(): void {
    this.loaded.destroy();
  }
}

/** Natural logarithms of the probabilities. */
export function logSoftmax(logits: Float32Array): Float64Array {
  let most = Number.NEGATIVE_INFINITY;
  for (const value of logits) most = Math.max(most, value);
  let sum = 0;
  for (const value of logits) sum += Math.exp(value - most);
  const shift = most + Math.log(sum);
  return Float64Array.from(logits, (value) => value - shift);
}

/** Index of the largest value, the lowest of equals. */
export function best(values: ArrayLike<number>): number {
  let at = 0;
  for (let i = 1; i < values.length; i++) if (values[i]! > values[at]!) at = i;
  return at;
}
