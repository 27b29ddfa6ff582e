/**
 * config.json as published models of the families with grouped-query attention have it, written
 * down by hand.
 *
 * @module
 */

const LLAMA3 = {
  architectures: ["LlamaForCausalLM"],
  attention_bias: false,
  attention_dropout: 0.0,
  bos_token_id: 128000,
  eos_token_id: [128001, 128008, 128009],
  hidden_act: "silu",
  initializer_range: 0.02,
  max_position_embeddings: 131072,
  mlp_bias: false,
  model_type: "llama",
  num_attention_heads: 32,
  num_key_value_heads: 8,
  pretraining_tp: 1,
  rms_norm_eps: 1e-5,
  rope_theta: 500000.0,
  torch_dtype: "bfloat16",
  use_cache: true,
  vocab_size: 128256,
};

const LLAMA3_ROPE = {
  high_freq_factor: 4.0,
  low_freq_factor: 1.0,
  original_max_position_embeddings: 8192,
  rope_type: "llama3",
};

export const LLAMA_32_1B = {
  ...LLAMA3,
  head_dim: 64,
  hidden_size: 2048,
  intermediate_size: 8192,
  num_hidden_layers: 16,
  rope_scaling: { ...LLAMA3_ROPE, factor: 32.0 },
  tie_word_embeddings: true,
  transformers_version: "4.45.0.dev0",
};

/** With the fields of its trainer and of a library in browsers. */
export const SMOLLM2_135M = {
  ...LLAMA3,
  bos_token_id: 1,
  eos_token_id: 2,
  hidden_size: 576,
  initializer_range: 0.041666666666666664,
  intermediate_size: 1536,
  is_llama_config: true,
  max_position_embeddings: 8192,
  num_attention_heads: 9,
  num_hidden_layers: 30,
  num_key_value_heads: 3,
  pad_token_id: 2,
  rope_interleaved: false,
  rope_scaling: null,
  rope_theta: 100000,
  tie_word_embeddings: true,
  "transformers.js_config": { kv_cache_dtype: { q4f16: "float16", fp16: "float16" } },
  transformers_version: "4.42.3",
  vocab_size: 49152,
};

export const LLAMA_31_8B = {
  ...LLAMA3,
  hidden_size: 4096,
  intermediate_size: 14336,
  num_hidden_layers: 32,
  rope_scaling: { ...LLAMA3_ROPE, factor: 8.0 },
  tie_word_embeddings: false,
  transformers_version: "4.42.3",
};

export const MISTRAL_7B_V01 = {
  architectures: ["MistralForCausalLM"],
  bos_token_id: 1,
  eos_token_id: 2,
  hidden_act: "silu",
  hidden_size: 4096,
  initializer_range: 0.02,
  intermediate_size: 14336,
  max_position_embeddings: 32768,
  model_type: "mistral",
  num_attention_heads: 32,
  num_hidden_layers: 32,
  num_key_value_heads: 8,
  rms_norm_eps: 1e-5,
  rope_theta: 10000.0,
  sliding_window: 4096,
  tie_word_embeddings: false,
  torch_dtype: "bfloat16",
  transformers_version: "4.34.0.dev0",
  use_cache: true,
  vocab_size: 32000,
};

export const MISTRAL_7B_V03 = {
  ...MISTRAL_7B_V01,
  attention_dropout: 0.0,
  rope_theta: 1000000.0,
  sliding_window: null,
  transformers_version: "4.42.0.dev0",
  vocab_size: 32768,
};

const QWEN2 = {
  architectures: ["Qwen2ForCausalLM"],
  attention_dropout: 0.0,
  bos_token_id: 151643,
  eos_token_id: 151645,
  hidden_act: "silu",
  initializer_range: 0.02,
  max_position_embeddings: 32768,
  model_type: "qwen2",
  rms_norm_eps: 1e-6,
  rope_theta: 1000000.0,
  torch_dtype: "bfloat16",
  transformers_version: "4.43.1",
  use_cache: true,
  use_sliding_window: false,
};

export const QWEN25_05B = {
  ...QWEN2,
  hidden_size: 896,
  intermediate_size: 4864,
  max_window_layers: 21,
  num_attention_heads: 14,
  num_hidden_layers: 24,
  num_key_value_heads: 2,
  sliding_window: 32768,
  tie_word_embeddings: true,
  vocab_size: 151936,
};

export const QWEN25_7B = {
  ...QWEN2,
  hidden_size: 3584,
  intermediate_size: 18944,
  max_window_layers: 28,
  num_attention_heads: 28,
  num_hidden_layers: 28,
  num_key_value_heads: 4,
  sliding_window: 131072,
  tie_word_embeddings: false,
  vocab_size: 152064,
};

