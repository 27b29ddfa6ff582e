/**
 * What the host writes before a step and every layer may read.
 *
 * @module
 */
import { PATH_WORDS } from "../../kernels/attention/tree_paths.ts";
import { KernelError } from "../errors.ts";
import type { StepArrays } from "../gpu/launch_cost.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Tensor } from "../gpu/tensor.ts";
import { PartedRope, type PartedRopeShape } from "./attention/parted_rope.ts";
import {
  type AttentionCut,
  ITEM_WORDS,
  maxPasses,
  type PassGeometry,
  PrefillPasses,
} from "./attention/prefill_passes.ts";
import { fillRowGroups, GROUP_WORDS } from "./attention/row_groups.ts";
import { TreeRows } from "./attention/tree_rows.ts";
import type { Batch, Step } from "./batch.ts";
import { isTree } from "./draft_tree.ts";

/**
 * Words of a row: source, position, slot, index of its sequence's first page in `pageTables`, or of
 * its path where decode rows follow paths.
 */
export const ROW_WORDS = 4;
const NO_PAGE = 0xffffffff;
/** Words that are sent for nothing rather than in another write, which takes as long. */
const WORTH_A_WRITE = 4096;

export interface StepTensors {
  /** `[maxRows, 4]` u32: source, position, slot, first page-table entry, or path of a step with trees */
  readonly rows: Tensor;
  /**
   * `[maxSequences, maxPages]` page numbers, behind them the page of padding, and where batches may
   * have trees, `[maxRows, PATH_WORDS]` the paths of decode rows, and those of drafted rows: a binding
   * more would be too many
   */
  readonly pageTables: Tensor;
  /** The word of `pageTables` where `[maxDraftRows, PATH_WORDS]` paths of drafted rows begin. */
  readonly firstDraftPath: number;
  /** Whether batches may have draft trees. */
  readonly takesTrees: boolean;
  /** `[maxPasses, capacity]` u32; without a workspace one unused word */
  readonly keySlots: Tensor;
  /** `[maxPasses * maxRows, 8]` u32 */
  readonly items: Tensor;
  /** The same for a draft network that reads the cache itself; only where it is cut in another way */
  readonly draftItems: Tensor | undefined;
  /** `[maxRows, 2]` u32: decode rows that share reads; only where they do */
  readonly rowGroups: Tensor | undefined;
  /** `[maxRows]` u32: rows whose logits are wanted */
  readonly logitRows: Tensor;
  /** `[maxRows + maxDraftIds]` u32: ids sampled in the previous step, and drafts behind them */
  readonly sampled: Tensor;
  /** `[maxRows, hiddenSize padded to 4]` f32: embeddings made elsewhere */
  readonly external: Tensor;
  /** What rows turn by, where positions have parts; else a table has it. */
  readonly parted: PartedTensors | undefined;
}

export interface PartedTensors {
  /** `[maxRows, dim]` f32: cosine and sine of each pair of a row */
  readonly turns: Tensor;
  /** `[maxRows, 4]` u32: as `rows`, with the row's number in place of its position */
  readonly rows: Tensor;
}

export interface StepTensorsOptions extends PassGeometry {
  readonly hiddenSize: number;
  readonly maxSequences: number;
  /** Pages of one sequence. */
  readonly maxPages: number;
  /** Drafts of all sequences of a step. */
  readonly maxDraftIds: number;
  /** Slot of the cache that rows of padding write to and read from, the first of a page. */
  readonly paddingSlot: number;
  /** Whether decode rows of one sequence share the reads of attention. */
  readonly sharesReads: boolean;
  /** Nodes of a sequence's draft tree at most, 0 without trees. */
  readonly maxTreeNodes: number;
  /** Rows that follow paths and that the GPU drafts itself. Default 0. */
  readonly maxDraftRows?: number;
  /** How a draft network's attention is cut. Default: as the target's. */
  readonly draftCut?: AttentionCut | undefined;
  /** Where positions have parts. */
  readonly partedRope?: PartedRopeShape | undefined;
}

export function allocateStepTensors(
  memory: DeviceMemory,
  options: StepTensorsOptions,
): StepTensors {
  const { maxRows, capacity, sharesReads, maxDraftRows = 0 } = options;
  const takesTrees = options.maxTreeNodes > 0;
  const firstDraftPath = firstPath(options) + (takesTrees ? maxRows * PATH_WORDS : 0);
  const passes = maxPasses(options);
  const allocate = (words: number, label: string) =>
    memory.allocate("activations", words * 4, label);
  return {
    rows: allocate(maxRows * ROW_WORDS, "step rows"),
    pageTables: allocate(firstDraftPath + maxDraftRows * PATH_WORDS, "page tables"),
    firstDraftPath,
    takesTrees,
    keySlots: allocate(Math.max(passes * capacity, 1), "key slots"),
    items: allocate(passes * maxRows * ITEM_WORDS, "prefill items"),
    draftItems: options.draftCut && allocate(maxRows * ITEM_WORDS, "draft prefill items"),
    rowGroups: sharesReads ? allocate(maxRows * GROUP_WORDS, "row groups") : undefined,
    logitRows: allocate(maxRows, "logit rows"),
    sampled: allocate(maxRows + options.maxDraftIds, "sampled ids"),
    external: allocate(maxRows * hiddenStrideOf(options), "external rows"),
    parted: options.partedRope && {
      turns: allocate(maxRows * options.partedRope.dim, "turns of rows"),
      rows: allocate(maxRows * ROW_WORDS, "turned rows"),
    },
  };
}

