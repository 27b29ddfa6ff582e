/**
 * The tables on the GPU that adjust logits, as large as the rows of a step need them, and the launches
 * that are bound to them.
 *
 * @module
 */
import { adjust } from "../../../kernels/sampling/adjust.ts";
import { count } from "../../../kernels/sampling/count.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import { type Allocations, allocateAll, type Freeable } from "./grown_memory.ts";
import { PenaltySlots } from "./penalty_slots.ts";

export const BIAS_WORDS = 2;
/** Biases of a step that there is always room for. */
export const LEAST_BIASES = 512;

/** How often tokens have come in sequences with penalties. */
export interface CountTable {
  /** `[maxPenalizedRows, vocabularySize]` u32 */
  readonly table: Tensor;
  readonly slots: PenaltySlots;
  /** One row of it while it is written. */
  readonly host: Uint32Array<ArrayBuffer>;
  free(): void;
}

export interface TableSizes {
  /** None, new ones, or those of other tables. */
  readonly counts: undefined | "new" | CountTable;
  /** Biases of all rows. */
  readonly biases: number;
}

export interface TableOptions {
  readonly recorder: Recorder;
  readonly memory: DeviceMemory;
  /** Rows that may have penalties. */
  readonly maxPenalizedRows: number;
  readonly vocabularySize: number;
  /** `[rows, logitsStride]` f32 */
  readonly logits: Tensor;
  readonly logitsStride: number;
  /** `[rows]` u32: where the sampled ids are */
  readonly sampled: Tensor;
}

export interface TableLaunches {
  readonly adjust: (items: number) => void;
  readonly count: (items: number) => void;
}

/** What tables are bound with: the items of a step, and its masks. */
export interface TableSetting {
  readonly items: Tensor;
  readonly masks: Tensor;
  readonly sizes: TableSizes;
}

interface TableParts {
  readonly allocations: Allocations;
  readonly biasCapacity: number;
  /** `[biasCapacity, BIAS_WORDS]` */
  readonly biases: Tensor;
  readonly hostBiases: DataView<ArrayBuffer>;
  readonly counts: CountTable | undefined;
  readonly ownsCounts: boolean;
  readonly launches: TableLaunches;
}

export class AdjustmentTables implements Freeable {
  readonly #parts: TableParts;
  #ownsCounts: boolean;

  private constructor(parts: TableParts) {
    this.#parts = parts;
    this.#ownsCounts = parts.ownsCounts;
  }

  /** Allocates all of them, or nothing. Counts of other tables stay theirs until they are taken over. */
  static allocate(options: TableOptions, { items, masks, sizes }: TableSetting): AdjustmentTables {
    const { recorder, memory, logits, logitsStride: stride, sampled: ids } = options;
    return allocateAll((allocations) => {
      const tensor = (bytes: number, label: string) =>
        allocations.add(memory.allocate("activations", bytes, label), (one) => memory.free(one));
      const ownsCounts = sizes.counts === "new";
      const counts = sizes.counts === "new" ? newCounts(options) : sizes.counts;
      let tables: AdjustmentTables | undefined;
      allocations.add(counts, () => {
        if (tables === undefined ? ownsCounts : tables.#ownsCounts) counts?.free();
      });
      const bytes = sizes.biases * BIAS_WORDS * 4;
      const hostBiases = new DataView(new ArrayBuffer(bytes));
      const biases = tensor(bytes, "logit biases");
      const table = counts?.table ?? tensor(4, "no token counts");
      const { bound: launches, free } = recorder.binding(() => {
        const shape = { logits, stride, vocabulary: options.vocabularySize };
        return {
          adjust: adjust(recorder, { items, counts: table, masks, biases, ...shape }),
          count: count(recorder, {
            items,
            biases,
            ids,
            counts: table,
            vocabulary: shape.vocabulary,
          }),
        };
      });
      allocations.add(free, () => free());
      const made = { allocations, biasCapacity: sizes.biases, biases, hostBiases };
      tables = new AdjustmentTables({ ...made, counts, ownsCounts, launches });
      return tables;
    });
  }

  get biasCapacity(): number {
    return this.#parts.biasCapacity;
  }

  get biases(): Tensor {
    return this.#parts.biases;
  }

  get hostBiases(): DataView<ArrayBuffer> {
    return this.#parts.hostBiases;
  }

  /** Absent where no row may have penalties. */
  get counts(): CountTable | undefined {
    return this.#parts.counts;
  }

  get launches(): TableLaunches {
    return this.#parts.launches;
  }

  /** Takes the counts over from the tables that they were allocated for, where they are the same. */
  takeCountsOf(other: AdjustmentTables): void {
    if (this.counts === undefined || other.counts !== this.counts) return;
    this.#ownsCounts = other.#ownsCounts;
    other.#ownsCounts = false;
  }

  free(): void {
    this.#parts.allocations.free();
  }
}

function newCounts({ memory, maxPenalizedRows, vocabularySize }: TableOptions): CountTable {
  const slots = new PenaltySlots(maxPenalizedRows);
  const host = new Uint32Array(vocabularySize);
  const bytes = maxPenalizedRows * vocabularySize * 4;
  const table = memory.allocate("activations", bytes, "token counts");
  return { table, slots, host, free: () => memory.free(table) };
}
