/**
 * Qwen3-0.6B and Qwen3-30B-A3B: config.json and tensors as published, sizes of choice.
 *
 * @module
 */
import type { SyntheticModel } from "./source.ts";
import { SMALL_FIELDS, TensorList } from "./tensor_list.ts";

const FAMILY = {
  ...SMALL_FIELDS,
  attention_bias: false,
  attention_dropout: 0.0,
  head_dim: 128,
  hidden_act: "silu",
  initializer_range: 0.02,
  max_position_embeddings: 40960,
  rms_norm_eps: 1e-6,
  rope_scaling: null,
  rope_theta: 1000000,
  sliding_window: null,
  torch_dtype: "bfloat16",
  transformers_version: "4.51.0",
  use_cache: true,
  use_sliding_window: false,
};

const QWEN3_06B = {
  ...FAMILY,
  architectures: ["Qwen3ForCausalLM"],
  hidden_size: 1024,
  intermediate_size: 3072,
  max_window_layers: 28,
  model_type: "qwen3",
  num_attention_heads: 16,
  num_key_value_heads: 8,
  tie_word_embeddings: true,
};

const QWEN3_30B_A3B = {
  ...FAMILY,
  architectures: ["Qwen3MoeForCausalLM"],
  decoder_sparse_step: 1,
  hidden_size: 2048,
  intermediate_size: 6144,
  max_window_layers: 48,
  mlp_only_layers: [] as readonly number[],
  model_type: "qwen3_moe",
  moe_intermediate_size: 768,
  norm_topk_prob: true,
  num_attention_heads: 32,
  num_experts: 128,
  num_experts_per_tok: 8,
  num_key_value_heads: 4,
  output_router_logits: false,
  router_aux_loss_coef: 0.001,
  tie_word_embeddings: false,
};

export function qwen3(fields: Partial<typeof QWEN3_06B> = {}): SyntheticModel {
  const config = { ...QWEN3_06B, ...fields };
  const { hidden_size: hidden, intermediate_size: width } = config;
  const list = new TensorList();
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    attention(list, config, layer);
    list.mlp(`model.layers.${layer}.mlp`, { hidden, width });
  }
  const { vocab_size: vocabulary, tie_word_embeddings: tied } = config;
  list.ends({ vocabulary, hidden, tied });
  return { config, tensors: list.tensors };
}

export function qwen3Moe(fields: Partial<typeof QWEN3_30B_A3B> = {}): SyntheticModel {
  const config = { ...QWEN3_30B_A3B, ...fields };
  const { hidden_size: hidden, moe_intermediate_size: width } = config;
  const list = new TensorList();
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    attention(list, config, layer);
    const mlp = `model.layers.${layer}.mlp`;
    list.matrix(`${mlp}.gate`, [config.num_experts, hidden], 2);
    for (let expert = 0; expert < config.num_experts; expert++) {
      list.mlp(`${mlp}.experts.${expert}`, { hidden, width });
    }
  }
  const { vocab_size: vocabulary, tie_word_embeddings: tied } = config;
  list.ends({ vocabulary, hidden, tied });
  return { config, tensors: list.tensors };
}

interface AttentionSizes {
  readonly hidden_size: number;
  readonly head_dim: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
}

function attention(list: TensorList, sizes: AttentionSizes, layer: number): void {
  const { hidden_size: hidden, head_dim: head } = sizes;
  const queries = sizes.num_attention_heads * head;
  const keys = sizes.num_key_value_heads * head;
  const name = `model.layers.${layer}`;
  list.norm(`${name}.input_layernorm`, hidden);
  list.norm(`${name}.post_attention_layernorm`, hidden);
  list.matrix(`${name}.self_attn.q_proj`, [queries, hidden]);
  list.matrix(`${name}.self_attn.k_proj`, [keys, hidden]);
  list.matrix(`${name}.self_attn.v_proj`, [keys, hidden]);
  list.norm(`${name}.self_attn.q_norm`, head, 1.3);
  list.norm(`${name}.self_attn.k_norm`, head, 1.3);
  list.matrix(`${name}.self_attn.o_proj`, [hidden, queries], 2);
}
