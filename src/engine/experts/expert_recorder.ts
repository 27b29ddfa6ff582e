/**
 * What the last steps have chosen of experts, while that is recorded.
 *
 * @module
 */
import { UnsupportedError } from "../../errors.ts";
import type {
  ExpertPassRecord,
  ExpertRecord,
  ExpertRecorderMode,
  ExpertRecording,
} from "../../expert_record.ts";
import type { Batch } from "../../layers/batch.ts";
import { balancedness } from "../../parallel/experts/balance_experts.ts";
import type { ExpertLayout } from "../../parallel/experts/expert_layout.ts";
import type { ExpertCounts } from "../step/expert_counter.ts";
import { passRecord, sizeOf } from "./pass_record.ts";

export interface ExpertRecorderOptions {
  /** Of the model, those without experts too. */
  readonly layers: number;
  /** Of a layer; undefined for a model without experts. */
  readonly experts: number | undefined;
  /** Steps that are kept. */
  readonly passes: number;
  /** Default stat: how many rows have chosen each expert. */
  readonly mode?: ExpertRecorderMode | undefined;
  /** How experts lie on the ranks now. */
  layout(): ExpertLayout | undefined;
}

/** Numbers that records of steps consist of, at most: older steps make room for newer ones. */
export const MAX_RECORDED_NUMBERS = 2 ** 23;

/** Takes what a step has chosen. */
export type TakeCounts = (counts: ExpertCounts) => void;

interface Pass extends Pick<ExpertCounts, "layers" | "counts"> {
  readonly balancedness: number;
  readonly record: ExpertPassRecord | undefined;
}

export class ExpertRecorder {
  readonly #options: ExpertRecorderOptions;
  /** The last ones, in order. */
  #passes: Pass[] = [];
  /** Numbers of their records. */
  #numbers = 0;
  /** Of the next step. */
  #number = 0;
  #isRecording = false;

  constructor(options: ExpertRecorderOptions) {
    this.#options = options;
  }

  /** To be called for every step: takes what it has chosen; undefined while nothing is recorded. */
  nextStep(batch: Pick<Batch, "sequences">): TakeCounts | undefined {
    const number = this.#number++;
    if (!this.#isRecording) return undefined;
    return (counts) => this.#take(counts, number, batch);
  }

  /** @throws {UnsupportedError} when the model has no experts. */
  record(recording: ExpertRecording): ExpertRecord {
    if (this.#options.experts === undefined) {
      throw new UnsupportedError("a record of experts", "the model has none");
    }
    const { mode = "stat", layout, layers } = this.#options;
    const isDump = recording === "dump";
    const told = {
      mode,
      passes: this.#passes.length,
      logicalCount: isDump ? this.sums() : [],
      balancedness: isDump ? this.#meanBalancedness() : null,
      records: isDump ? this.#passes.flatMap(({ record }) => record ?? []) : [],
      placement: isDump ? placementOf(layout(), layers) : [],
    };
    if (recording !== "stop") this.forget();
    if (recording !== "dump") this.#isRecording = recording === "start";
    return { isRecording: this.#isRecording, ...told };
  }

  /** Steps that are kept. */
  get passes(): number {
    return this.#passes.length;
  }

  forget(): void {
    this.#passes = [];
    this.#numbers = 0;
  }

  /** `[layers][experts]`, over all steps that are kept. */
  sums(): number[][] {
    const { layers, experts = 0 } = this.#options;
    const sums = Array.from({ length: layers }, () => Array<number>(experts).fill(0));
    for (const pass of this.#passes) {
      pass.layers.forEach((layer, i) => {
        const list = sums[layer]!;
        for (let e = 0; e < experts; e++) list[e]! += pass.counts[i * experts + e]!;
      });
    }
    return sums;
  }

  /** Of each step that is kept, `[steps][layers][experts]`. */
  steps(): ArrayLike<number>[][] {
    const { layers, experts = 0 } = this.#options;
    const none = new Uint32Array(experts);
    return this.#passes.map((pass) => {
      const lists: ArrayLike<number>[] = Array.from({ length: layers }, () => none);
      pass.layers.forEach((layer, i) => {
        lists[layer] = pass.counts.subarray(i * experts, (i + 1) * experts);
      });
      return lists;
    });
  }

  #take(taken: ExpertCounts, number: number, batch: Pick<Batch, "sequences">): void {
    // It may have been stopped while the step ran.
    if (!this.#isRecording) return;
    const { layers: count, passes: most, mode = "stat" } = this.#options;
    const { layers, counts, choices } = taken;
    const layout = this.#options.layout();
    const record =
      mode === "stat" || choices === undefined
        ? undefined
        : passRecord(mode, { number, layers: count, sparse: layers, choices, batch, layout });
    this.#passes.push({ layers, counts, balancedness: balancednessOf(taken, layout), record });
    this.#numbers += sizeOf(record);
    while (this.#passes.length > most || this.#isOver) {
      this.#numbers -= sizeOf(this.#passes.shift()!.record);
    }
  }

  get #isOver(): boolean {
    return this.#numbers > MAX_RECORDED_NUMBERS && this.#passes.length > 1;
  }

  #meanBalancedness(): number | null {
    const passes = this.#passes;
    if (passes.length === 0) return null;
    return passes.reduce((sum, pass) => sum + pass.balancedness, 0) / passes.length;
  }
}

/** The expert of each slot of each layer. */
function placementOf(
  layout: ExpertLayout | undefined,
  layers: number,
): readonly (readonly number[])[] {
  if (layout === undefined) return [];
  return Array.from({ length: layers }, (_, layer) => layout.placementOf(layer));
}

/** How even the work of ranks is in a step: the mean over the layers that have experts. */
export function balancednessOf(
  { layers, counts }: Pick<ExpertCounts, "layers" | "counts">,
  layout: ExpertLayout | undefined,
): number {
  if (layout === undefined || !layout.isShared || layers.length === 0) return 1;
  const { experts } = layout;
  const sum = layers.reduce((total, layer, i) => {
    const loads = counts.subarray(i * experts, (i + 1) * experts);
    return total + balancedness(loads, layout.placementOf(layer), layout.runs);
  }, 0);
  return sum / layers.length;
}
