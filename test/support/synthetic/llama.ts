/**
 * Llama-3.2-1B: config.json and tensors as published, sizes of choice.
 *
 * @module
 */
import type { SyntheticModel } from "./source.ts";
import { SMALL_FIELDS, TensorList } from "./tensor_list.ts";

const LLAMA_32_1B = {
  ...SMALL_FIELDS,
  architectures: ["LlamaForCausalLM"],
  attention_bias: false,
  attention_dropout: 0.0,
  head_dim: 64,
  hidden_act: "silu",
  hidden_size: 2048,
  initializer_range: 0.02,
  intermediate_size: 8192,
  max_position_embeddings: 131072,
  mlp_bias: false,
  model_type: "llama",
  num_attention_heads: 32,
  num_key_value_heads: 8,
  pretraining_tp: 1,
  rms_norm_eps: 1e-5,
  rope_scaling: {
    factor: 32,
    high_freq_factor: 4,
    low_freq_factor: 1,
    original_max_position_embeddings: 8192,
    rope_type: "llama3",
  },
  rope_theta: 500000,
  tie_word_embeddings: true,
  torch_dtype: "bfloat16",
  transformers_version: "4.45.0.dev0",
  use_cache: true,
};

export function llama(fields: Partial<typeof LLAMA_32_1B> = {}): SyntheticModel {
  const config = { ...LLAMA_32_1B, ...fields };
  const { hidden_size: hidden, head_dim: head, intermediate_size: width } = config;
  const queries = config.num_attention_heads * head;
  const keys = config.num_key_value_heads * head;
  const list = new TensorList();
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const name = `model.layers.${layer}`;
    list.norm(`${name}.input_layernorm`, hidden);
    list.norm(`${name}.post_attention_layernorm`, hidden);
    list.matrix(`${name}.self_attn.q_proj`, [queries, hidden], 1.3);
    list.matrix(`${name}.self_attn.k_proj`, [keys, hidden], 1.3);
    list.matrix(`${name}.self_attn.v_proj`, [keys, hidden]);
    list.matrix(`${name}.self_attn.o_proj`, [hidden, queries], 2);
    list.mlp(`${name}.mlp`, { hidden, width });
  }
  const { vocab_size: vocabulary, tie_word_embeddings: tied } = config;
  list.ends({ vocabulary, hidden, tied });
  return { config, tensors: list.tensors };
}
