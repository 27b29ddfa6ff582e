/**
 * What drafts are made of besides a step's rows: the tensors, and what the host writes into them.
 *
 * @module
 */
import { DRAW_WORDS, type Draw, writeDraw } from "../../kernels/sampling/sample.ts";
import { END_WORDS, ENTRY_WORDS } from "../../kernels/speculation/accept_rows.ts";
import { CONTINUED_WORDS, STAYS } from "../../kernels/speculation/continue_rows.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Batch, BatchSequence, DraftedSequence, DraftStep } from "./batch.ts";
import { ROW_WORDS } from "./step_tensors.ts";
import { allocateTreeTensors, type DraftTreeSizes, type TreeTensors } from "./tree_tensors.ts";

export interface DraftTensors {
  /** `[maxRows]` u32: the source of the token behind each row */
  readonly nextSources: Tensor;
  /** `[maxSequences, ENTRY_WORDS]` u32: first of its logit rows, their count, positions it has pages for */
  readonly entries: Tensor;
  /** `[maxSequences * beams]` u32: 0, 1, 2, ... */
  readonly places: Tensor;
  /** `[maxSequences]` u32: the last row of each that its drawn tokens agree with */
  readonly lastRows: Tensor;
  /** `[maxSequences * beams, ROW_WORDS]` u32: the rows that the next drafts come from */
  readonly rows: Tensor;
  /** `[maxSequences, END_WORDS]` u32: drafts so far, and what the step has left of each to go on from */
  readonly ends: Tensor;
  /** `[maxRows, CONTINUED_WORDS]` u32: what of the step before each row goes on from */
  readonly continued: Tensor;
  /** `[maxSequences, DRAW_WORDS]`: how the next draft is drawn, where not all are the best */
  readonly draws: Tensor;
  /** `[maxSequences]` u32: the newest draft */
  readonly best: Tensor;
  /** `[maxSequences * beams, hiddenStride]` f32: what the module made of those rows, normed */
  readonly hidden: Tensor;
  /** `[maxSequences * beams, logitsStride]` f32 */
  readonly logits: Tensor;
  readonly logitsStride: number;
  /** Where drafts are trees, which have a row for each beam; else a sequence has one. */
  readonly trees: TreeTensors | undefined;
}

export interface DraftTensorsOptions {
  readonly maxRows: number;
  readonly maxSequences: number;
  readonly maxLogitRows: number;
  readonly hiddenSize: number;
  readonly logitsStride: number;
  /** Of drafts that are trees. */
  readonly tree?: DraftTreeSizes | undefined;
}

export function allocateDraftTensors(
  memory: DeviceMemory,
  options: DraftTensorsOptions,
): DraftTensors {
  const { maxRows, maxSequences, hiddenSize, logitsStride, tree } = options;
  const maxBeams = maxSequences * (tree?.topk ?? 1);
  const allocate = (words: number, label: string) =>
    memory.allocate("activations", words * 4, label);
  const places = allocate(maxBeams, "places of drafted rows");
  memory.write(
    places,
    0,
    Uint32Array.from({ length: maxBeams }, (_, i) => i),
  );
  return {
    nextSources: allocate(maxRows, "next sources"),
    entries: allocate(maxSequences * ENTRY_WORDS, "drafted sequences"),
    places,
    lastRows: allocate(maxSequences, "last accepted rows"),
    rows: allocate(maxBeams * ROW_WORDS, "draft rows"),
    ends: allocate(maxSequences * END_WORDS, "ends of drafted sequences"),
    continued: allocate(maxRows * CONTINUED_WORDS, "continued rows"),
    draws: allocate(maxSequences * DRAW_WORDS, "draws of drafts"),
    best: allocate(maxSequences, "newest drafts"),
    hidden: allocate(maxBeams * Math.ceil(hiddenSize / 4) * 4, "draft hidden rows"),
    logits: allocate(maxBeams * logitsStride, "draft logits"),
    logitsStride,
    trees: tree && allocateTreeTensors(memory, tree, options),
  };
}

/** The draw of the best token. */
const BEST: Draw = {
  temperature: 0,
  topP: 1,
  topK: Number.POSITIVE_INFINITY,
  seed: 0,
  position: 0,
};

