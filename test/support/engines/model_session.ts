/**
 * Drives a loaded model without an engine: sequences, pages and batches are the test's own, and
 * every row's logits can be read.
 *
 * @module
 */
import { join } from "node:path";
import { movesOfPath } from "../../../src/cache/entry_mover.ts";
import { PagePool } from "../../../src/cache/page_pool.ts";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { type LoadedModel, loadModel } from "../../../src/engine/load/load.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { StepOptions } from "../../../src/engine/step/model_runner.ts";
import type { RunOptions } from "../../../src/gpu/plan.ts";
import type { Batch, BatchSequence } from "../../../src/layers/batch.ts";
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
  async run(parts: readonly (Rows | TreeRows)[], options?: RunOptions): Promise<Float32Array[]> {
    const { runner, device: own } = this.loaded;
    const { length } = await this.#run(parts, { keepsLogits: true, ...options });
    const stride = runner.logitsStride;
    const bytes = await download(runner.logits.buffer, 0, length * stride * 4, own);
    const all = new Float32Array(bytes);
    return Array.from({ length }, (_, i) =>
      all.slice(i * stride, i * stride + this.#vocabularySize),
    );
  }

  /** Computes rows as an engine does and returns the best token after each. */
  async #run(parts: readonly (Rows | TreeRows)[], options?: StepOptions): Promise<Uint32Array> {
    const sources: number[] = [];
    const sequences: BatchSequence[] = parts.map((part) => {
      const { sequence, phase } = part;
      const { tokens, computed, pageTable } = sequence;
      const own =
        part.phase === "verify" ? part.tokens : tokens.slice(computed, computed + part.count);
      const missing = this.#pool.pagesFor(computed + own.length) - pageTable.length;
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
    const sampled = sources.map(() => ({ sampling: GREEDY, position: 0 }));
    return this.loaded.runner.run(batch, sampled, options);
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
