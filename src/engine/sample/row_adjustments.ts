/**
 * Penalties, token masks and biases on their way to the GPU, for the rows of a step that have any.
 *
 * The table of counts is as large as the logits, so it is allocated when the first request brings a
 * penalty; the list of biases grows with what is asked for.
 *
 * @module
 */
import {
  ADJUST_WORDS,
  type Adjustment,
  adjust,
  maskWords,
  writeAdjustment,
} from "../../../kernels/sampling/adjust.ts";
import { count } from "../../../kernels/sampling/count.ts";
import { KernelError } from "../../errors.ts";
import { allocating } from "../../gpu/device.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import { PenaltySlots, writeCounts } from "./penalty_slots.ts";
import type { SampledRow } from "./sampled_row.ts";

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

const BIAS_WORDS = 2;
const FIRST_BIAS_CAPACITY = 512;

const biasCount = ({ biases }: SampledRow): number => biases?.tokens.length ?? 0;

const hasWork = (row: SampledRow): boolean =>
  row.penalties !== undefined || row.mask !== undefined || biasCount(row) > 0;

export class RowAdjustments {
  readonly #options: RowAdjustmentsOptions;
  readonly #memory: DeviceMemory;
  readonly #items: Tensor;
  readonly #masks: Tensor;
  #counts: Tensor;
  #biases: Tensor;
  readonly #hostItems: DataView<ArrayBuffer>;
  #hostBiases: DataView<ArrayBuffer>;
  #slots: PenaltySlots | undefined;
  /** One row of counts while it is written. */
  #hostCounts = new Uint32Array(0);
  #itemCount = 0;
  #countsAny = false;
  #adjust: (items: number) => void = () => {};
  #count: (items: number) => void = () => {};

  constructor(memory: DeviceMemory, options: RowAdjustmentsOptions) {
    const { maxRows, vocabularySize } = options;
    const allocate = (words: number, label: string) =>
      memory.allocate("activations", words * 4, label);
    this.#options = options;
    this.#memory = memory;
    this.#items = allocate(maxRows * ADJUST_WORDS, "logit adjustments");
    this.#masks = allocate(maxRows * maskWords(vocabularySize), "token masks");
    this.#counts = allocate(1, "no token counts");
    this.#biases = allocate(FIRST_BIAS_CAPACITY * BIAS_WORDS, "logit biases");
    this.#hostItems = new DataView(new ArrayBuffer(maxRows * ADJUST_WORDS * 4));
    this.#hostBiases = new DataView(new ArrayBuffer(FIRST_BIAS_CAPACITY * BIAS_WORDS * 4));
  }

  /** Adds the launch that changes logits. */
  compile(plan: Plan<Step>): void {
    this.#bind(plan.recorder);
    plan.addVarying(() => this.#adjust(this.#itemCount));
  }

  /** Adds the launch that counts what was sampled. */
  compileCounting(plan: Plan<Step>): void {
    plan.addVarying(() => this.#count(this.#countsAny ? this.#itemCount : 0));
  }

  /**
   * Allocates what the next step's rows need and is not there yet.
   *
   * @returns `undefined` when there is nothing to wait for.
   * @throws {DeviceError} when the device has no memory for it.
   */
  makeRoom(recorder: Recorder, rows: readonly SampledRow[]): Promise<void> | undefined {
    const { maxPenalizedRows, vocabularySize } = this.#options;
    const biases = rows.reduce((sum, row) => sum + biasCount(row), 0);
    const capacity = this.#biases.size / (BIAS_WORDS * 4);
    const penalties = rows.some((row) => row.penalties !== undefined);
    const countTokens = penalties && this.#slots === undefined;
    if (biases <= capacity && !countTokens) return undefined;
    return allocating(recorder.device, "memory for penalties and biases", () => {
      if (countTokens) {
        const bytes = maxPenalizedRows * vocabularySize * 4;
        this.#counts = this.#memory.allocate("activations", bytes, "token counts");
        this.#slots = new PenaltySlots(maxPenalizedRows);
        this.#hostCounts = new Uint32Array(vocabularySize);
      }
      if (biases > capacity) {
        const bytes = Math.max(biases, 2 * capacity) * BIAS_WORDS * 4;
        this.#biases = this.#memory.allocate("activations", bytes, "logit biases");
        this.#hostBiases = new DataView(new ArrayBuffer(bytes));
      }
      this.#bind(recorder);
    });
  }

  /**
   * Takes the next step's rows.
   *
   * @returns Whether any of them is adjusted.
   */
  prepare(rows: readonly SampledRow[]): boolean {
    this.#itemCount = 0;
    this.#countsAny = false;
    if (!rows.some(hasWork)) return false;
    this.#slots?.beginStep();
    let firstBias = 0;
    rows.forEach((row, r) => {
      if (!hasWork(row)) return;
      this.#writeBiases(row, firstBias);
      const adjustment: Adjustment = {
        row: r,
        penalties: this.#penalties(row),
        mask: this.#mask(row, r),
        firstBias,
        biasCount: biasCount(row),
      };
      writeAdjustment(this.#hostItems, this.#itemCount, adjustment);
      this.#itemCount += 1;
      firstBias += biasCount(row);
    });
    const send = (to: Tensor, { buffer }: DataView<ArrayBuffer>, words: number) => {
      if (words > 0) this.#memory.write(to, 0, new Uint32Array(buffer, 0, words));
    };
    send(this.#items, this.#hostItems, this.#itemCount * ADJUST_WORDS);
    send(this.#biases, this.#hostBiases, firstBias * BIAS_WORDS);
    return true;
  }

  #penalties({ penalties, position }: SampledRow): Adjustment["penalties"] {
    if (penalties === undefined) return undefined;
    const { history, repetition, frequency, presence } = penalties;
    const bytes = this.#options.vocabularySize * 4;
    const slot = this.#slots!.take(history, position, (index) => {
      writeCounts(this.#hostCounts, history);
      this.#memory.write(this.#counts, index * bytes, this.#hostCounts);
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

  #writeBiases({ biases }: SampledRow, first: number): void {
    biases?.tokens.forEach((token, i) => {
      const at = (first + i) * BIAS_WORDS * 4;
      this.#hostBiases.setUint32(at, token, true);
      this.#hostBiases.setFloat32(at + 4, biases.values[i]!, true);
    });
  }

  #bind(recorder: Recorder): void {
    const { logits, logitsStride: stride, sampled, vocabularySize: vocabulary } = this.#options;
    const [items, counts, masks, biases] = [this.#items, this.#counts, this.#masks, this.#biases];
    this.#adjust = adjust(recorder, { items, counts, masks, biases, logits, stride, vocabulary });
    this.#count = count(recorder, { items, ids: sampled, counts, vocabulary });
  }
}