export const R1_DISTILL_QWEN_15B = {
  ...QWEN2,
  bos_token_id: 151646,
  eos_token_id: 151643,
  hidden_size: 1536,
  intermediate_size: 8960,
  max_position_embeddings: 131072,
  max_window_layers: 21,
  num_attention_heads: 12,
  num_hidden_layers: 28,
  num_key_value_heads: 2,
  rope_theta: 10000,
  sliding_window: 4096,
  tie_word_embeddings: false,
  transformers_version: "4.44.0",
  use_mrope: false,
  vocab_size: 151936,
};

export const R1_DISTILL_LLAMA_8B = { ...LLAMA_31_8B, bos_token_id: 128000, eos_token_id: 128001 };

const QWEN3 = {
  attention_bias: false,
  attention_dropout: 0.0,
  bos_token_id: 151643,
  eos_token_id: 151645,
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
  vocab_size: 151936,
};

export const QWEN3_06B = {
  ...QWEN3,
  architectures: ["Qwen3ForCausalLM"],
  hidden_size: 1024,
  intermediate_size: 3072,
  max_window_layers: 28,
  model_type: "qwen3",
  num_attention_heads: 16,
  num_hidden_layers: 28,
  num_key_value_heads: 8,
  tie_word_embeddings: true,
};

export const QWEN3_8B = {
  ...QWEN3,
  architectures: ["Qwen3ForCausalLM"],
  hidden_size: 4096,
  intermediate_size: 12288,
  max_window_layers: 36,
  model_type: "qwen3",
  num_attention_heads: 32,
  num_hidden_layers: 36,
  num_key_value_heads: 8,
  tie_word_embeddings: false,
};

const { rope_scaling: _scaling, rope_theta: _theta, torch_dtype: _dtype, ...rest } = QWEN3_8B;

/** Qwen3-8B as transformers 5 writes it: positions in one section, the kind of every layer. */
export const QWEN3_8B_ROPE_PARAMETERS = {
  ...rest,
  dtype: "bfloat16",
  layer_types: new Array<string>(36).fill("full_attention"),
  pad_token_id: null,
  rope_parameters: { rope_theta: 1000000, rope_type: "default" },
  transformers_version: "5.0.0",
};

export const QWEN3_30B_A3B = {
  ...QWEN3,
  architectures: ["Qwen3MoeForCausalLM"],
  decoder_sparse_step: 1,
  hidden_size: 2048,
  intermediate_size: 6144,
  max_window_layers: 48,
  mlp_only_layers: [],
  model_type: "qwen3_moe",
  moe_intermediate_size: 768,
  norm_topk_prob: true,
  num_attention_heads: 32,
  num_experts: 128,
  num_experts_per_tok: 8,
  num_hidden_layers: 48,
  num_key_value_heads: 4,
  output_router_logits: false,
  router_aux_loss_coef: 0.001,
  tie_word_embeddings: false,
};

/** Qwen3-Coder-30B-A3B. */
export const QWEN3_CODER_30B_A3B = {
  ...QWEN3_30B_A3B,
  intermediate_size: 5472,
  max_position_embeddings: 262144,
  max_window_layers: 28,
  qkv_bias: false,
  rope_theta: 10000000,
  shared_expert_intermediate_size: 0,
  use_qk_norm: true,
};

const layerTypes = (layers: number) =>
  Array.from({ length: layers }, (_, i) => (i % 2 === 0 ? "sliding_attention" : "full_attention"));

export const GPT_OSS_20B = {
  architectures: ["GptOssForCausalLM"],
  attention_bias: true,
  attention_dropout: 0.0,
  eos_token_id: 200002,
  experts_per_token: 4,
  head_dim: 64,
  hidden_act: "silu",
  hidden_size: 2880,
  initial_context_length: 4096,
  initializer_range: 0.02,
  intermediate_size: 2880,
  layer_types: layerTypes(24),
  max_position_embeddings: 131072,
  model_type: "gpt_oss",
  num_attention_heads: 64,
  num_experts_per_tok: 4,
  num_hidden_layers: 24,
  num_key_value_heads: 8,
  num_local_experts: 32,
  output_router_logits: false,
  pad_token_id: 199999,
  quantization_config: {
    modules_to_not_convert: [
      "model.layers.*.self_attn",
      "model.layers.*.mlp.router",
      "model.embed_tokens",
      "lm_head",
    ],
    quant_method: "mxfp4",
  },
  rms_norm_eps: 1e-5,
  rope_scaling: {
    beta_fast: 32.0,
    beta_slow: 1.0,
    factor: 32.0,
    original_max_position_embeddings: 4096,
    rope_type: "yarn",
    truncate: false,
  },
  rope_theta: 150000,
  router_aux_loss_coef: 0.9,
  sliding_window: 128,
  swiglu_limit: 7.0,
  tie_word_embeddings: false,
  transformers_version: "4.55.0.dev0",
  use_cache: true,
  vocab_size: 201088,
};

export const GPT_OSS_120B = {
  ...GPT_OSS_20B,
  layer_types: layerTypes(36),
  num_hidden_layers: 36,
  num_local_experts: 128,
};
