/**
 * How often rows have chosen each expert of each layer, counted on the GPU.
 *
 * @module
 */
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { ExpertChoices } from "./expert_choices.ts";

/** Where one layer counts. */
export interface LayerHits {
  /** Of each micro-batch. */
  readonly tensors: readonly Tensor[];
  /** Element of its first expert. */
  readonly first: number;
  /** Where its choices themselves are kept; absent where nothing is. */
  readonly choices?: ExpertChoices | undefined;
}

const WORD_BYTES = 4;
/** A binding starts at a multiple of so many bytes. */
const BINDING_BYTES = 256;

export class ExpertHits {
  /**
   * Of each micro-batch, `[1 + layers * experts]` u32: the number of its rows that count, then the
   * counts.
   */
  readonly tensors: readonly Tensor[];
  /** All of these, and the words from one to the next. */
  readonly all: Tensor;
  readonly stride: number;
  /** The layers that have experts. */
  readonly layers: readonly number[];
  /** Of a layer. */
  readonly experts: number;
  /** What rows choose, beside how many do; absent where no record may want it. */
  readonly choices: ExpertChoices | undefined;
  readonly #memory: DeviceMemory;
  readonly #countedRows: number[];

  /** @param sizes `microBatches`: those that a step may have. Default 1. */
  constructor(
    memory: DeviceMemory,
    sizes: {
      readonly layers: readonly number[];
      readonly experts: number;
      readonly microBatches?: number;
    },
    choices?: ExpertChoices,
  ) {
    const { microBatches = 1 } = sizes;
    this.choices = choices;
    this.layers = sizes.layers;
    this.experts = sizes.experts;
    this.#memory = memory;
    const size = (1 + sizes.layers.length * sizes.experts) * WORD_BYTES;
    const apart = Math.ceil(size / BINDING_BYTES) * BINDING_BYTES;
    const bytes = (microBatches - 1) * apart + size;
    this.stride = apart / WORD_BYTES;
    this.all = memory.allocate("activations", bytes, "expert hits");
    const { buffer, offset } = this.all;
    this.tensors = Array.from({ length: microBatches }, (_, one) => {
      return { buffer, offset: offset + one * apart, size };
    });
    this.#countedRows = this.tensors.map(() => 0);
  }

  /** @param layer One of those that have experts. */
  of(layer: number): LayerHits {
    const first = 1 + this.layers.indexOf(layer) * this.experts;
    return { tensors: this.tensors, first, choices: this.choices };
  }

  /**
   * Of the steps from now on the first rows count, and those of padding behind them do not.
   *
   * @param cut The first row of the second micro-batch. Default: there is none.
   */
  count(rows: number, cut = rows): void {
    this.tensors.forEach((tensor, one) => {
      const own = one === 0 ? Math.min(rows, cut) : Math.max(rows - cut, 0);
      if (own === this.#countedRows[one]) return;
      this.#countedRows[one] = own;
      this.#memory.write(tensor, 0, Uint32Array.of(own));
    });
  }
}
