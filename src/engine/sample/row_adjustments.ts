/**
 * Penalties, token masks and biases on their way to the GPU, for the rows of a step that have any.
 *
 * The table of counts is as large as the logits, so it is there only while requests bring penalties;
 * the list of biases grows with what is asked for.
 *
 * @module
 */
import {
  ADJUST_WORDS,
  type Adjustment,
  maskWords,
  writeAdjustment,
} from "../../../kernels/sampling/adjust.ts";
import { KernelError } from "../../errors.ts";
import { allocating } from "../../gpu/device.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import {
  AdjustmentTables,
  BIAS_WORDS,
  LEAST_BIASES,
  type TableSizes,
} from "./adjustment_tables.ts";
import { GrownMemory } from "./grown_memory.ts";
import { writeCounts } from "./penalty_slots.ts";
import { beyond, type GrowingPart, type LogitRows, type SampledRow } from "./sampled_row.ts";

export interface RowAdjustmentsOptions {
  /** Rows that may be sampled in one step. */
  readonly maxRows: number;
  /** Those of them that may have penalties. */
  readonly maxPenalizedRows: number;
  readonly vocabularySize: number;
  /** `[rows, logitsStride]` f32 */
  readonly logits: Tensor;
  readonly logitsStride: number;
  /** `[rows]` u32: where the sampled ids are */
  readonly sampled: Tensor;
}

const biasCount = ({ biases }: SampledRow): number => biases?.tokens.length ?? 0;

const draftCount = ({ penalties }: SampledRow): number => penalties?.drafted?.length ?? 0;

/** Entries in the list of biases, which has a row's drafts in front of its biases. */
const entryCount = (row: SampledRow): number => draftCount(row) + biasCount(row);

const countEntries = (rows: readonly SampledRow[]): number =>
  rows.reduce((sum, row) => sum + entryCount(row), 0);

const hasPenalties = ({ penalties }: SampledRow): boolean => penalties !== undefined;

const hasWork = (row: SampledRow): boolean =>
  hasPenalties(row) || row.mask !== undefined || biasCount(row) > 0;

export class RowAdjustments {
  readonly #options: RowAdjustmentsOptions;
  readonly #memory: DeviceMemory;
  readonly #items: Tensor;
  readonly #masks: Tensor;
  readonly #hostItems: DataView<ArrayBuffer>;
  #recorder: Recorder | undefined;
  #tables: GrownMemory<AdjustmentTables> | undefined;
  #itemCount = 0;
  #countsAny = false;

  constructor(memory: DeviceMemory, options: RowAdjustmentsOptions) {
    const { maxRows, vocabularySize } = options;
    const allocate = (words: number, label: string) =>
      memory.allocate("activations", words * 4, label);
    this.#options = options;
    this.#memory = memory;
    this.#items = allocate(maxRows * ADJUST_WORDS, "logit adjustments");
    this.#masks = allocate(maxRows * maskWords(vocabularySize), "token masks");
    this.#hostItems = new DataView(new ArrayBuffer(maxRows * ADJUST_WORDS * 4));
  }

