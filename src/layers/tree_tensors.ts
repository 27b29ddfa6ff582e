/**
 * What drafts as trees are made of besides the drafts' other tensors, and what the host writes into
 * them.
 *
 * @module
 */
import { MAX_TREE_DEPTH } from "../../kernels/attention/tree_paths.ts";
import { STAYS } from "../../kernels/speculation/continue_rows.ts";
import { TREE_ENTRY_WORDS } from "../../kernels/speculation/trees/accept_trees.ts";
import { CONTINUED_NODE_WORDS } from "../../kernels/speculation/trees/continue_trees.ts";
import { CANDIDATE_WORDS, poolStart } from "../../kernels/speculation/trees/grow_beams.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Batch, DraftedSequence, DraftStep } from "./batch.ts";

/** How far and how wide trees of drafts go. */
export interface DraftTreeSizes {
  /** Drafts that follow each other. */
  readonly steps: number;
  /** Drafts behind each beam, and beams. */
  readonly topk: number;
  /** Nodes of a tree, its root among them. */
  readonly draftTokens: number;
}

export interface TreeTensors extends DraftTreeSizes {
  /** `[maxSequences, TREE_ENTRY_WORDS]` u32 */
  readonly entries: Tensor;
  /** `[maxLogitRows]` u32: by row of logits, its node's parent */
  readonly parents: Tensor;
  /** `[maxRows, CONTINUED_NODE_WORDS]` u32: of which tree of the step before each row is a node */
  readonly continued: Tensor;
  /** `[maxSequences, topk]` u32: the row that each beam's row follows */
  readonly parentRows: Tensor;
  /** `[maxSequences * topk, topk]` u32 and f32: the likeliest tokens behind each beam */
  readonly tokens: Tensor;
  readonly probabilities: Tensor;
  /** `[maxSequences, poolSize, CANDIDATE_WORDS]` */
  readonly pool: Tensor;
  readonly poolSize: number;
  /** `[maxSequences, topk]` u32 */
  readonly beams: Tensor;
  /** `[maxSequences, 2]` and `[maxSequences * MAX_TREE_DEPTH, 2]` u32: how entries move together */
  readonly runs: Tensor;
  readonly moves: Tensor;
}

export function allocateTreeTensors(
  memory: DeviceMemory,
  tree: DraftTreeSizes,
  {
    maxRows,
    maxSequences,
    maxLogitRows,
  }: { readonly maxRows: number; readonly maxSequences: number; readonly maxLogitRows: number },
): TreeTensors {
  const { steps, topk } = tree;
  const allocate = (words: number, label: string) =>
    memory.allocate("activations", words * 4, label);
  const beams = maxSequences * topk;
  const poolSize = poolStart(steps, topk);
  return {
    ...tree,
    entries: allocate(maxSequences * TREE_ENTRY_WORDS, "sequences of draft trees"),
    parents: allocate(maxLogitRows, "parents of draft trees"),
    continued: allocate(maxRows * CONTINUED_NODE_WORDS, "continued nodes"),
    parentRows: allocate(beams, "parent rows of beams"),
    tokens: allocate(beams * topk, "likeliest drafts"),
    probabilities: allocate(beams * topk, "probabilities of drafts"),
    pool: allocate(maxSequences * poolSize * CANDIDATE_WORDS, "draft candidates"),
    poolSize,
    beams: allocate(beams, "beams"),
    runs: allocate(maxSequences * 2, "runs of moves"),
    moves: allocate(maxSequences * MAX_TREE_DEPTH * 2, "moves of entries"),
  };
}

/** The host memory that they are filled from. */
export class TreeInputs {
  readonly #tensors: TreeTensors;
  readonly #queue: GPUQueue;
  readonly #pageSize: number;
  readonly #maxPages: number;
  readonly #entries: Uint32Array<ArrayBuffer>;
  readonly #parents: Uint32Array<ArrayBuffer>;
  readonly #continued: Uint32Array<ArrayBuffer>;

  /** @param options `maxPages`: of one sequence in the page tables. */
  constructor(
    device: GPUDevice,
    tensors: TreeTensors,
    options: {
      readonly maxRows: number;
      readonly maxSequences: number;
      readonly maxLogitRows: number;
      readonly pageSize: number;
      readonly maxPages: number;
    },
  ) {
    this.#tensors = tensors;
    this.#queue = device.queue;
    this.#pageSize = options.pageSize;
    this.#maxPages = options.maxPages;
    this.#entries = new Uint32Array(options.maxSequences * TREE_ENTRY_WORDS);
    this.#parents = new Uint32Array(options.maxLogitRows);
    this.#continued = new Uint32Array(options.maxRows * CONTINUED_NODE_WORDS);
  }

  /**
   * Writes which rows are nodes of trees of the step before.
   *
   * @param before What that step did for drafts.
   * @param padding Rows that fill the batch up.
   */
  writeContinued(
    { sequences, sources, logitRows }: Batch,
    { firstId, nodes }: DraftStep,
    padding: number,
  ): void {
    const words = this.#continued;
    const end = (sources.length + padding) * CONTINUED_NODE_WORDS;
    words.fill(STAYS, 0, end);
    for (const { continues, queryStart, queryLength } of sequences) {
      if (continues === undefined) continue;
      const tokens = firstId + continues.from * 2 * nodes;
      for (let node = 0; node < queryLength; node++) {
        const at = (queryStart + node) * CONTINUED_NODE_WORDS;
        words.set([continues.from, node, tokens, tokens + nodes], at);
      }
    }
    for (let i = 0; i < logitRows.length; i++) words[logitRows[i]! * CONTINUED_NODE_WORDS + 4] = i;
    const { buffer, offset } = this.#tensors.continued;
    if (end > 0) this.#queue.writeBuffer(buffer, offset, words, 0, end);
  }

  /**
   * Writes the sequences whose trees are walked, and that get drafts.
   *
   * @param padding `count` more of them without a place, whose only row of logits is number `logitRow`.
   */
  write(
    { sequences }: Batch,
    drafted: readonly DraftedSequence[],
    padding: { readonly count: number; readonly logitRow: number },
  ): void {
    const { entries, parents } = this.#tensors;
    let end = 0;
    drafted.forEach(({ sequence, firstLogitRow, logitRows }, i) => {
      const { pageTable, tree } = sequences[sequence]!;
      const places = pageTable.length * this.#pageSize;
      const found = [firstLogitRow, logitRows, places, sequence * this.#maxPages, 0, 0, 0, 0, 0];
      this.#entries.set(found, i * TREE_ENTRY_WORDS);
      if (tree === undefined || logitRows === 1) return;
      // The root's own is not read.
      this.#parents.set(tree.parents.slice(1), firstLogitRow + 1);
      end = Math.max(end, firstLogitRow + logitRows);
    });
    for (let i = 0; i < padding.count; i++) {
      const empty = [padding.logitRow, 1, 0, 0, 0, 0, 0, 0, 0];
      this.#entries.set(empty, (drafted.length + i) * TREE_ENTRY_WORDS);
    }
    const words = (drafted.length + padding.count) * TREE_ENTRY_WORDS;
    this.#queue.writeBuffer(entries.buffer, entries.offset, this.#entries, 0, words);
    if (end > 0) this.#queue.writeBuffer(parents.buffer, parents.offset, this.#parents, 0, end);
  }
}
