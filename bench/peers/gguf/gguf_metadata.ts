/**
 * Fields of config.json under llama.cpp's names, and a vocabulary of single bytes.
 *
 * @module
 */
import {
  BOS_TOKEN_ID,
  byteTokens,
  EOS_TOKEN_ID,
} from "../../../test/support/synthetic/byte_tokenizer.ts";
import type { GgufMetadata, GgufValue } from "./gguf_writer.ts";

/** The fields that are read, those that not every family has optional. */
export interface ModelConfig {
  readonly model_type: "qwen3" | "qwen3_moe" | "llama" | "deepseek_v2" | "deepseek_v3" | "gpt_oss";
  readonly vocab_size: number;
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly max_position_embeddings: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim?: number;
  readonly rms_norm_eps: number;
  readonly rope_theta: number;
  readonly rope_scaling: {
    readonly rope_type?: string;
    readonly factor: number;
    readonly original_max_position_embeddings: number;
    readonly low_freq_factor?: number;
    readonly high_freq_factor?: number;
    readonly mscale_all_dim?: number;
    readonly beta_fast?: number;
    readonly beta_slow?: number;
    readonly truncate?: boolean;
  } | null;
  readonly tie_word_embeddings: boolean;
  readonly q_lora_rank?: number | null;
  readonly kv_lora_rank?: number;
  readonly qk_nope_head_dim?: number;
  readonly qk_rope_head_dim?: number;
  readonly v_head_dim?: number;
  readonly num_experts?: number;
  readonly n_routed_experts?: number;
  readonly num_local_experts?: number;
  readonly num_experts_per_tok?: number;
  readonly moe_intermediate_size?: number;
  readonly n_shared_experts?: number;
  readonly n_group?: number;
  readonly topk_group?: number;
  readonly first_k_dense_replace?: number;
  readonly routed_scaling_factor?: number;
  readonly norm_topk_prob?: boolean;
  readonly sliding_window?: number | null;
  readonly layer_types?: readonly string[];
  readonly swiglu_limit?: number;
}

const ARCHITECTURES = {
  qwen3: "qwen3",
  qwen3_moe: "qwen3moe",
  llama: "llama",
  deepseek_v2: "deepseek2",
  deepseek_v3: "deepseek2",
  gpt_oss: "gpt-oss",
} as const;
const SOFTMAX_GATING = 1;
const SIGMOID_GATING = 2;
/** Kinds of tokens. */
const NORMAL = 1;
const CONTROL = 3;

const u32 = (value: number): GgufValue => ({ type: "u32", value });
const f32 = (value: number): GgufValue => ({ type: "f32", value });
const text = (value: string): GgufValue => ({ type: "string", value });

export function ggufMetadata(config: ModelConfig): GgufMetadata {
  const architecture = ARCHITECTURES[config.model_type];
  const fields = {
    vocab_size: u32(config.vocab_size),
    block_count: u32(config.num_hidden_layers),
    context_length: u32(config.max_position_embeddings),
    embedding_length: u32(config.hidden_size),
    feed_forward_length: u32(config.intermediate_size),
    "attention.head_count": u32(config.num_attention_heads),
    "attention.layer_norm_rms_epsilon": f32(config.rms_norm_eps),
    "rope.freq_base": f32(config.rope_theta),
    ...(isLatent(config) ? latentFields(config) : headFields(config)),
    ...ropeFields(config),
    ...expertFields(config),
  };
  return {
    "general.architecture": text(architecture),
    "general.name": text("random weights"),
    ...Object.fromEntries(
      Object.entries(fields).map(([key, value]) => [`${architecture}.${key}`, value]),
    ),
    ...tokenizerFields(config.vocab_size),
  };
}

const isLatent = ({ kv_lora_rank: latent }: ModelConfig) => latent !== undefined;

type Fields = Readonly<Record<string, GgufValue>>;

