/**
 * Rows of which each rank has some columns, brought together on all of them.
 *
 * @module
 */
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { Step } from "../batch.ts";
import { RankExchange } from "./rank_exchange.ts";

export interface RowGatherOptions {
  readonly device: GPUDevice;
  readonly memory: DeviceMemory;
  readonly communicator: Communicator;
  readonly maxRows: number;
}

/** This rank's columns of rows: `[maxRows, xStride]` f32. */
export interface OwnColumns {
  readonly x: Tensor;
  readonly xStride: number;
  readonly columns: number;
}

/** For rows of one width. */
export class RowGather {
  /** `[maxRows, xStride]` f32: the columns of all ranks */
  readonly x: Tensor;
  readonly xStride: number;
  readonly #options: RowGatherOptions;
  readonly #own: OwnColumns;
  readonly #exchange: RankExchange;
  readonly #rows: Float32Array<ArrayBuffer>;

  constructor(options: RowGatherOptions, own: OwnColumns) {
    const { device, memory, communicator, maxRows } = options;
    this.#options = options;
    this.#own = own;
    this.xStride = Math.ceil((own.columns * communicator.size) / 4) * 4;
    this.x = memory.allocate("activations", maxRows * this.xStride * 4, "rows of all ranks");
    this.#exchange = new RankExchange({ device, memory }, communicator, maxRows * own.xStride * 4);
    this.#rows = new Float32Array(maxRows * this.xStride);
  }

  /** Adds the exchange that fills `x`. */
  compile(plan: Plan<Step>, name: string): void {
    const { memory, communicator } = this.#options;
    const { x, xStride: ownStride, columns } = this.#own;
    this.#exchange.gather(plan, {
      name,
      from: x,
      bytes: ({ rows }) => rows * ownStride * 4,
      deliver: (all, { rows }) => {
        const parts = new Float32Array(all.buffer, all.byteOffset, all.byteLength / 4);
        for (let rank = 0; rank < communicator.size; rank++) {
          for (let row = 0; row < rows; row++) {
            const at = (rank * rows + row) * ownStride;
            const part = parts.subarray(at, at + columns);
            this.#rows.set(part, row * this.xStride + rank * columns);
          }
        }
        memory.write(this.x, 0, this.#rows.subarray(0, rows * this.xStride));
      },
    });
  }
}
