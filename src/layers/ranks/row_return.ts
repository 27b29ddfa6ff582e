/**
 * Rows that each rank adds up for all: a rank has a run of a step's rows, to which it adds what experts
 * on all ranks have made of them; then all ranks get all rows.
 *
 * Ranks that share every layer have all rows in front of the experts, so that none has to be sent to
 * them. Where every rank gets all slots of all rows in one exchange (`SlotExchange`), T ranks with K
 * slots of a row on others move K rows to each; here they move K / T, and one behind them.
 *
 * @module
 */
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import { Readback } from "../../gpu/readback.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { AllToAllMode } from "../../parallel/experts/expert_options.ts";
import type { Step, StepRows } from "../batch.ts";
import { exchangeMemory, readPart } from "./rank_exchange.ts";

export interface RowReturnOptions {
  readonly device: GPUDevice;
  readonly memory: DeviceMemory;
  readonly communicator: Communicator;
  readonly mode: AllToAllMode;
  readonly maxRows: number;
  /** `[maxRows, stride]` f32: the residual stream */
  readonly hidden: Tensor;
  readonly stride: number;
}

/** Neighbouring rows. */
interface RowRun {
  readonly first: number;
  readonly count: number;
}

export class RowReturn {
  readonly #options: RowReturnOptions;
  readonly #readback: Readback;
  readonly #part: Uint8Array<ArrayBuffer>;
  readonly #all: Uint8Array<ArrayBuffer>;

  constructor(options: RowReturnOptions) {
    const { device, memory, communicator, maxRows, stride } = options;
    const rowBytes = stride * 4;
    const own = Math.ceil(maxRows / communicator.size) * rowBytes;
    this.#options = options;
    this.#readback = memory.own(new Readback(device, own, 1));
    this.#part = exchangeMemory(communicator, memory, own);
    this.#all = exchangeMemory(communicator, memory, maxRows * rowBytes);
  }

  /**
   * Whether slots go to the rank of their row alone in such a step; else every rank gets all of them,
   * in one exchange in place of two, and adds up all rows.
   */
  isTaken({ rows, decodeRows }: StepRows): boolean {
    const { mode } = this.#options;
    return mode === "auto" ? decodeRows < rows : mode === "normal";
  }

  /** The rows of a rank, of so many. */
  rowsOf(rank: number, rows: number): RowRun {
    const { size } = this.#options.communicator;
    const first = Math.floor((rows * rank) / size);
    return { first, count: Math.floor((rows * (rank + 1)) / size) - first };
  }

  /** Adds the exchange that brings all rows to all ranks, behind the launch that adds them up. */
  compile(plan: Plan<Step>, name: string): void {
    const { communicator, memory, hidden, stride } = this.#options;
    const { rank, size } = communicator;
    const rowBytes = stride * 4;
    let isTaken = false;
    let read: ((into: Uint8Array) => Promise<void>) | undefined;
    plan.addVarying((step) => {
      isTaken = this.isTaken(step);
      const { first, count } = this.rowsOf(rank, step.rows);
      const { buffer, offset } = hidden;
      const size = count * rowBytes;
      const from = { buffer, offset: offset + first * rowBytes, size };
      read =
        isTaken && count > 0 ? this.#readback.recordInto(plan.recorder, from, size) : undefined;
    });
    const exchange = async ({ rows }: Step) => {
      const counts = Array.from(
        { length: size },
        (_, one) => this.rowsOf(one, rows).count * rowBytes,
      );
      const part = this.#part.subarray(0, counts[rank]);
      if (read !== undefined) await readPart(this.#options, [read(part)]);
      const all = this.#all.subarray(0, rows * rowBytes);
      await communicator.allGather(part, all, { name: `${name}: rows`, counts });
      if (rows > 0) memory.write(hidden, 0, all);
    };
    plan.exchange(`${name}: rows`, exchange, {
      needed: () => isTaken,
      brings: { kind: "gather", bytes: ({ rows }) => this.rowsOf(rank, rows).count * rowBytes },
    });
  }
}
