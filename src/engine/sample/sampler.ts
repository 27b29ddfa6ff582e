/**
 * Chooses the next token of each row of logits, on the GPU.
 *
 * In this order: penalties, token mask and biases (row_adjustments.ts), custom logit processors on
 * the host, the draw, counting what was drawn, log-probabilities (logprob_gather.ts). What no row
 * asks for is not launched. A step whose rows are all greedy launches the plain argmax, and nothing
 * where the output head has found the best tokens itself (`Step.onlyBest`). Another step draws every
 * row by its own parameters, where a greedy row gives exactly the argmax; where coins accept drafts
 * (coin_verification.ts), a row may have a draft in place of a token that is drawn. Randomness is
 * counter-based: a row's draw depends on its seed and position alone.
 *
 * @module
 */
import { argmax } from "../../../kernels/sampling/argmax.ts";
import { DRAW_WORDS, sample, writeDraw } from "../../../kernels/sampling/sample.ts";
import { allocating } from "../../gpu/device.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import { Readback } from "../../gpu/readback.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import { CoinVerification, type CoinVerificationOptions } from "./coin_verification.ts";
import { LogprobGather } from "./logprob_gather.ts";
import { RowAdjustments } from "./row_adjustments.ts";
import type { GrowingPart, LogitRows, SampledRow } from "./sampled_row.ts";

export interface SamplerOptions {
  /** Rows of logits of one step. */
  readonly maxRows: number;
  /** Rows that may have penalties. */
  readonly maxPenalizedRows: number;
  readonly vocabularySize: number;
  /** `[maxRows, logitsStride]` f32 */
  readonly logits: Tensor;
  readonly logitsStride: number;
  /** `[maxRows]` u32: where the ids go */
  readonly sampled: Tensor;
  /** How coins accept drafts. Default: a draft is right where it is the token that is drawn. */
  readonly coins?: CoinVerificationOptions | undefined;
}

/** Rows of logits that are brought to the host at once. */
const PROCESSED_TOGETHER = 4;

export class Sampler {
  /** `[maxRows, DRAW_WORDS]`: how each row of logits is drawn from; unused where all are greedy */
  readonly draws: Tensor;
  readonly #options: SamplerOptions;
  readonly #memory: DeviceMemory;
  readonly #host: ArrayBuffer;
  readonly #view: DataView<ArrayBuffer>;
  readonly #adjustments: RowAdjustments;
  readonly #coins: CoinVerification | undefined;
  readonly #logprobs: LogprobGather;
  readonly #parts: readonly GrowingPart[];
  #recorder: Recorder | undefined;
  #rowReadback: Readback | undefined;
  #rows: readonly SampledRow[] = [];
  #choice: "best" | "drawn" | "coins" = "best";
  #processed = false;

  constructor(memory: DeviceMemory, options: SamplerOptions) {
    const bytes = options.maxRows * DRAW_WORDS * 4;
    this.#options = options;
    this.#memory = memory;
    this.draws = memory.allocate("activations", bytes, "draws");
    this.#host = new ArrayBuffer(bytes);
    this.#view = new DataView(this.#host);
    this.#adjustments = new RowAdjustments(memory, options);
    const { coins, maxRows } = options;
    this.#coins = coins && new CoinVerification(memory, maxRows, coins);
    this.#logprobs = new LogprobGather(memory, options);
    this.#parts = [...this.#adjustments.parts, this.#logprobs, this.#processing];
  }

