/**
 * Working memory in which the sums of row-parallel linears meet, shared by all layers of a rank.
 *
 * @module
 */

import { rankSegments } from "../../../kernels/linear/weights/layout.ts";
import { largestOf } from "../../extremes.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { Step } from "../batch.ts";
import { RankExchange } from "./rank_exchange.ts";
import { type OwnColumns, RowGather } from "./row_gather.ts";

export interface RankSumsOptions {
  readonly device: GPUDevice;
  readonly memory: DeviceMemory;
  readonly communicator: Communicator;
  readonly maxRows: number;
  /** Elements from the sums of one part to those of the next. */
  readonly stride: number;
}

/** What linears that send `parts` sums of an output use. */
interface PartSums {
  /** `[maxRows, parts, stride]` f32: this rank's */
  readonly partials: Tensor;
  /**
   * `[size, maxRows, parts, stride]` f32: those of all ranks, without the rows that a step lacks
   */
  readonly gathered: Tensor;
  readonly exchange: RankExchange;
}

export class RankSums {
  readonly stride: number;
  readonly #options: RankSumsOptions;
  readonly #byParts = new Map<number, PartSums>();
  /** By the columns that are gathered: those of all layers are in one tensor, one after the other. */
  readonly #gathers = new Map<Tensor, RowGather>();

  constructor(options: RankSumsOptions) {
    this.stride = options.stride;
    this.#options = options;
  }

  /** The tensors for linears with so many parts; asked for twice, the same ones. */
  tensors(parts: number): PartSums {
    const known = this.#byParts.get(parts);
    if (known !== undefined) return known;
    const { memory, communicator, maxRows } = this.#options;
    const bytes = maxRows * this.#rowBytes(parts);
    const made = {
      partials: memory.allocate("activations", bytes, "sums of this rank"),
      gathered: memory.allocate("activations", bytes * communicator.size, "sums of all ranks"),
      exchange: new RankExchange(this.#options, communicator, bytes),
    };
    this.#byParts.set(parts, made);
    return made;
  }

  /** Adds the exchange that fills `gathered`. */
  gather(plan: Plan<Step>, name: string, parts: number): void {
    const { memory } = this.#options;
    const { partials, gathered, exchange } = this.tensors(parts);
    exchange.gather(plan, {
      name,
      kind: "sum",
      from: partials,
      bytes: ({ rows }) => rows * this.#rowBytes(parts),
      deliver: (all) => memory.write(gathered, 0, all),
    });
  }

  /** What brings rows of so many columns together; asked for twice, the same. */
  rowGather(own: OwnColumns): RowGather {
    const known = this.#gathers.get(own.x);
    if (known !== undefined) return known;
    const made = new RowGather(this.#options, own);
    this.#gathers.set(own.x, made);
    return made;
  }

  #rowBytes(parts: number): number {
    return parts * this.stride * 4;
  }
}

/**
 * Elements of one row of what all ranks send, of linears with so many inputs on all ranks together;
 * 0 on one rank.
 */
export function gatheredWidth(
  outputs: number,
  { size, columns }: { readonly size: number; readonly columns: readonly number[] },
): number {
  if (size === 1) return 0;
  const parts = columns.map((count) => rankSegments(count, size)?.parts ?? 0);
  return size * largestOf(parts) * Math.ceil(outputs / 4) * 4;
}
