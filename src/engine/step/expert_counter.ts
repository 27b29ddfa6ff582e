/**
 * What a step has chosen of each expert, on its way from the GPU. A step that is not counted costs
 * nothing.
 *
 * @module
 */
import type { Plan } from "../../gpu/plan.ts";
import { Readback } from "../../gpu/readback.ts";
import type { Step } from "../../layers/batch.ts";
import type { StepChoices } from "../../layers/moe/expert_choices.ts";
import type { ExpertHits } from "../../layers/moe/expert_hits.ts";
import { MOST_IN_FLIGHT } from "../schedule/lookahead.ts";

/** What one step has chosen. */
export interface ExpertCounts {
  /** The layers that have experts. */
  readonly layers: readonly number[];
  /** `[layers, experts]` */
  readonly counts: Uint32Array;
  /** What each row has chosen; absent where the model was not loaded to keep it. */
  readonly choices?: StepChoices | undefined;
}

export class ExpertCounter {
  readonly #device: GPUDevice;
  readonly #hits: ExpertHits;
  /** Made when the first step is counted. */
  #readback: Readback | undefined;
  #isCounted = false;
  /** The same for choices, where they are kept. */
  #choiceReadback: Readback | undefined;
  #readChoices: (() => Promise<StepChoices>) | undefined;
  #rows = 0;
  #read: (() => Promise<ArrayBuffer>) | undefined;
  /** All that was counted before the step that is read next. */
  #before: Uint32Array;
  #reading: Promise<unknown> = Promise.resolve();

  /** @param plan Gets what copies the counts. */
  constructor(plan: Plan<Step>, hits: ExpertHits) {
    this.#device = plan.recorder.device;
    this.#hits = hits;
    this.#before = new Uint32Array(hits.layers.length * hits.experts);
    plan.addVarying(() => {
      if (!this.#isCounted) return;
      this.#readback ??= new Readback(this.#device, hits.all.size, MOST_IN_FLIGHT);
      this.#read = this.#readback.record(plan.recorder, hits.all, hits.all.size);
    });
    plan.addVarying((step) => {
      if (this.#isCounted) this.#keep(plan, step.rows);
    });
  }

  /**
   * Begins a step of so many rows, without padding; undefined where it is not counted.
   *
   * @param cut The first row of its second micro-batch. Default: there is none.
   */
  begin(rows: number | undefined, cut?: number): void {
    this.#isCounted = rows !== undefined;
    this.#rows = rows ?? 0;
    this.#hits.count(this.#rows, cut);
    const { choices } = this.#hits;
    if (choices !== undefined) choices.isKept = this.#isCounted;
  }

  /** Of the step that was begun last and is on the queue. */
  take(): Promise<ExpertCounts> | undefined {
    if (!this.#isCounted) return undefined;
    const read = this.#read!;
    const chosen = this.#readChoices?.();
    const counted = Promise.all([read(), chosen, this.#reading]).then(([all, choices]) => {
      const now = this.#sumOf(new Uint32Array(all));
      const counts = now.map((count, i) => count - this.#before[i]!);
      this.#before = now;
      return { layers: this.#hits.layers, counts, choices };
    });
    this.#reading = counted.catch(() => {});
    return counted;
  }

  /** Of all micro-batches. */
  #sumOf(words: Uint32Array): Uint32Array {
    const { tensors, stride } = this.#hits;
    const [first = new Uint32Array(), ...others] = tensors.map((_, one) =>
      words.subarray(one * stride + 1, one * stride + 1 + this.#before.length),
    );
    return first.map((count, i) => others.reduce((sum, other) => sum + other[i]!, count));
  }

  /** @param filled Rows of the step, those of padding too. */
  #keep({ recorder }: Plan<Step>, filled: number): void {
    const { choices } = this.#hits;
    if (choices === undefined) return;
    const { tensor } = choices;
    const rows = this.#rows;
    this.#choiceReadback ??= new Readback(this.#device, tensor.size, MOST_IN_FLIGHT);
    const read = this.#choiceReadback.record(recorder, tensor, choices.bytesOf(filled));
    this.#readChoices = () => read().then((bytes) => choices.read(bytes, rows, filled));
  }

  destroy(): void {
    this.#readback?.destroy();
    this.#choiceReadback?.destroy();
  }
}