/** The word of `pageTables` behind the page numbers, and the page of padding. */
const firstPath = ({
  maxSequences,
  maxPages,
}: Pick<StepTensorsOptions, "maxSequences" | "maxPages">) => maxSequences * maxPages + 1;

const hiddenStrideOf = ({ hiddenSize }: Pick<StepTensorsOptions, "hiddenSize">) =>
  Math.ceil(hiddenSize / 4) * 4;

/** The tensors and the host memory they are filled from; a step that changes nothing writes nothing. */
export class StepInputs {
  readonly tensors: StepTensors;
  readonly prefill: PrefillPasses;
  /** Where a draft network's attention is cut in its own way. */
  readonly draftPrefill: PrefillPasses | undefined;
  /** Groups of the last batch's decode rows; 0 where each row reads for itself. */
  groupCount = 0;
  readonly #groups: Uint32Array<ArrayBuffer>;
  readonly #device: GPUDevice;
  readonly #pageSize: number;
  readonly #capacity: number;
  readonly #hiddenStride: number;
  readonly #rows: Uint32Array<ArrayBuffer>;
  readonly #pages: Uint32Array<ArrayBuffer>;
  readonly #maxPages: number;
  /** By place in the batch: the table that stands there, and how much of it. */
  readonly #tables: (readonly number[])[] = [];
  readonly #written: number[] = [];
  /** Entries of page tables that are still to be sent, `[first, end)`; none when both are 0. */
  #changedFirst = 0;
  #changedEnd = 0;
  readonly #trees: TreeRows;
  readonly #firstPath: number;
  readonly #logitRows: Uint32Array<ArrayBuffer>;
  readonly #paddingSlot: number;
  readonly #paddingEntry: number;
  readonly #rope: PartedRope | undefined;
  readonly #turnedRows: Uint32Array<ArrayBuffer>;

  constructor(device: GPUDevice, memory: DeviceMemory, options: StepTensorsOptions) {
    const { maxRows, capacity, maxSequences, maxPages, paddingSlot } = options;
    const pageEntries = maxSequences * maxPages;
    this.tensors = allocateStepTensors(memory, options);
    this.prefill = new PrefillPasses(options);
    const { draftCut } = options;
    this.draftPrefill = draftCut && new PrefillPasses({ ...options, ...draftCut, capacity: 0 });
    this.#device = device;
    this.#pageSize = options.pageSize;
    this.#capacity = capacity;
    this.#hiddenStride = hiddenStrideOf(options);
    this.#rows = new Uint32Array(maxRows * ROW_WORDS);
    // No page has this number, so that whatever comes first is a change.
    this.#pages = new Uint32Array(pageEntries + 1).fill(NO_PAGE);
    this.#maxPages = maxPages;
    this.#groups = new Uint32Array(maxRows * GROUP_WORDS);
    this.#firstPath = firstPath(options);
    this.#trees = new TreeRows({ ...options, firstWord: this.#firstPath });
    this.#logitRows = new Uint32Array(maxRows);
    const { partedRope } = options;
    this.#rope = partedRope && new PartedRope(partedRope, maxRows);
    this.#turnedRows = new Uint32Array(partedRope === undefined ? 0 : maxRows * ROW_WORDS);
    this.#paddingSlot = paddingSlot;
    this.#paddingEntry = pageEntries;
    this.#pages[pageEntries] = paddingSlot / options.pageSize;
    this.#send(this.tensors.pageTables, this.#pages, 1, pageEntries);
  }

