/**
 * DeepSeek-V2-Lite: config.json and tensors as published, sizes of choice.
 *
 * @module
 */
import { DEEPSEEK_V2_LITE } from "../checkpoints/deepseek_configs.ts";
import type { SyntheticModel } from "./source.ts";
import { SMALL_FIELDS, TensorList } from "./tensor_list.ts";

const V2_LITE = { ...DEEPSEEK_V2_LITE, ...SMALL_FIELDS };

export function deepseekV2(fields: Partial<typeof V2_LITE> = {}): SyntheticModel {
  const config = { ...V2_LITE, ...fields };
  const { hidden_size: hidden, num_attention_heads: heads, kv_lora_rank: latent } = config;
  const { qk_nope_head_dim: nope, qk_rope_head_dim: rope, v_head_dim: value } = config;
  const list = new TensorList();
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const name = `model.layers.${layer}`;
    list.norm(`${name}.input_layernorm`, hidden);
    list.norm(`${name}.post_attention_layernorm`, hidden);
    list.matrix(`${name}.self_attn.q_proj`, [heads * (nope + rope), hidden]);
    list.matrix(`${name}.self_attn.kv_a_proj_with_mqa`, [latent + rope, hidden]);
    list.norm(`${name}.self_attn.kv_a_layernorm`, latent);
    list.matrix(`${name}.self_attn.kv_b_proj`, [heads * (nope + value), latent]);
    list.matrix(`${name}.self_attn.o_proj`, [hidden, heads * value], 2);
    if (layer < config.first_k_dense_replace) {
      list.mlp(`${name}.mlp`, { hidden, width: config.intermediate_size });
      continue;
    }
    const width = config.moe_intermediate_size;
    list.matrix(`${name}.mlp.gate`, [config.n_routed_experts, hidden], 2);
    for (let expert = 0; expert < config.n_routed_experts; expert++) {
      list.mlp(`${name}.mlp.experts.${expert}`, { hidden, width });
    }
    list.mlp(`${name}.mlp.shared_experts`, { hidden, width: config.n_shared_experts * width });
  }
  const { vocab_size: vocabulary, tie_word_embeddings: tied } = config;
  list.ends({ vocabulary, hidden, tied });
  return { config, tensors: list.tensors };
}