/** The host memory that they are filled from. */
export class DraftInputs {
  readonly #tensors: DraftTensors;
  readonly #queue: GPUQueue;
  readonly #positionsPerPage: number;
  readonly #maxPositions: number;
  readonly #sources: Uint32Array<ArrayBuffer>;
  readonly #entries: Uint32Array<ArrayBuffer>;
  readonly #draws: DataView<ArrayBuffer>;
  readonly #continued: Uint32Array<ArrayBuffer>;

  /** @param options `maxPositions`: of a sequence. */
  constructor(
    device: GPUDevice,
    tensors: DraftTensors,
    options: Pick<DraftTensorsOptions, "maxRows" | "maxSequences"> & {
      readonly pageSize: number;
      readonly maxPositions: number;
    },
  ) {
    this.#tensors = tensors;
    this.#queue = device.queue;
    this.#positionsPerPage = options.pageSize;
    this.#maxPositions = options.maxPositions;
    this.#sources = new Uint32Array(options.maxRows);
    this.#entries = new Uint32Array(options.maxSequences * ENTRY_WORDS);
    this.#continued = new Uint32Array(options.maxRows * CONTINUED_WORDS);
    this.#draws = new DataView(new ArrayBuffer(options.maxSequences * DRAW_WORDS * 4));
  }

  /** Writes the source behind each row; rows of padding have token 0 behind them. */
  writeSources(sources: Uint32Array, padding: number): void {
    const { length } = sources;
    this.#sources.set(sources);
    this.#sources.fill(0, length, length + padding);
    this.#send(this.#tensors.nextSources, this.#sources, length + padding);
  }

  /**
   * Writes which rows go on from the step before, and from what of it.
   *
   * @param before What that step did for drafts.
   * @param padding Rows that fill the batch up.
   */
  writeContinued(
    { sequences, sources, logitRows }: Batch,
    before: DraftStep,
    padding: number,
  ): void {
    const words = this.#continued;
    const end = (sources.length + padding) * CONTINUED_WORDS;
    words.fill(STAYS, 0, end);
    for (const { continues, queryStart, queryLength } of sequences) {
      if (continues === undefined) continue;
      const firstId = before.firstId + continues.from;
      for (let draft = 0; draft < queryLength; draft++) {
        const id = firstId + Math.max(draft - 1, 0) * before.sequences;
        words.set([continues.from, draft, id], (queryStart + draft) * CONTINUED_WORDS);
      }
    }
    for (let i = 0; i < logitRows.length; i++) words[logitRows[i]! * CONTINUED_WORDS + 3] = i;
    this.#send(this.#tensors.continued, words, end);
  }

  /**
   * Writes the sequences that get drafts.
   *
   * @param padding `count` more of them, whose only row of logits is number `logitRow`.
   */
  writeEntries(
    sequences: readonly BatchSequence[],
    drafted: readonly DraftedSequence[],
    padding: { readonly count: number; readonly logitRow: number },
  ): void {
    drafted.forEach(({ sequence, firstLogitRow, logitRows }, i) => {
      const pages = sequences[sequence]!.pageTable.length;
      const positions = Math.min(pages * this.#positionsPerPage, this.#maxPositions);
      this.#entries.set([firstLogitRow, logitRows, positions, 0], i * ENTRY_WORDS);
    });
    for (let i = 0; i < padding.count; i++) {
      this.#entries.set([padding.logitRow, 1, 0, 0], (drafted.length + i) * ENTRY_WORDS);
    }
    const words = (drafted.length + padding.count) * ENTRY_WORDS;
    this.#send(this.#tensors.entries, this.#entries, words);
  }

  /**
   * Writes how the first row of logits of each sequence is drawn: its drafts are drawn alike, at
   * positions that the GPU finds.
   *
   * @param padding Sequences of padding, whose drafts are the best tokens.
   */
  writeDraws(draws: readonly Draw[], padding: number): void {
    draws.forEach((draw, i) => {
      writeDraw(this.#draws, i, draw);
    });
    for (let i = 0; i < padding; i++) writeDraw(this.#draws, draws.length + i, BEST);
    const bytes = (draws.length + padding) * DRAW_WORDS * 4;
    const { buffer, offset } = this.#tensors.draws;
    this.#queue.writeBuffer(buffer, offset, this.#draws.buffer, 0, bytes);
  }

  #send({ buffer, offset }: Tensor, data: Uint32Array<ArrayBuffer>, words: number): void {
    if (words > 0) this.#queue.writeBuffer(buffer, offset, data, 0, words);
  }
}
