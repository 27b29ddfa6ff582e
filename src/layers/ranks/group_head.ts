/**
 * Logits of all attention groups' rows, of a vocabulary that all ranks share out.
 *
 * Every rank multiplies the rows of all groups by its part, and each group gets the logits of its own.
 *
 * @module
 */
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../batch.ts";
import { GroupExchange } from "./group_exchange.ts";
import { type GroupedRanks, sumOfGroups } from "./group_sizes.ts";
import { RankExchange } from "./rank_exchange.ts";

export interface GroupHeadOptions {
  readonly device: GPUDevice;
  readonly memory: DeviceMemory;
  readonly ranks: GroupedRanks;
  /** `[maxRows, xStride]` f32: this group's rows */
  readonly x: Tensor;
  readonly xStride: number;
  /** `[maxRows, stride]` f32: theirs of the whole vocabulary */
  readonly logits: Tensor;
  readonly stride: number;
  /** Tokens of the vocabulary that this rank has. */
  readonly width: number;
}

export class GroupHead {
  /** `[groups * maxRows, xStride]` f32: the rows of all groups */
  readonly x: Tensor;
  /** `[groups * maxRows, width]` f32: this rank's logits of them */
  readonly out: Tensor;
  readonly #options: GroupHeadOptions;
  readonly #maxRows: number;
  readonly #rows: GroupExchange;

  constructor(options: GroupHeadOptions) {
    const { memory, ranks, xStride, logits, stride, width } = options;
    const { groups } = ranks.attention;
    const maxRows = Math.floor(logits.size / (stride * 4));
    const allocate = (elements: number, label: string) =>
      memory.allocate("activations", groups * maxRows * elements * 4, label);
    this.#options = options;
    this.#maxRows = maxRows;
    this.x = allocate(xStride, "logit rows of all groups");
    this.out = allocate(width, "logits of this rank");
    this.#rows = new GroupExchange({ ...options, maxRows, rowBytes: xStride * 4 });
  }

  /** Adds the exchange that fills `x`. */
  bring(plan: Plan<Step>): void {
    const { memory, x } = this.#options;
    this.#rows.bring(plan, {
      name: "logit rows",
      from: x,
      countOf: (group) => group.logitRows,
      deliver: (all) => memory.write(this.x, 0, all),
    });
  }

  /** Adds the exchange that fills `logits`. */
  compile(plan: Plan<Step>): void {
    const { device, memory, ranks, logits, stride, width } = this.#options;
    const { group, groups: groupCount } = ranks.attention;
    const host = new Float32Array(this.#maxRows * stride);
    const bytes = groupCount * this.#maxRows * width * 4;
    const exchange = new RankExchange({ device, memory }, ranks, bytes);
    exchange.gather(plan, {
      name: "logits",
      from: this.out,
      bytes: ({ groups }) => sumOfGroups(groups!, "logitRows") * width * 4,
      deliver: (all, { groups }) => {
        const total = sumOfGroups(groups!, "logitRows");
        const first = sumOfGroups(groups!.slice(0, group), "logitRows");
        const { logitRows: count } = groups![group]!;
        if (count === 0) return;
        const parts = new Float32Array(all.buffer, all.byteOffset, all.byteLength / 4);
        for (let rank = 0; rank < ranks.size; rank++) {
          for (let row = 0; row < count; row++) {
            const at = (rank * total + first + row) * width;
            host.set(parts.subarray(at, at + width), row * stride + rank * width);
          }
        }
        memory.write(logits, 0, host.subarray(0, count * stride));
      },
    });
  }
}
