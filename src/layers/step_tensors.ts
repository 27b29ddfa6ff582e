/**
 * What the host writes before a step and every layer may read.
 *
 * @module
 */
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Batch } from "./batch.ts";
import { ITEM_WORDS, maxPasses, type PassGeometry, PrefillPasses } from "./prefill_passes.ts";

/** Words of a row: source, position, slot, index of its sequence's first page in `pageTables`. */
const ROW_WORDS = 4;

export interface StepTensors {
  /** `[maxRows, 4]` u32: source, position, slot, first page-table entry */
  readonly rows: Tensor;
  /** Page numbers, one run for each sequence */
  readonly pageTables: Tensor;
  /** `[maxPasses, capacity]` u32; without a workspace one unused word */
  readonly keySlots: Tensor;
  /** `[maxPasses * maxRows, 8]` u32 */
  readonly items: Tensor;
  /** `[maxRows]` u32: rows whose logits are wanted */
  readonly logitRows: Tensor;
  /** `[maxRows]` u32: ids sampled in the previous step */
  readonly sampled: Tensor;
  /** `[maxRows, hiddenSize padded to 4]` f32: embeddings made elsewhere */
  readonly external: Tensor;
}

export interface StepTensorsOptions extends PassGeometry {
  readonly hiddenSize: number;
  /** Page-table entries of all sequences of one batch. */
  readonly maxPageEntries: number;
}

/** The tensors and the host memory they are filled from; a step that changes nothing writes nothing. */
export class StepInputs {
  readonly tensors: StepTensors;
  readonly prefill: PrefillPasses;
  readonly #device: GPUDevice;
  readonly #pageSize: number;
  readonly #capacity: number;
  readonly #hiddenSize: number;
  readonly #hiddenStride: number;
  readonly #rows: Uint32Array<ArrayBuffer>;
  readonly #pages: Uint32Array<ArrayBuffer>;
  #pageCount = 0;

  constructor(device: GPUDevice, memory: DeviceMemory, options: StepTensorsOptions) {
    const { maxRows, capacity, maxPageEntries, hiddenSize } = options;
    const passes = maxPasses(options);
    const hiddenStride = Math.ceil(hiddenSize / 4) * 4;
    const allocate = (words: number, label: string) =>
      memory.allocate("activations", words * 4, label);
    this.tensors = {
      rows: allocate(maxRows * ROW_WORDS, "step rows"),
      pageTables: allocate(maxPageEntries, "page tables"),
      keySlots: allocate(Math.max(passes * capacity, 1), "key slots"),
      items: allocate(passes * maxRows * ITEM_WORDS, "prefill items"),
      logitRows: allocate(maxRows, "logit rows"),
      sampled: allocate(maxRows, "sampled ids"),
      external: allocate(maxRows * hiddenStride, "external rows"),
    };
    this.prefill = new PrefillPasses(options);
    this.#device = device;
    this.#pageSize = options.pageSize;
    this.#capacity = capacity;
    this.#hiddenSize = hiddenSize;
    this.#hiddenStride = hiddenStride;
    this.#rows = new Uint32Array(maxRows * ROW_WORDS);
    this.#pages = new Uint32Array(maxPageEntries);
  }

  /** Writes a batch to the GPU. */
  write(batch: Batch): void {
    const { sequences, sources, logitRows } = batch;
    const pageSize = this.#pageSize;
    let entry = 0;
    let changed = false;
    for (const { queryStart, queryLength, position, pageTable } of sequences) {
      for (let i = 0; i < queryLength; i++) {
        const at = (queryStart + i) * ROW_WORDS;
        const p = position + i;
        this.#rows[at] = sources[queryStart + i]!;
        this.#rows[at + 1] = p;
        this.#rows[at + 2] = pageTable[Math.floor(p / pageSize)]! * pageSize + (p % pageSize);
        this.#rows[at + 3] = entry;
      }
      for (const page of pageTable) {
        if (this.#pages[entry] !== page) {
          this.#pages[entry] = page;
          changed = true;
        }
        entry += 1;
      }
    }
    this.#send(this.tensors.rows, this.#rows, sources.length * ROW_WORDS);
    if (changed || entry > this.#pageCount) this.#send(this.tensors.pageTables, this.#pages, entry);
    this.#pageCount = Math.max(this.#pageCount, entry);
    this.#send(this.tensors.logitRows, logitRows, logitRows.length);
    this.#writeExternal(batch);
    this.#writePasses(batch);
  }

  #writeExternal({ external = [] }: Batch): void {
    const { queue } = this.#device;
    const { buffer, offset } = this.tensors.external;
    const width = this.#hiddenSize;
    const stride = this.#hiddenStride;
    let row = 0;
    for (const run of external) {
      // Rows that stand as the GPU has them go in one piece.
      const piece = width === stride ? run.length : width;
      for (let at = 0; at < run.length; at += piece) {
        queue.writeBuffer(buffer, offset + row * stride * 4, run, at, piece);
        row += piece / width;
      }
    }
  }

  #writePasses({ sequences }: Batch): void {
    const { prefill, tensors } = this;
    prefill.fill(sequences);
    const { passes, keySlots, items, itemCount } = prefill;
    if (passes.length === 0) return;
    const last = passes.length - 1;
    if (this.#capacity > 0) {
      const keys = last * this.#capacity + passes[last]!.keys;
      this.#send(tensors.keySlots, keySlots, keys);
    }
    this.#send(tensors.items, items, itemCount * ITEM_WORDS);
  }

  #send(to: Tensor, data: Uint32Array<ArrayBuffer>, words: number): void {
    if (words > 0) this.#device.queue.writeBuffer(to.buffer, to.offset, data, 0, words);
  }
}
