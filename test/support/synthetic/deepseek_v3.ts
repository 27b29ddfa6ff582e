/**
 * DeepSeek-V3: config.json and tensors as published, in FP8 or in BF16, sizes of choice.
 *
 * @module
 */
import { DEEPSEEK_V3 } from "../checkpoints/deepseek_configs.ts";
import type { SyntheticModel } from "./source.ts";
import { SMALL_FIELDS, TensorList } from "./tensor_list.ts";

const { quantization_config, ...PLAIN } = DEEPSEEK_V3;
const V3 = { ...PLAIN, ...SMALL_FIELDS, num_nextn_predict_layers: 0, rope_scaling: null };

/** Of the size that a CPU serves: 16 experts in 4 groups, of which 2, 4 experts a token. */
export const DEEPSEEK_6_LAYERS = {
  first_k_dense_replace: 1,
  hidden_size: 1024,
  intermediate_size: 2816,
  kv_lora_rank: 256,
  moe_intermediate_size: 512,
  n_group: 4,
  n_routed_experts: 16,
  num_attention_heads: 16,
  num_experts_per_tok: 4,
  num_hidden_layers: 6,
  num_key_value_heads: 16,
  q_lora_rank: 384,
  topk_group: 2,
  vocab_size: 32_000,
};

export function deepseekV3(
  fields: Partial<typeof V3> = {},
  { fp8 = true }: { readonly fp8?: boolean } = {},
): SyntheticModel {
  const config = { ...V3, ...fields, ...(fp8 && { quantization_config }) };
  const { hidden_size: hidden, num_attention_heads: heads, kv_lora_rank: latent } = config;
  const { qk_nope_head_dim: nope, qk_rope_head_dim: rope, v_head_dim: value } = config;
  const list = new TensorList({ fp8 });
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const name = `model.layers.${layer}`;
    const attention = `${name}.self_attn`;
    list.norm(`${name}.input_layernorm`, hidden);
    list.norm(`${name}.post_attention_layernorm`, hidden);
    list.matrix(`${attention}.q_a_proj`, [config.q_lora_rank, hidden]);
    list.norm(`${attention}.q_a_layernorm`, config.q_lora_rank);
    list.matrix(`${attention}.q_b_proj`, [heads * (nope + rope), config.q_lora_rank]);
    list.matrix(`${attention}.kv_a_proj_with_mqa`, [latent + rope, hidden]);
    list.norm(`${attention}.kv_a_layernorm`, latent);
    list.matrix(`${attention}.kv_b_proj`, [heads * (nope + value), latent]);
    list.matrix(`${attention}.o_proj`, [hidden, heads * value], 2);
    if (layer < config.first_k_dense_replace) {
      list.mlp(`${name}.mlp`, { hidden, width: config.intermediate_size });
      continue;
    }
    const width = config.moe_intermediate_size;
    const router = [config.n_routed_experts, hidden];
    list.normal(`${name}.mlp.gate.weight`, router, { sigma: 2 / Math.sqrt(hidden) });
    list.bias(`${name}.mlp.gate.e_score_correction_bias`, [config.n_routed_experts]);
    for (let expert = 0; expert < config.n_routed_experts; expert++) {
      list.mlp(`${name}.mlp.experts.${expert}`, { hidden, width });
    }
    list.mlp(`${name}.mlp.shared_experts`, { hidden, width: config.n_shared_experts * width });
  }
  const { vocab_size: vocabulary, tie_word_embeddings: tied } = config;
  list.ends({ vocabulary, hidden, tied });
  return { config, tensors: list.tensors };
}
