/**
 * How recipes write their tensors down: sizes chosen so that every part of a layer matters to the
 * answer, and the answer is far from uniform.
 *
 * @module
 */
import { BOS_TOKEN_ID, EOS_TOKEN_ID } from "./byte_tokenizer.ts";
import { FP8_SIZE } from "./random_words.ts";
import type { SyntheticTensor } from "./source.ts";

/** Fields that every recipe has in common: few tokens, two layers. */
export const SMALL_FIELDS = {
  bos_token_id: BOS_TOKEN_ID,
  eos_token_id: EOS_TOKEN_ID,
  num_hidden_layers: 2,
  vocab_size: 512,
};

/** Logits' standard deviation, near that of a trained model. */
const LOGIT_GAIN = 3;
const NORM_SIGMA = 0.15;
const BIAS_SIGMA = 0.1;
/** Rows, and columns, of a block of FP8 weights. */
const FP8_BLOCK = 128;
/** Scales differ by this share of them. */
const SCALE_SIGMA = 0.1;

export class TensorList {
  readonly tensors: SyntheticTensor[] = [];
  readonly #isFp8: boolean;

  /** @param options `fp8` stores matrices as DeepSeek-V3 does: E4M3, blocks of 128x128. */
  constructor({ fp8 = false }: { readonly fp8?: boolean } = {}) {
    this.#isFp8 = fp8;
  }

  /** `NAME.weight [rows, columns]`: inputs of size 1 become outputs of size `gain`. */
  matrix(name: string, [rows, columns]: readonly [number, number], gain = 1): void {
    const size = gain / Math.sqrt(columns);
    if (!this.#isFp8) {
      this.normal(`${name}.weight`, [rows, columns], { sigma: size });
      return;
    }
    this.tensors.push({
      name: `${name}.weight`,
      shape: [rows, columns],
      values: { kind: "fp8" },
    });
    const blocks = [rows, columns].map((length) => Math.ceil(length / FP8_BLOCK));
    const mean = size / FP8_SIZE;
    this.normal(`${name}.weight_scale_inv`, blocks, { mean, sigma: SCALE_SIGMA * mean });
  }

  norm(name: string, length: number, mean = 1): void {
    this.normal(`${name}.weight`, [length], { mean, sigma: NORM_SIGMA });
  }

  /** Any shape; the name is whole. */
  bias(name: string, shape: readonly number[]): void {
    this.normal(name, shape, { sigma: BIAS_SIGMA });
  }

  normal(
    name: string,
    shape: readonly number[],
    { mean = 0, sigma }: { mean?: number; sigma: number },
  ): void {
    this.tensors.push({ name, shape, values: { kind: "normal", mean, sigma } });
  }

  /** The three matrices of a gated MLP. */
  mlp(name: string, { hidden, width }: { hidden: number; width: number }): void {
    this.matrix(`${name}.gate_proj`, [width, hidden], 1.5);
    this.matrix(`${name}.up_proj`, [width, hidden], 1.5);
    this.matrix(`${name}.down_proj`, [hidden, width]);
  }

  /** What is before and behind the layers. */
  ends({ vocabulary, hidden, tied }: { vocabulary: number; hidden: number; tied: boolean }): void {
    const logits = { sigma: LOGIT_GAIN / Math.sqrt(hidden) };
    const shape = [vocabulary, hidden];
    this.normal("model.embed_tokens.weight", shape, tied ? logits : { sigma: 1 });
    this.norm("model.norm", hidden);
    if (!tied) this.normal("lm_head.weight", shape, logits);
  }
}
