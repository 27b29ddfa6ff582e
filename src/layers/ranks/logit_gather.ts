/**
 * Logits of a vocabulary that is shared out over ranks, brought together on each of them.
 *
 * @module
 */
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { Step } from "../batch.ts";
import { RankExchange } from "./rank_exchange.ts";

export interface LogitGatherOptions {
  readonly device: GPUDevice;
  readonly memory: DeviceMemory;
  readonly communicator: Communicator;
  /** `[maxLogitRows, stride]` f32: of the whole vocabulary */
  readonly logits: Tensor;
  readonly stride: number;
  /** Tokens of the vocabulary that this rank has. */
  readonly width: number;
}

export class LogitGather {
  /** `[maxLogitRows, width]` f32: this rank's */
  readonly own: Tensor;
  readonly #options: LogitGatherOptions;
  readonly #maxRows: number;

  constructor(options: LogitGatherOptions) {
    const { memory, logits, stride, width } = options;
    this.#options = options;
    this.#maxRows = Math.floor(logits.size / (stride * 4));
    this.own = memory.allocate("activations", this.#maxRows * width * 4, "logits of this rank");
  }

  /** Adds the exchange that fills so many rows of `logits`. */
  compile(plan: Plan<Step>, countOf: (step: Step) => number): void {
    const { device, memory, communicator, logits, stride, width } = this.#options;
    const maxRows = this.#maxRows;
    const rows = new Float32Array(maxRows * stride);
    const exchange = new RankExchange({ device, memory }, communicator, maxRows * width * 4);
    exchange.gather(plan, {
      name: "logits",
      from: this.own,
      bytes: (step) => countOf(step) * width * 4,
      deliver: (all, step) => {
        const count = countOf(step);
        const parts = new Float32Array(all.buffer, all.byteOffset, all.byteLength / 4);
        for (let rank = 0; rank < communicator.size; rank++) {
          for (let row = 0; row < count; row++) {
            const at = (rank * count + row) * width;
            rows.set(parts.subarray(at, at + width), row * stride + rank * width);
          }
        }
        memory.write(logits, 0, rows.subarray(0, count * stride));
      },
    });
  }
}
