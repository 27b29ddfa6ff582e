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
  readonly tensor: Tensor;
  /** Element of its first expert. */
  readonly first: number;
  /** Where its choices themselves are kept; absent where nothing is. */
  readonly choices?: ExpertChoices | undefined;
}

const WORD_BYTES = 4;

export class ExpertHits {
  /** `[1 + layers * experts]` u32: the number of rows of a step that count, then the counts. */
  readonly tensor: Tensor;
  /** The layers that have experts. */
  readonly layers: readonly number[];
  /** Of a layer. */
  readonly experts: number;
  /** What rows choose, beside how many do; absent where no record may want it. */
  readonly choices: ExpertChoices | undefined;
  readonly #memory: DeviceMemory;
  #countedRows = 0;

  constructor(
    memory: DeviceMemory,
    sizes: { readonly layers: readonly number[]; readonly experts: number },
    choices?: ExpertChoices,
  ) {
    this.choices = choices;
    this.layers = sizes.layers;
    this.experts = sizes.experts;
    this.#memory = memory;
    const bytes = (1 + sizes.layers.length * sizes.experts) * WORD_BYTES;
    this.tensor = memory.allocate("activations", bytes, "expert hits");
  }

  /** @param layer One of those that have experts. */
  of(layer: number): LayerHits {
    const first = 1 + this.layers.indexOf(layer) * this.experts;
    return { tensor: this.tensor, first, choices: this.choices };
  }

  /** Of the steps from now on the first rows count, and those of padding behind them do not. */
  count(rows: number): void {
    if (rows === this.#countedRows) return;
    this.#countedRows = rows;
    this.#memory.write(this.tensor, 0, Uint32Array.of(rows));
  }
}
