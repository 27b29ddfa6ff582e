/**
 * config.json of published models that read images, as far as it says what they compute.
 *
 * @module
 */

export const LLAVA_1_5 = {
  architectures: ["LlavaForConditionalGeneration"],
  ignore_index: -100,
  image_token_index: 32000,
  model_type: "llava",
  pad_token_id: 32001,
  projector_hidden_act: "gelu",
  text_config: {
    architectures: ["LlamaForCausalLM"],
    max_position_embeddings: 4096,
    model_type: "llama",
    rms_norm_eps: 1e-5,
    torch_dtype: "float16",
    vocab_size: 32064,
  },
  tie_word_embeddings: false,
  torch_dtype: "float16",
  vision_config: {
    hidden_size: 1024,
    image_size: 336,
    intermediate_size: 4096,
    model_type: "clip_vision_model",
    num_attention_heads: 16,
    num_hidden_layers: 24,
    patch_size: 14,
    projection_dim: 768,
    vocab_size: 32000,
  },
  vision_feature_layer: -2,
  vision_feature_select_strategy: "default",
  vocab_size: 32064,
};

export const QWEN_TEXT = {
  attention_dropout: 0,
  bos_token_id: 151643,
  eos_token_id: 151645,
  hidden_act: "silu",
  hidden_size: 2048,
  initializer_range: 0.02,
  intermediate_size: 11008,
  max_position_embeddings: 128000,
  max_window_layers: 70,
  num_attention_heads: 16,
  num_hidden_layers: 36,
  num_key_value_heads: 2,
  rms_norm_eps: 1e-6,
  rope_theta: 1000000,
  sliding_window: 32768,
  use_cache: true,
  use_sliding_window: false,
  vocab_size: 151936,
};
const QWEN_TOWER = {
  depth: 32,
  hidden_act: "silu",
  hidden_size: 1280,
  intermediate_size: 3420,
  num_heads: 16,
  out_hidden_size: 2048,
  patch_size: 14,
  spatial_merge_size: 2,
  window_size: 112,
  fullatt_block_indexes: [7, 15, 23, 31],
  tokens_per_second: 2,
  temporal_patch_size: 2,
};
const QWEN_TOKENS = {
  vision_start_token_id: 151652,
  vision_end_token_id: 151653,
  image_token_id: 151655,
  video_token_id: 151656,
};

export const QWEN_2_5_VL = {
  architectures: ["Qwen2_5_VLForConditionalGeneration"],
  model_type: "qwen2_5_vl",
  ...QWEN_TOKENS,
  vision_token_id: 151654,
  ...QWEN_TEXT,
  rope_scaling: { type: "mrope", mrope_section: [16, 24, 24] },
  tie_word_embeddings: true,
  torch_dtype: "bfloat16",
  vision_config: { ...QWEN_TOWER, in_chans: 3, spatial_patch_size: 14 },
};

export const QWEN_2_5_VL_NEW = {
  architectures: ["Qwen2_5_VLForConditionalGeneration"],
  model_type: "qwen2_5_vl",
  ...QWEN_TOKENS,
  text_config: {
    ...QWEN_TEXT,
    model_type: "qwen2_5_vl_text",
    rope_scaling: { mrope_section: [16, 24, 24], rope_type: "default", type: "default" },
  },
  tie_word_embeddings: true,
  dtype: "bfloat16",
  vision_config: { ...QWEN_TOWER, in_channels: 3, model_type: "qwen2_5_vl" },
};

const TILE = 384;
const TILES = [1, 2, 3, 4, 5, 6, 7, 8, 9];

export const DEEPSEEK_VL2_TINY = {
  architectures: ["DeepseekVLV2ForCausalLM"],
  candidate_resolutions: TILES.flatMap((across) =>
    TILES.filter((down) => across * down <= 9).map((down) => [across * TILE, down * TILE]),
  ),
  global_view_pos: "head",
  language_config: {
    architectures: ["DeepseekV2ForCausalLM"],
    bos_token_id: 0,
    eos_token_id: 1,
    first_k_dense_replace: 1,
    hidden_size: 1280,
    intermediate_size: 6848,
    kv_lora_rank: null,
    lm_head: true,
    max_position_embeddings: 4096,
    model_type: "deepseek_v2",
    moe_intermediate_size: 896,
    n_group: 1,
    n_routed_experts: 64,
    n_shared_experts: 2,
    num_attention_heads: 10,
    num_experts_per_tok: 6,
    num_hidden_layers: 12,
    num_key_value_heads: 10,
    q_lora_rank: null,
    qk_nope_head_dim: 0,
    qk_rope_head_dim: 0,
    rm_head: false,
    topk_group: 1,
    topk_method: "greedy",
    torch_dtype: "bfloat16",
    use_mla: false,
    v_head_dim: 0,
    vocab_size: 129280,
  },
  model_type: "deepseek_vl_v2",
  projector_config: { model_type: "mlp_projector", n_embed: 1280 },
  tile_tag: "2D",
  torch_dtype: "bfloat16",
  vision_config: {
    layers: 27,
    mlp_ratio: 3.7362,
    model_name: "siglip_so400m_patch14_384",
    model_type: "vision",
    patch_size: 14,
    width: 1152,
  },
};