  /** Adds the launches: at most one in a step where no request asks for more than a token. */
  compile(plan: Plan<Step>): void {
    const { logits, logitsStride: stride, vocabularySize: vocabulary, sampled } = this.#options;
    const { recorder } = plan;
    this.#recorder = recorder;
    const shape = { logits, stride, vocabulary, ids: sampled };
    const best = argmax(recorder, shape);
    const draw = sample(recorder, { ...shape, draws: this.draws });
    const toss = this.#coins?.bind(recorder, { ...shape, draws: this.draws });
    plan.group("sampling");
    this.#adjustments.compile(plan);
    plan.exchange("logit processors", () => this.#runProcessors(recorder), {
      needed: () => this.#processed,
    });
    plan.addVarying(({ onlyBest }) => {
      if (onlyBest) return;
      if (this.#choice === "best") best(this.#rows.length);
      else if (this.#choice === "coins") toss!(this.#rows.length);
      else draw(this.#rows.length);
    });
    this.#adjustments.compileCounting(plan);
    this.#logprobs.compile(plan);
  }

  /**
   * Allocates what the next step needs and is not there yet. Where there is no memory for it, the
   * rows that ask for most are told, and go on without.
   *
   * @returns The rows as they can be had: at once where there is nothing to wait for.
   */
  makeRoom(rows: LogitRows): LogitRows | Promise<LogitRows> {
    const isShort = this.#parts.some((part) => part.isShortFor(rows));
    return isShort ? this.#grow(rows) : rows;
  }

  async #grow(rows: LogitRows): Promise<LogitRows> {
    let fitting = rows;
    for (const part of this.#parts) {
      if (!part.isShortFor(fitting)) continue;
      try {
        await part.growFor(fitting);
      } catch (error) {
        fitting = part.without(fitting, error);
      }
    }
    return fitting;
  }

  /**
   * Takes the next step's rows of logits: first those to sample from, then those to score.
   *
   * @returns Whether the ids are those of each row's best logit, and no request wants the other
   * logits.
   */
  prepare({ sampled: rows, scored }: LogitRows): boolean {
    this.#rows = rows;
    this.#processed = rows.some(({ processor }) => processor !== undefined);
    const adjusts = this.#adjustments.prepare(rows);
    const gathers = this.#logprobs.prepare({ sampled: rows, scored });
    const isGreedy = rows.every(({ sampling }) => sampling.temperature === 0);
    this.#choice = isGreedy ? "best" : this.#coins?.prepare(rows) ? "coins" : "drawn";
    if (isGreedy) return !this.#processed && !adjusts && !gathers;
    rows.forEach(({ sampling, position }, i) => {
      writeDraw(this.#view, i, { ...sampling, position });
    });
    const used = new Uint8Array(this.#host, 0, rows.length * DRAW_WORDS * 4);
    this.#memory.write(this.draws, 0, used);
    return false;
  }

  /** What brings the recorded step's log-probabilities to the sequences that asked, if any did. */
  takeDelivery(): (() => Promise<void>) | undefined {
    return this.#logprobs.takeDelivery();
  }

  destroy(): void {
    this.#rowReadback?.destroy();
    this.#adjustments.destroy();
    this.#logprobs.destroy();
  }

  /** What brings rows to the host. */
  get #processing(): GrowingPart {
    return {
      isShortFor: ({ sampled }) =>
        this.#rowReadback === undefined && sampled.some(({ processor }) => processor),
      growFor: async () => {
        const { device } = this.#recorder!;
        const bytes = this.#options.vocabularySize * 4;
        let readback: Readback | undefined;
        try {
          await allocating(device, "memory for logit processors", () => {
            readback = new Readback(device, bytes, PROCESSED_TOGETHER);
          });
        } catch (error) {
          readback?.destroy();
          throw error;
        }
        this.#rowReadback = readback;
      },
      without: ({ sampled, scored }, error) => {
        const left = sampled.map((row) => {
          if (row.processor === undefined) return row;
          row.fail?.(error);
          return { ...row, processor: undefined };
        });
        return { sampled: left, scored };
      },
    };
  }

  /** Brings the logits of rows with a processor to the host and back. */
  async #runProcessors(recorder: Recorder): Promise<void> {
    const { logits, logitsStride, vocabularySize } = this.#options;
    const bytes = vocabularySize * 4;
    const rows = [...this.#rows.entries()].filter(([, { processor }]) => processor !== undefined);
    for (let first = 0; first < rows.length; first += PROCESSED_TOGETHER) {
      const reads = rows.slice(first, first + PROCESSED_TOGETHER).map(([r, { processor }]) => {
        const offset = r * logitsStride * 4;
        const from = { ...logits, offset: logits.offset + offset };
        return { offset, processor, read: this.#rowReadback!.record(recorder, from, bytes) };
      });
      recorder.submit();
      for (const { offset, processor, read } of reads) {
        const values = new Float32Array(await read());
        processor!(values);
        this.#memory.write(logits, offset, values);
      }
    }
  }
}
