/**
 * The smallest models of each kind of attention, for tests of what holds whatever the weights are:
 * prompts of thousands of tokens take seconds on a software adapter.
 *
 * @module
 */
import { deepseekV2 } from "./deepseek_v2.ts";
import { llama } from "./llama.ts";
import type { SyntheticModel } from "./source.ts";

/** One layer, more tokens than prompts have, and a long context. */
const SIZES = {
  hidden_size: 64,
  intermediate_size: 64,
  max_position_embeddings: 16_384,
  num_hidden_layers: 1,
  vocab_size: 12_000,
};

/** Grouped-query attention: prompts and generated tokens are computed in one form. */
export function tinyLlama(): SyntheticModel {
  return llama({
    ...SIZES,
    head_dim: 16,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    tie_word_embeddings: false,
  });
}

/** Latent attention: prompts are computed in another form than generated tokens. */
export function tinyDeepseek(): SyntheticModel {
  return deepseekV2({
    ...SIZES,
    kv_lora_rank: 32,
    num_attention_heads: 2,
    num_key_value_heads: 2,
    qk_nope_head_dim: 16,
    qk_rope_head_dim: 8,
    v_head_dim: 16,
  });
}
