/**
 * How often the last steps have chosen each expert, while that is recorded.
 *
 * @module
 */
import { UnsupportedError } from "../../errors.ts";
import type { ExpertRecord, ExpertRecording } from "../../expert_record.ts";
import { balancedness } from "../../parallel/experts/balance_experts.ts";
import type { ExpertLayout } from "../../parallel/experts/expert_layout.ts";
import type { ExpertCounts } from "../step/expert_counter.ts";

export interface ExpertRecorderOptions {
  /** Of the model, those without experts too. */
  readonly layers: number;
  /** Of a layer; undefined for a model without experts. */
  readonly experts: number | undefined;
  /** Steps that are kept. */
  readonly passes: number;
  /** How experts lie on the ranks now. */
  layout(): ExpertLayout | undefined;
}

interface Pass extends ExpertCounts {
  readonly balancedness: number;
}

export class ExpertRecorder {
  readonly #options: ExpertRecorderOptions;
  /** The last ones, of which the next takes the place of the oldest. */
  #passes: Pass[] = [];
  #next = 0;
  #isRecording = false;

  constructor(options: ExpertRecorderOptions) {
    this.#options = options;
  }

  /** Takes what a step has chosen; undefined while nothing is recorded. */
  get taker(): ((counts: ExpertCounts) => void) | undefined {
    return this.#isRecording ? (counts) => this.#take(counts) : undefined;
  }

  /** @throws {UnsupportedError} when the model has no experts. */
  record(recording: ExpertRecording): ExpertRecord {
    if (this.#options.experts === undefined) {
      throw new UnsupportedError("a record of experts", "the model has none");
    }
    const logicalCount = recording === "dump" ? this.sums() : [];
    const even = recording === "dump" ? this.#meanBalancedness() : null;
    const passes = this.#passes.length;
    if (recording !== "stop") this.forget();
    if (recording !== "dump") this.#isRecording = recording === "start";
    return { isRecording: this.#isRecording, passes, logicalCount, balancedness: even };
  }

  /** Steps that are kept. */
  get passes(): number {
    return this.#passes.length;
  }

  forget(): void {
    this.#passes = [];
    this.#next = 0;
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

  #take({ layers, counts }: ExpertCounts): void {
    // It may have been stopped while the step ran.
    if (!this.#isRecording) return;
    const pass = { layers, counts, balancedness: this.#balancednessOf({ layers, counts }) };
    if (this.#passes.length < this.#options.passes) this.#passes.push(pass);
    else this.#passes[this.#next] = pass;
    this.#next = (this.#next + 1) % this.#options.passes;
  }

  /** Mean over the layers that have experts. */
  #balancednessOf({ layers, counts }: ExpertCounts): number {
    const { experts = 0 } = this.#options;
    const layout = this.#options.layout();
    if (layout === undefined || !layout.isShared || layers.length === 0) return 1;
    const sum = layers.reduce((total, layer, i) => {
      const loads = counts.subarray(i * experts, (i + 1) * experts);
      return total + balancedness(loads, layout.placementOf(layer), layout.runs);
    }, 0);
    return sum / layers.length;
  }

  #meanBalancedness(): number | null {
    const passes = this.#passes;
    if (passes.length === 0) return null;
    return passes.reduce((sum, pass) => sum + pass.balancedness, 0) / passes.length;
  }
}
