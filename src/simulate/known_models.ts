/**
 * Shapes of published models, for those who have no file of theirs: what config.json says of a layer.
 *
 * @module
 */
import type { ModelConfig } from "./config_source.ts";

const FP8 = {
  activation_scheme: "dynamic",
  fmt: "e4m3",
  quant_method: "fp8",
  weight_block_size: [128, 128],
};

const DEEPSEEK_V3: ModelConfig = {
  architectures: ["DeepseekV3ForCausalLM"],
  model_type: "deepseek_v3",
  torch_dtype: "bfloat16",
  vocab_size: 129_280,
  hidden_size: 7168,
  num_hidden_layers: 61,
  max_position_embeddings: 163_840,
  hidden_act: "silu",
  rms_norm_eps: 1e-6,
  tie_word_embeddings: false,
  attention_bias: false,
  num_attention_heads: 128,
  num_key_value_heads: 128,
  q_lora_rank: 1536,
  kv_lora_rank: 512,
  qk_nope_head_dim: 128,
  qk_rope_head_dim: 64,
  v_head_dim: 128,
  rope_theta: 10_000,
  rope_scaling: {
    type: "yarn",
    factor: 40,
    original_max_position_embeddings: 4096,
    beta_fast: 32,
    beta_slow: 1,
    mscale: 1,
    mscale_all_dim: 1,
  },
  intermediate_size: 18_432,
  first_k_dense_replace: 3,
  moe_layer_freq: 1,
  moe_intermediate_size: 2048,
  n_routed_experts: 256,
  n_shared_experts: 1,
  num_experts_per_tok: 8,
  n_group: 8,
  topk_group: 4,
  topk_method: "noaux_tc",
  scoring_func: "sigmoid",
  norm_topk_prob: true,
  routed_scaling_factor: 2.5,
  num_nextn_predict_layers: 1,
  quantization_config: FP8,
};

const QWEN3: ModelConfig = {
  torch_dtype: "bfloat16",
  vocab_size: 151_936,
  max_position_embeddings: 40_960,
  hidden_act: "silu",
  rms_norm_eps: 1e-6,
  tie_word_embeddings: false,
  attention_bias: false,
  num_attention_heads: 32,
  head_dim: 128,
  rope_theta: 1_000_000,
};

const QWEN3_8B: ModelConfig = {
  ...QWEN3,
  architectures: ["Qwen3ForCausalLM"],
  model_type: "qwen3",
  hidden_size: 4096,
  num_hidden_layers: 36,
  num_key_value_heads: 8,
  intermediate_size: 12_288,
};

const QWEN3_30B_A3B: ModelConfig = {
  ...QWEN3,
  architectures: ["Qwen3MoeForCausalLM"],
  model_type: "qwen3_moe",
  hidden_size: 2048,
  num_hidden_layers: 48,
  num_key_value_heads: 4,
  intermediate_size: 6144,
  decoder_sparse_step: 1,
  mlp_only_layers: [],
  moe_intermediate_size: 768,
  num_experts: 128,
  num_experts_per_tok: 8,
  norm_topk_prob: true,
};

/** By the id of their repository. */
export const KNOWN_MODELS: ReadonlyMap<string, ModelConfig> = new Map([
  ["deepseek-ai/DeepSeek-V3", DEEPSEEK_V3],
  ["deepseek-ai/DeepSeek-V3-0324", DEEPSEEK_V3],
  ["deepseek-ai/DeepSeek-R1", DEEPSEEK_V3],
  ["deepseek-ai/DeepSeek-R1-0528", DEEPSEEK_V3],
  ["Qwen/Qwen3-8B", QWEN3_8B],
  ["Qwen/Qwen3-30B-A3B", QWEN3_30B_A3B],
]);