function headFields(config: ModelConfig): Fields {
  return {
    "attention.head_count_kv": u32(config.num_key_value_heads),
    "attention.key_length": u32(config.head_dim!),
    "attention.value_length": u32(config.head_dim!),
    "rope.dimension_count": u32(config.head_dim!),
    ...(config.sliding_window ? { "attention.sliding_window": u32(config.sliding_window) } : {}),
  };
}

function latentFields(config: ModelConfig): Fields {
  const { kv_lora_rank: latent, qk_nope_head_dim: nope, qk_rope_head_dim: rope } = config;
  return {
    "attention.head_count_kv": u32(1),
    "attention.key_length": u32(latent! + rope!),
    "attention.value_length": u32(latent!),
    "attention.key_length_mla": u32(nope! + rope!),
    "attention.value_length_mla": u32(config.v_head_dim!),
    // Without one, what queries are made in two steps of: see gguf_model.ts.
    "attention.q_lora_rank": u32(config.q_lora_rank ?? config.hidden_size),
    "attention.kv_lora_rank": u32(latent!),
    "rope.dimension_count": u32(rope!),
    leading_dense_block_count: u32(config.first_k_dense_replace!),
  };
}

function ropeFields({ rope_scaling: scaling }: ModelConfig): Fields {
  // The llama3 scaling is a tensor.
  if (scaling === null || scaling.rope_type === "llama3") return {};
  if (scaling.truncate === false) throw new Error("llama.cpp always rounds the ramp of YaRN");
  return {
    "rope.scaling.type": text("yarn"),
    "rope.scaling.factor": f32(scaling.factor),
    "rope.scaling.original_context_length": u32(scaling.original_max_position_embeddings),
    ...(scaling.mscale_all_dim === undefined
      ? {}
      : { "rope.scaling.yarn_log_multiplier": f32(0.1 * scaling.mscale_all_dim) }),
  };
}

function expertFields(config: ModelConfig): Fields {
  const experts = config.num_experts ?? config.n_routed_experts ?? config.num_local_experts;
  if (experts === undefined) return {};
  const width = config.moe_intermediate_size ?? config.intermediate_size;
  const fields = {
    expert_count: u32(experts),
    expert_used_count: u32(config.num_experts_per_tok!),
    expert_feed_forward_length: u32(width),
  };
  if (!isLatent(config)) return fields;
  const isSigmoid = config.model_type === "deepseek_v3";
  return {
    ...fields,
    expert_shared_count: u32(config.n_shared_experts!),
    expert_weights_scale: f32(config.routed_scaling_factor!),
    expert_weights_norm: { type: "bool", value: config.norm_topk_prob! },
    expert_gating_func: u32(isSigmoid ? SIGMOID_GATING : SOFTMAX_GATING),
    ...(isSigmoid && {
      expert_group_count: u32(config.n_group!),
      expert_group_used_count: u32(config.topk_group!),
    }),
  };
}

function tokenizerFields(vocabularySize: number): Fields {
  const bytes = byteTokens();
  const ids = Array.from({ length: vocabularySize }, (_, id) => id);
  return {
    "tokenizer.ggml.model": text("gpt2"),
    "tokenizer.ggml.pre": text("gpt-2"),
    "tokenizer.ggml.tokens": {
      type: "strings",
      value: ids.map((id) => bytes[id] ?? `<|${id}|>`),
    },
    "tokenizer.ggml.token_type": {
      type: "i32s",
      value: ids.map((id) => (id < bytes.length ? NORMAL : CONTROL)),
    },
    "tokenizer.ggml.merges": { type: "strings", value: [`${bytes[0x61]} ${bytes[0x62]}`] },
    "tokenizer.ggml.bos_token_id": u32(BOS_TOKEN_ID),
    "tokenizer.ggml.eos_token_id": u32(EOS_TOKEN_ID),
    "tokenizer.ggml.add_bos_token": { type: "bool", value: false },
  };
}
