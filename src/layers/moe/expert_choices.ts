/**
 * Which slots the rows of a step have chosen in each layer, kept on the GPU until the host reads it:
 * layers work in the same scratch one after the other. A step that is not kept costs nothing.
 *
 * @module
 */
import { FROM_EXTERNAL, FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../batch.ts";
import { ROW_WORDS, type StepTensors } from "../step_tensors.ts";

const WORD_BYTES = 4;
/** Stands for a token that has no number: its row came from elsewhere. */
const NO_TOKEN = -1;

/** What the rows of one step have chosen, without rows of padding. */
export interface StepChoices {
  readonly rows: number;
  /** `[rows]`: their tokens, -1 where an embedding stands in the place of one */
  readonly tokens: Int32Array;
  /** `[rows]` */
  readonly positions: Uint32Array;
  /** `[layers that have experts, rows, chosen]`: slots */
  readonly slots: Uint32Array;
}

export class ExpertChoices {
  /** The layers that have experts. */
  readonly layers: readonly number[];
  /** Whether the step that is recorded now is kept. */
  isKept = false;
  readonly #memory: DeviceMemory;
  /** Routed choices of a row, and with them the shared experts behind. */
  readonly #chosen: number;
  #perRow = 0;
  #tensor: Tensor | undefined;
  /** Words of the ids that the step before has drawn. */
  #sampledWords = 0;

  constructor(
    memory: DeviceMemory,
    sizes: { readonly layers: readonly number[]; readonly chosen: number },
  ) {
    this.#memory = memory;
    this.layers = sizes.layers;
    this.#chosen = sizes.chosen;
  }

  /** `[4 * rows + ids + layers * rows * slots of a row]` u32, packed by the rows of a step. */
  get tensor(): Tensor {
    return this.#tensor!;
  }

  /**
   * Adds what keeps the tokens of a step, in front of its layers.
   *
   * @param perRow Slots that a row fills, those of shared experts too.
   */
  compile(
    plan: Plan<Step>,
    { rows, sampled }: Pick<StepTensors, "rows" | "sampled">,
    { perRow, maxRows }: { readonly perRow: number; readonly maxRows: number },
  ): void {
    this.#perRow = perRow;
    this.#sampledWords = sampled.size / WORD_BYTES;
    const size = this.bytesOf(maxRows);
    this.#tensor = this.#memory.allocate("activations", size, "choices of experts");
    plan.addVarying((step) => {
      if (!this.isKept || step.rows === 0) return;
      const rowBytes = step.rows * ROW_WORDS * WORD_BYTES;
      plan.recorder.copy(rows, this.#from(0), rowBytes);
      plan.recorder.copy(sampled, this.#from(rowBytes), sampled.size);
    });
  }

  /** Adds what keeps the choices of a layer. */
  compileLayer(plan: Plan<Step>, layer: number, experts: Tensor): void {
    const place = this.layers.indexOf(layer);
    plan.addVarying(({ rows, place: at }) => {
      if (!this.isKept || rows === 0) return;
      const rowBytes = this.#perRow * WORD_BYTES;
      const { first, all } = at ?? { first: 0, all: rows };
      const to = this.#headBytes(all) + (place * all + first) * rowBytes;
      plan.recorder.copy(experts, this.#from(to), rows * rowBytes);
    });
  }

  /** Of a step of so many rows. */
  bytesOf(rows: number): number {
    return this.#headBytes(rows) + this.layers.length * rows * this.#perRow * WORD_BYTES;
  }

  /**
   * What was kept of a step.
   *
   * @param filled Its rows, those of padding too.
   */
  read(bytes: ArrayBuffer, rows: number, filled: number): StepChoices {
    const words = new Uint32Array(bytes);
    const ids = filled * ROW_WORDS;
    const tokens = new Int32Array(rows);
    const positions = new Uint32Array(rows);
    for (let row = 0; row < rows; row++) {
      const source = words[row * ROW_WORDS]!;
      if (source >= FROM_EXTERNAL) tokens[row] = NO_TOKEN;
      else if (source >= FROM_SAMPLED) tokens[row] = words[ids + source - FROM_SAMPLED]!;
      else tokens[row] = source;
      positions[row] = words[row * ROW_WORDS + 1]!;
    }
    const first = this.#headBytes(filled) / WORD_BYTES;
    const slots = new Uint32Array(this.layers.length * rows * this.#chosen);
    let at = 0;
    for (let layer = 0; layer < this.layers.length; layer++) {
      for (let row = 0; row < rows; row++) {
        const from = first + (layer * filled + row) * this.#perRow;
        slots.set(words.subarray(from, from + this.#chosen), at);
        at += this.#chosen;
      }
    }
    return { rows, tokens, positions, slots };
  }

  #headBytes(rows: number): number {
    return (rows * ROW_WORDS + this.#sampledWords) * WORD_BYTES;
  }

  #from(bytes: number): Tensor {
    const { buffer, offset, size } = this.tensor;
    return { buffer, offset: offset + bytes, size: size - bytes };
  }
}
