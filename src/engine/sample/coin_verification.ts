/**
 * Drafts that are accepted by coins: of a step, which rows of logits stand behind which, and the
 * launch that chooses tokens by that in place of the plain draw.
 *
 * @module
 */
import {
  CHILDREN_WORDS,
  NO_ROW,
  type VerifyOptions,
  verify,
} from "../../../kernels/sampling/coins/verify.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { AcceptThresholds } from "../../speculation/verify.ts";
import type { SampledRow } from "./sampled_row.ts";

export interface CoinVerificationOptions {
  /** One of them is below 1: otherwise the plain draw is right. */
  readonly thresholds: AcceptThresholds;
  /** `[maxRows]` u32: rows of the step whose logits are wanted */
  readonly logitRows: Tensor;
  /** `[..]` of four u32, of which a draft's first is its token id */
  readonly rows: Tensor;
}

export class CoinVerification {
  readonly #options: CoinVerificationOptions;
  readonly #memory: DeviceMemory;
  readonly #children: Tensor;
  readonly #host: Uint32Array<ArrayBuffer>;

  /** @param maxRows Rows of logits of one step. */
  constructor(memory: DeviceMemory, maxRows: number, options: CoinVerificationOptions) {
    this.#options = options;
    this.#memory = memory;
    this.#host = new Uint32Array(maxRows * CHILDREN_WORDS);
    this.#children = memory.allocate("activations", this.#host.byteLength, "rows behind rows");
  }

  /** @returns What records the launch over so many rows. */
  bind(
    recorder: Recorder,
    shape: Omit<VerifyOptions, "children" | "logitRows" | "rows" | "single" | "acc">,
  ): (rows: number) => void {
    const { thresholds, ...tensors } = this.#options;
    return verify(recorder, { ...shape, ...tensors, ...thresholds, children: this.#children });
  }

  /** @returns Whether the step has a draft that a coin decides about. */
  prepare(rows: readonly SampledRow[]): boolean {
    const tosses = rows.some(
      ({ firstChild, sampling }) => firstChild !== undefined && sampling.temperature > 0,
    );
    if (!tosses) return false;
    rows.forEach(({ firstChild = NO_ROW, nextSibling = NO_ROW }, i) => {
      this.#host[i * CHILDREN_WORDS] = firstChild;
      this.#host[i * CHILDREN_WORDS + 1] = nextSibling;
    });
    this.#memory.write(this.#children, 0, this.#host.subarray(0, rows.length * CHILDREN_WORDS));
    return true;
  }
}