  get #current(): AdjustmentTables {
    return this.#tables!.current;
  }

  /** Adds the launch that changes logits. */
  compile(plan: Plan<Step>): void {
    this.#recorder = plan.recorder;
    this.#tables = new GrownMemory(this.#allocate({ counts: undefined, biases: LEAST_BIASES }));
    plan.addVarying(() => this.#current.launches.adjust(this.#itemCount));
  }

  /** Adds the launch that counts what was sampled. */
  compileCounting(plan: Plan<Step>): void {
    plan.addVarying(() => this.#current.launches.count(this.#countsAny ? this.#itemCount : 0));
  }

  /** The counts of tokens, and the list of biases. */
  get parts(): readonly GrowingPart[] {
    const counts: GrowingPart = {
      isShortFor: ({ sampled }) => this.#current.counts === undefined && sampled.some(hasPenalties),
      growFor: () => this.#grow({ counts: "new", biases: this.#current.biasCapacity }),
      without: (rows, error) => refuse(rows, hasPenalties, error),
    };
    const biases: GrowingPart = {
      isShortFor: ({ sampled }) => countEntries(sampled) > this.#current.biasCapacity,
      growFor: ({ sampled }) => {
        const { counts, biasCapacity } = this.#current;
        const most = Math.max(countEntries(sampled), 2 * biasCapacity);
        return this.#grow({ counts, biases: most });
      },
      without: (rows, error) => {
        const gone = beyond(rows.sampled.map(entryCount), this.#current.biasCapacity);
        return refuse(rows, (_, i) => gone.has(i), error);
      },
    };
    return [counts, biases];
  }

  async #grow(sizes: TableSizes): Promise<void> {
    let tables: AdjustmentTables | undefined;
    try {
      await allocating(this.#recorder!.device, "memory for penalties and biases", () => {
        tables = this.#allocate(sizes);
      });
    } catch (error) {
      tables?.free();
      throw error;
    }
    tables!.takeCountsOf(this.#current);
    this.#tables!.grow(tables!);
  }

  #allocate(sizes: TableSizes): AdjustmentTables {
    return AdjustmentTables.allocate(
      { ...this.#options, recorder: this.#recorder!, memory: this.#memory },
      { items: this.#items, masks: this.#masks, sizes },
    );
  }

  /**
   * Takes the next step's rows, which there is room for.
   *
   * @returns Whether any of them is adjusted.
   */
  prepare(rows: readonly SampledRow[]): boolean {
    this.#itemCount = 0;
    this.#countsAny = false;
    this.#tables!.beginStep(rows.some(hasPenalties) || countEntries(rows) > LEAST_BIASES);
    if (!rows.some(hasWork)) return false;
    this.#current.counts?.slots.beginStep();
    let entries = 0;
    rows.forEach((row, r) => {
      if (!hasWork(row)) return;
      const firstBias = entries + draftCount(row);
      this.#writeEntries(row, r, entries);
      const adjustment: Adjustment = {
        row: r,
        penalties: this.#penalties(row),
        mask: this.#mask(row, r),
        firstBias,
        biasCount: biasCount(row),
        draftCount: draftCount(row),
      };
      writeAdjustment(this.#hostItems, this.#itemCount, adjustment);
      this.#itemCount += 1;
      entries += entryCount(row);
    });
    const send = (to: Tensor, { buffer }: DataView<ArrayBuffer>, words: number) => {
      if (words > 0) this.#memory.write(to, 0, new Uint32Array(buffer, 0, words));
    };
    send(this.#items, this.#hostItems, this.#itemCount * ADJUST_WORDS);
    send(this.#current.biases, this.#current.hostBiases, entries * BIAS_WORDS);
    return true;
  }

  #penalties({ penalties, position }: SampledRow): Adjustment["penalties"] {
    if (penalties === undefined) return undefined;
    const { history, drafted = [], repetition, frequency, presence } = penalties;
    const bytes = this.#options.vocabularySize * 4;
    const { slots, table, host } = this.#current.counts!;
    const slot = slots.take(history, { position, drafts: drafted.length }, (index) => {
      writeCounts(host, history);
      this.#memory.write(table, index * bytes, host);
    });
    this.#countsAny = true;
    return { slot, repetition, frequency, presence };
  }

  #mask({ mask }: SampledRow, r: number): number | undefined {
    if (mask === undefined) return undefined;
    const words = maskWords(this.#options.vocabularySize);
    if (mask.length !== words) {
      throw new KernelError("sampling/adjust", `a token mask has ${mask.length} words of ${words}`);
    }
    this.#memory.write(this.#masks, r * words * 4, Uint32Array.from(mask));
    return r;
  }

  #writeEntries({ biases, penalties }: SampledRow, row: number, first: number): void {
    const { hostBiases } = this.#current;
    const { drafted = [], drawnBefore } = penalties ?? {};
    drafted.forEach((token, i) => {
      const at = (first + i) * BIAS_WORDS * 4;
      hostBiases.setUint32(at, token, true);
      hostBiases.setUint32(at + 4, row - (drawnBefore?.[i] ?? drafted.length - i), true);
    });
    biases?.tokens.forEach((token, i) => {
      const at = (first + drafted.length + i) * BIAS_WORDS * 4;
      hostBiases.setUint32(at, token, true);
      hostBiases.setFloat32(at + 4, biases.values[i]!, true);
    });
  }

  destroy(): void {
    this.#tables?.destroy();
  }
}

/** Rows of which some go on without what they asked for, which they are told. */
function refuse(
  { sampled, scored }: LogitRows,
  isRefused: (row: SampledRow, index: number) => boolean,
  error: unknown,
): LogitRows {
  const left = sampled.map((row, i) => {
    if (!isRefused(row, i)) return row;
    row.fail?.(error);
    return { ...row, penalties: undefined, biases: undefined };
  });
  return { sampled: left, scored };
}
