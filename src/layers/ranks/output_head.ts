/**
 * The matrix that makes logits: whole, or with a run of the vocabulary's rows on each of several ranks.
 *
 * @module
 */
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { Step } from "../batch.ts";
import type { Linear } from "../linear.ts";
import { GroupHead } from "./group_head.ts";
import { groupedRanks, sumOfGroups } from "./group_sizes.ts";
import { LogitGather } from "./logit_gather.ts";
import { specOnRank, wholeSpec } from "./rank_specs.ts";

/** The rows that logits are wanted of, and where those go. */
export interface HeadBinding {
  readonly x: Tensor;
  readonly xStride: number;
  /** `[.., stride]` f32, of the whole vocabulary */
  readonly logits: Tensor;
  readonly stride: number;
}

/** What a rank multiplies, where its products go, and how those of all ranks become logits. */
export interface HeadOutput {
  readonly x: Tensor;
  readonly xStride: number;
  readonly out: Tensor;
  readonly outStride: number;
  /** Adds what brings the rows of all groups together; nothing where each has a head. */
  bring(plan: Plan<Step>): void;
  /** Rows to multiply, in a step in which this group wants so many. */
  rowsOf(step: Step, own: number): number;
  /** Adds what brings the products of all ranks together; nothing where the head is whole. */
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

  /** Of which this rank has its part. */
  get specs(): readonly WeightSpec[] {
    return this.linear.specs.map((spec) => wholeSpec(specOnRank(spec, this.#ranks)));
  }

  into(device: GPUDevice, { x, xStride, logits, stride }: HeadBinding): HeadOutput {
    const alone = { x, xStride, bring: () => {}, rowsOf: (_: Step, own: number) => own };
    if (this.isWhole) return { ...alone, out: logits, outStride: stride, gather: () => {} };
    const width = this.#rows;
    const meeting = { device, memory: this.#memory };
    const ranks = groupedRanks(this.#ranks);
    if (ranks !== undefined) {
      const head = new GroupHead({ ...meeting, ranks, x, xStride, logits, stride, width });
      return {
        x: head.x,
        xStride,
        out: head.out,
        outStride: width,
        bring: (plan) => head.bring(plan),
        rowsOf: ({ groups }) => sumOfGroups(groups!, "logitRows"),
        gather: (plan) => head.compile(plan),
      };
    }
    const gather = new LogitGather({
      ...meeting,
      communicator: this.#ranks,
      logits,
      stride,
      width,
    });
    return {
      ...alone,
      out: gather.own,
      outStride: width,
      gather: (plan, countOf) => gather.compile(plan, countOf),
    };
  }
}