  /**
   * Writes a batch to the GPU.
   *
   * @param padding Rows that fill it up. They are tokens without a past, their logits are wanted,
   * and nothing of them is ever read.
   * @throws {KernelError} when it has a draft tree that it may not have.
   */
  write(batch: Batch, padding = 0): void {
    const { sequences, sources, logitRows } = batch;
    const pageSize = this.#pageSize;
    const rows = this.#rows;
    sequences.forEach(({ queryStart, queryLength, position, pageTable }, s) => {
      for (let i = 0; i < queryLength; i++) {
        const at = (queryStart + i) * ROW_WORDS;
        const p = position + i;
        rows[at] = sources[queryStart + i]!;
        rows[at + 1] = p;
        rows[at + 2] = pageTable[Math.floor(p / pageSize)]! * pageSize + (p % pageSize);
        rows[at + 3] = s * this.#maxPages;
      }
      this.#updatePages(s, pageTable);
    });
    this.#sendPages();
    this.#logitRows.set(logitRows);
    for (let i = 0; i < padding; i++) {
      const row = sources.length + i;
      rows.set([0, 0, this.#paddingSlot, this.#paddingEntry], row * ROW_WORDS);
      this.#logitRows[logitRows.length + i] = row;
    }
    this.#writePaths(batch, padding);
    this.#send(this.tensors.rows, rows, (sources.length + padding) * ROW_WORDS);
    this.#writeTurns(batch, padding);
    this.#send(this.tensors.logitRows, this.#logitRows, logitRows.length + padding);
    this.#writeExternal(batch);
    this.#writeGroups(batch, padding);
    this.#writePasses(batch);
  }

  /** Of positions with parts. Rows of padding turn by what stands there. */
  #writeTurns({ sequences, sources }: Batch, padding: number): void {
    const { parted } = this.tensors;
    if (this.#rope === undefined || parted === undefined) return;
    for (const { queryStart, queryLength, position, places } of sequences) {
      for (let i = 0; i < queryLength; i++) this.#rope.fill(queryStart + i, position + i, places);
    }
    const count = sources.length + padding;
    const rows = this.#turnedRows;
    for (let row = 0; row < count; row++) {
      rows[row * ROW_WORDS + 1] = row;
      rows[row * ROW_WORDS + 2] = this.#rows[row * ROW_WORDS + 2]!;
    }
    this.#send(parted.rows, rows, count * ROW_WORDS);
    const { turns, dim } = this.#rope;
    const { buffer, offset } = parted.turns;
    if (count > 0) this.#device.queue.writeBuffer(buffer, offset, turns, 0, count * dim);
  }

  /** What the last batch wrote; valid until the next. */
  arrays({ rows, decodeRows }: Pick<Step, "rows" | "decodeRows">): StepArrays {
    const used = this.#rows.subarray(0, rows * ROW_WORDS);
    return { rows: used, decodeRows, items: this.prefill.items };
  }

  /** Notes what has changed of a sequence's page table since something stood in its place. */
  #updatePages(place: number, pageTable: readonly number[]): void {
    const first = place * this.#maxPages;
    const end = pageTable.length;
    const isKnown = this.#tables[place] === pageTable && this.#written[place]! <= end;
    let low = end;
    let high = 0;
    for (let i = isKnown ? this.#written[place]! : 0; i < end; i++) {
      if (this.#pages[first + i] === pageTable[i]) continue;
      this.#pages[first + i] = pageTable[i]!;
      low = Math.min(low, i);
      high = i + 1;
    }
    this.#tables[place] = pageTable;
    this.#written[place] = end;
    if (high <= low) return;
    if (this.#changedEnd > 0 && first + low - this.#changedEnd > WORTH_A_WRITE) this.#sendPages();
    if (this.#changedEnd === 0) this.#changedFirst = first + low;
    this.#changedEnd = first + high;
  }

  #sendPages(): void {
    const first = this.#changedFirst;
    this.#send(this.tensors.pageTables, this.#pages, this.#changedEnd - first, first);
    this.#changedFirst = this.#changedEnd = 0;
  }

  #writeExternal({ external = [] }: Batch): void {
    const { buffer, offset } = this.tensors.external;
    external.forEach((row, i) => {
      const at = offset + i * this.#hiddenStride * 4;
      this.#device.queue.writeBuffer(buffer, at, row as Float32Array<ArrayBuffer>);
    });
  }

  /** Has the decode rows of a batch with trees follow paths. */
  #writePaths({ sequences }: Batch, padding: number): void {
    if (!sequences.some(isTree)) return;
    if (!this.tensors.takesTrees) {
      throw new KernelError("draft tree", "this plan is made without trees");
    }
    const words = this.#trees.fill(sequences, this.#rows, padding);
    const { buffer, offset } = this.tensors.pageTables;
    const at = offset + this.#firstPath * 4;
    this.#device.queue.writeBuffer(buffer, at, this.#trees.paths, 0, words);
  }

  #writeGroups({ sequences, sources }: Batch, padding: number): void {
    const { rowGroups } = this.tensors;
    if (rowGroups === undefined) return;
    const filled = { first: sources.length, rows: padding };
    this.groupCount = fillRowGroups(this.#groups, sequences, filled);
    this.#send(rowGroups, this.#groups, this.groupCount * GROUP_WORDS);
  }

  #writePasses({ sequences }: Batch): void {
    const { prefill, tensors } = this;
    prefill.fill(sequences);
    const { draftPrefill: own } = this;
    own?.fill(sequences);
    if (own) this.#send(tensors.draftItems!, own.items, own.itemCount * ITEM_WORDS);
    const { passes, keySlots, items, itemCount } = prefill;
    if (passes.length === 0) return;
    const last = passes.length - 1;
    if (this.#capacity > 0) {
      const keys = last * this.#capacity + passes[last]!.keys;
      this.#send(tensors.keySlots, keySlots, keys);
    }
    this.#send(tensors.items, items, itemCount * ITEM_WORDS);
  }

  #send(to: Tensor, data: Uint32Array<ArrayBuffer>, words: number, first = 0): void {
    if (words === 0) return;
    this.#device.queue.writeBuffer(to.buffer, to.offset + first * 4, data, first, words);
  }
}
