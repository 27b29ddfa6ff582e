/**
 * config.json as the published models of the family have it, written down by hand, and a plain list
 * of their tensors' dtypes.
 *
 * @module
 */
import type { Dtype } from "../../../src/dtype.ts";

const FP8 = {
  activation_scheme: "dynamic",
  fmt: "e4m3",
  quant_method: "fp8",
  weight_block_size: [128, 128],
};

const YARN = {
  beta_fast: 32,
  beta_slow: 1,
  factor: 40,
  mscale: 1.0,
  mscale_all_dim: 1.0,
  original_max_position_embeddings: 4096,
  type: "yarn",
};

export const DEEPSEEK_V3 = {
  architectures: ["DeepseekV3ForCausalLM"],
  attention_bias: false,
  attention_dropout: 0.0,
  auto_map: {
    AutoConfig: "configuration_deepseek.DeepseekV3Config",
    AutoModel: "modeling_deepseek.DeepseekV3Model",
    AutoModelForCausalLM: "modeling_deepseek.DeepseekV3ForCausalLM",
  },
  aux_loss_alpha: 0.001,
  bos_token_id: 0,
  eos_token_id: 1,
  ep_size: 1,
  first_k_dense_replace: 3,
  hidden_act: "silu",
  hidden_size: 7168,
  initializer_range: 0.02,
  intermediate_size: 18432,
  kv_lora_rank: 512,
  max_position_embeddings: 163840,
  model_type: "deepseek_v3",
  moe_intermediate_size: 2048,
  moe_layer_freq: 1,
  n_group: 8,
  n_routed_experts: 256,
  n_shared_experts: 1,
  norm_topk_prob: true,
  num_attention_heads: 128,
  num_experts_per_tok: 8,
  num_hidden_layers: 61,
  num_key_value_heads: 128,
  num_nextn_predict_layers: 1,
  pretraining_tp: 1,
  q_lora_rank: 1536,
  qk_nope_head_dim: 128,
  qk_rope_head_dim: 64,
  quantization_config: FP8,
  rms_norm_eps: 1e-6,
  rope_scaling: YARN,
  rope_theta: 10000,
  routed_scaling_factor: 2.5,
  scoring_func: "sigmoid",
  seq_aux: true,
  tie_word_embeddings: false,
  topk_group: 4,
  topk_method: "noaux_tc",
  torch_dtype: "bfloat16",
  transformers_version: "4.33.1",
  use_cache: true,
  v_head_dim: 128,
  vocab_size: 129280,
};

/** Scales of weights and of their inputs are powers of two. */
export const DEEPSEEK_V31 = {
  ...DEEPSEEK_V3,
  quantization_config: { ...FP8, scale_fmt: "ue8m0" },
};

export const KIMI_K2 = {
  ...DEEPSEEK_V3,
  bos_token_id: 163584,
  eos_token_id: 163585,
  first_k_dense_replace: 1,
  max_position_embeddings: 131072,
  model_type: "kimi_k2",
  n_group: 1,
  n_routed_experts: 384,
  num_attention_heads: 64,
  num_key_value_heads: 64,
  num_nextn_predict_layers: 0,
  rope_scaling: { ...YARN, beta_fast: 1.0, beta_slow: 1.0, factor: 32.0 },
  rope_theta: 50000.0,
  routed_scaling_factor: 2.827,
  topk_group: 1,
  vocab_size: 163840,
};

export const DEEPSEEK_V2 = {
  architectures: ["DeepseekV2ForCausalLM"],
  attention_bias: false,
  attention_dropout: 0.0,
  aux_loss_alpha: 0.001,
  bos_token_id: 100000,
  eos_token_id: 100001,
  ep_size: 1,
  first_k_dense_replace: 1,
  hidden_act: "silu",
  hidden_size: 5120,
  initializer_range: 0.02,
  intermediate_size: 12288,
  kv_lora_rank: 512,
  max_position_embeddings: 163840,
  model_type: "deepseek_v2",
  moe_intermediate_size: 1536,
  moe_layer_freq: 1,
  n_group: 8,
  n_routed_experts: 160,
  n_shared_experts: 2,
  norm_topk_prob: false,
  num_attention_heads: 128,
  num_experts_per_tok: 6,
  num_hidden_layers: 60,
  num_key_value_heads: 128,
  pretraining_tp: 1,
  q_lora_rank: 1536,
  qk_nope_head_dim: 128,
  qk_rope_head_dim: 64,
  rms_norm_eps: 1e-6,
  // biome-ignore lint/suspicious/noApproximativeNumericConstant: the files have three digits
  rope_scaling: { ...YARN, mscale: 0.707, mscale_all_dim: 0.707 },
  rope_theta: 10000,
  routed_scaling_factor: 16.0,
  scoring_func: "softmax",
  seq_aux: true,
  tie_word_embeddings: false,
  topk_group: 3,
  topk_method: "group_limited_greedy",
  torch_dtype: "bfloat16",
  transformers_version: "4.39.3",
  use_cache: true,
  v_head_dim: 128,
  vocab_size: 102400,
};

export const DEEPSEEK_V2_LITE = {
  ...DEEPSEEK_V2,
  hidden_size: 2048,
  intermediate_size: 10944,
  moe_intermediate_size: 1408,
  n_group: 1,
  n_routed_experts: 64,
  num_attention_heads: 16,
  num_hidden_layers: 27,
  num_key_value_heads: 16,
  q_lora_rank: null,
  routed_scaling_factor: 1.0,
  topk_group: 1,
  topk_method: "greedy",
};

const { torch_dtype, scoring_func, topk_method, ...rest } = DEEPSEEK_V3;
const { aux_loss_alpha, auto_map, ep_size, moe_layer_freq, seq_aux, ...kept } = rest;
const { type, ...yarn } = YARN;

/** V3 as transformers 4.5x writes it: router fields gone, sizes repeated. */
export const DEEPSEEK_V3_NATIVE = {
  ...kept,
  head_dim: 64,
  qk_head_dim: 192,
  pad_token_id: null,
  rope_interleave: true,
  rope_scaling: { ...YARN, rope_type: "yarn" },
  torch_dtype,
  transformers_version: "4.55.0",
};

const { rope_scaling, rope_theta, torch_dtype: _, ...native } = DEEPSEEK_V3_NATIVE;

/** V3 as transformers 5 writes it: positions in one section, another name of the dtype. */
export const DEEPSEEK_V3_ROPE_PARAMETERS = {
  ...native,
  dtype: "bfloat16",
  rope_parameters: { ...yarn, rope_type: "yarn", rope_theta: 10000.0 },
  transformers_version: "5.0.0",
};

/** Element types of the tensors of the FP8 releases. */
export function fp8ReleaseDtype(name: string): Dtype {
  if (name.endsWith("weight_scale_inv") || name.endsWith("e_score_correction_bias")) return "F32";
  return /(embed_tokens|lm_head|norm|mlp\.gate)\.weight$/.test(name) ? "BF16" : "F8_E4M3";
}
