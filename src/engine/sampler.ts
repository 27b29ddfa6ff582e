/**
 * Chooses the next token of each row of logits, on the GPU.
 *
 * A step whose rows are all greedy launches the plain argmax; any other draws every row by its own
 * parameters, where a greedy row gives exactly the argmax. Randomness is counter-based: a row's
 * draw depends on its seed and position alone.
 *
 * @module
 */
import { argmax } from "../../kernels/sampling/argmax.ts";
import { DRAW_WORDS, sample, writeDraw } from "../../kernels/sampling/sample.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "../layers/batch.ts";
import type { Sampling } from "./sampling_params.ts";

/** What one row of logits is sampled with. */
export interface SampledRow {
  readonly sampling: Pick<Sampling, "temperature" | "topP" | "topK" | "seed">;
  /** Position that the sampled token will have. */
  readonly position: number;
}

export interface SamplerOptions {
  readonly maxRows: number;
  readonly vocabularySize: number;
  /** `[maxRows, logitsStride]` f32 */
  readonly logits: Tensor;
  readonly logitsStride: number;
  /** `[maxRows]` u32: where the ids go */
  readonly sampled: Tensor;
}

export class Sampler {
  readonly #options: SamplerOptions;
  readonly #memory: DeviceMemory;
  readonly #draws: Tensor;
  readonly #host: ArrayBuffer;
  readonly #view: DataView<ArrayBuffer>;
  #greedy = true;

  constructor(memory: DeviceMemory, options: SamplerOptions) {
    const bytes = options.maxRows * DRAW_WORDS * 4;
    this.#options = options;
    this.#memory = memory;
    this.#draws = memory.allocate("activations", bytes, "draws");
    this.#host = new ArrayBuffer(bytes);
    this.#view = new DataView(this.#host);
  }

  /** Adds one launch. */
  compile(plan: Plan<Step>): void {
    const { logits, logitsStride: stride, vocabularySize: vocabulary, sampled } = this.#options;
    const shape = { logits, stride, vocabulary, ids: sampled };
    const best = argmax(plan.recorder, shape);
    const draw = sample(plan.recorder, { ...shape, draws: this.#draws });
    plan.group("sampling");
    plan.add(({ logitRows }) => {
      if (this.#greedy) best(logitRows);
      else draw(logitRows);
    });
  }

  /** Takes the parameters of the next step's rows. */
  prepare(rows: readonly SampledRow[]): void {
    this.#greedy = rows.every(({ sampling }) => sampling.temperature === 0);
    if (this.#greedy) return;
    rows.forEach(({ sampling, position }, i) => {
      writeDraw(this.#view, i, { ...sampling, position });
    });
    const used = new Uint8Array(this.#host, 0, rows.length * DRAW_WORDS * 4);
    this.#memory.write(this.#draws, 0, used);
  }
}
