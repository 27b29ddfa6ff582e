/**
 * The matrix that makes logits: whole, or with a run of the vocabulary's rows on each of several ranks.
 *
 * @module
 */
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { Step } from "../batch.ts";
import type { Linear } from "../linear.ts";
import { LogitGather } from "./logit_gather.ts";

/** Where a rank's products go, and how those of all ranks become logits. */
export interface HeadOutput {
  readonly out: Tensor;
  readonly outStride: number;
  /** Adds what brings the rows of all ranks together; nothing where the head is whole. */
  gather(plan: Plan<Step>, countOf: (step: Step) => number): void;
}

export class OutputHead {
  readonly linear: Linear;
  readonly #memory: DeviceMemory;
  readonly #ranks: Communicator;
  readonly #rows: number;

  /** @param context `ranks`: those that share it; `rows`: what this one has of the vocabulary. */
  constructor(
    linear: Linear,
    context: {
      readonly memory: DeviceMemory;
      readonly ranks: Communicator;
      readonly rows: number;
    },
  ) {
    this.linear = linear;
    this.#memory = context.memory;
    this.#ranks = context.ranks;
    this.#rows = context.rows;
  }

  get isWhole(): boolean {
    return this.#ranks.size === 1;
  }

  /** @param whole `logits`: `[.., stride]` f32, of the whole vocabulary. */
  into(device: GPUDevice, whole: { readonly logits: Tensor; readonly stride: number }): HeadOutput {
    const { logits, stride } = whole;
    if (this.isWhole) return { out: logits, outStride: stride, gather: () => {} };
    const width = this.#rows;
    const meeting = { device, memory: this.#memory, communicator: this.#ranks };
    const gather = new LogitGather({ ...meeting, logits, stride, width });
    return {
      out: gather.own,
      outStride: width,
      gather: (plan, countOf) => gather.compile(plan, countOf),
    };
  }
}
