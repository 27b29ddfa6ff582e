/**
 * Checkpoints of the DeepSeek family with random weights, of any shape and storage.
 *
 * @module
 */
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { seeded } from "../devices/gpu.ts";
import { checkpointFiles, fp8BlockTensors, type TensorInput } from "./write_checkpoint.ts";

export interface RandomDeepseek {
  /** Fields of config.json; those of `SMALL_DEEPSEEK` unless given, absent when undefined. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Storage of the linears; embeddings, heads, norms and routers stay BF16 beside FP8. */
  readonly dtype?: "BF16" | "F16" | "F32" | "FP8";
  readonly scaleDtype?: "F32" | "BF16";
  /** Fields of `quantization_config` besides those of V3. */
  readonly quantization?: Readonly<Record<string, unknown>>;
  /** Linears that stay BF16 in an FP8 checkpoint: parts of their names. */
  readonly unquantized?: readonly string[];
  readonly shards?: number;
  readonly seed?: number;
  /** Tensors to leave out, change or add, before the files are written. */
  readonly edit?: (tensors: TensorInput[]) => TensorInput[];
}

/** Sizes that cut FP8 blocks in both dimensions, and everything the family has switched on. */
export const SMALL_DEEPSEEK = {
  architectures: ["DeepseekV3ForCausalLM"],
  attention_bias: false,
  first_k_dense_replace: 1,
  hidden_act: "silu",
  hidden_size: 136,
  intermediate_size: 152,
  kv_lora_rank: 24,
  max_position_embeddings: 1024,
  moe_intermediate_size: 24,
  moe_layer_freq: 1,
  num_nextn_predict_layers: 0,
  n_group: 4,
  n_routed_experts: 16,
  n_shared_experts: 1,
  norm_topk_prob: true,
  num_attention_heads: 4,
  num_experts_per_tok: 3,
  num_hidden_layers: 2,
  num_key_value_heads: 4,
  q_lora_rank: 40,
  qk_nope_head_dim: 20,
  qk_rope_head_dim: 8,
  rms_norm_eps: 1e-6,
  rope_scaling: {
    type: "yarn",
    factor: 8,
    original_max_position_embeddings: 64,
    beta_fast: 32,
    beta_slow: 1,
    mscale: 1,
    mscale_all_dim: 0.8,
  },
  rope_theta: 10000,
  routed_scaling_factor: 2.5,
  scoring_func: "sigmoid",
  tie_word_embeddings: false,
  topk_group: 2,
  topk_method: "noaux_tc",
  v_head_dim: 12,
  vocab_size: 264,
};

type SmallConfig = typeof SMALL_DEEPSEEK;

const FP8_CONFIG = {
  quant_method: "fp8",
  fmt: "e4m3",
  activation_scheme: "dynamic",
  weight_block_size: [128, 128],
};

export function randomDeepseek(options: RandomDeepseek = {}): WeightSource {
  const { dtype = "BF16", scaleDtype = "F32", unquantized = [], shards = 1, seed = 1 } = options;
  const config = { ...SMALL_DEEPSEEK, ...options.config };
  const random = seeded(seed);
  const tensors: TensorInput[] = [];
  const plain = dtype === "FP8" ? "BF16" : dtype;
  const values = (count: number, size: number, middle = 0) =>
    Float32Array.from({ length: count }, () => middle + (random() * 2 - 1) * size);
  const vector = (name: string, length: number, size: number, middle: number) => {
    tensors.push({ name, shape: [length], dtype: plain, values: values(length, size, middle) });
  };
  // Outputs stay near the size of inputs whatever the columns are.
  const matrix = (name: string, rows: number, columns: number, gain = 1) => {
    const held = values(rows * columns, gain * Math.sqrt(3 / columns));
    tensors.push({ name: `${name}.weight`, shape: [rows, columns], dtype: plain, values: held });
  };
  const linear = (name: string, rows: number, columns: number) => {
    if (dtype !== "FP8" || unquantized.some((part) => name.includes(part))) {
      matrix(name, rows, columns);
      return;
    }
    // Blocks of clearly different scales: a wrong one shows.
    const held = values(rows * columns, Math.sqrt(3 / columns));
    held.forEach((value, i) => {
      const block = Math.floor(i / columns / 128) + Math.floor((i % columns) / 128);
      held[i] = value * [1, 0.4, 1.5][block % 3]!;
    });
    const weight = { name: `${name}.weight`, values: held, rows, columns, scaleDtype };
    tensors.push(...fp8BlockTensors(weight));
  };

  matrix("model.embed_tokens", config.vocab_size, config.hidden_size, 10);
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    writeLayer(config, layer, { vector, matrix, linear });
  }
  vector("model.norm.weight", config.hidden_size, 0.3, 1);
  if (!config.tie_word_embeddings) matrix("lm_head", config.vocab_size, config.hidden_size, 1.5);
  if (config.num_nextn_predict_layers === 1) writeDraftLayer(config, { vector, matrix, linear });

  const file =
    dtype === "FP8"
      ? { ...config, quantization_config: { ...FP8_CONFIG, ...options.quantization } }
      : config;
  const edited = options.edit?.(tensors) ?? tensors;
  return memorySource(checkpointFiles({ tensors: edited, config: file, shards }));
}

export interface Writers {
  vector(name: string, length: number, size: number, middle: number): void;
  matrix(name: string, rows: number, columns: number, gain?: number): void;
  linear(name: string, rows: number, columns: number): void;
}

function writeLayer(config: SmallConfig, layer: number, { vector, matrix, linear }: Writers): void {
  const { hidden_size: hidden, n_routed_experts: routed, n_shared_experts: shared } = config;
  const name = `model.layers.${layer}`;
  const norm = (which: string, length: number) => vector(`${name}.${which}.weight`, length, 0.3, 1);
  norm("input_layernorm", hidden);
  norm("post_attention_layernorm", hidden);
  writeLatentAttention(config, { name: `${name}.self_attn`, inputs: hidden }, { vector, linear });

  const mlp = (which: string, width: number) => {
    linear(`${which}.gate_proj`, width, hidden);
    linear(`${which}.up_proj`, width, hidden);
    linear(`${which}.down_proj`, hidden, width);
  };
  const dense = layer < config.first_k_dense_replace || layer % config.moe_layer_freq !== 0;
  if (!routed || dense) {
    mlp(`${name}.mlp`, config.intermediate_size);
    return;
  }
  matrix(`${name}.mlp.gate`, routed, hidden, 1);
  if (config.topk_method === "noaux_tc") {
    vector(`${name}.mlp.gate.e_score_correction_bias`, routed, 0.2, 0);
  }
  const width = config.moe_intermediate_size;
  for (let e = 0; e < routed; e++) mlp(`${name}.mlp.experts.${e}`, width);
  if (shared) mlp(`${name}.mlp.shared_experts`, shared * width);
}

/** The layer that predicts the token after the next, behind the others. */
function writeDraftLayer(config: SmallConfig, writers: Writers): void {
  const { hidden_size: hidden, num_hidden_layers: layer, vocab_size: vocabulary } = config;
  const name = `model.layers.${layer}`;
  writeLayer(config, layer, writers);
  for (const norm of ["enorm", "hnorm", "shared_head.norm"]) {
    writers.vector(`${name}.${norm}.weight`, hidden, 0.3, 1);
  }
  writers.matrix(`${name}.eh_proj`, hidden, 2 * hidden);
  // Checkpoints repeat the model's own here. These are others: nothing reads them.
  for (const own of ["embed_tokens", "shared_head.head"]) {
    writers.matrix(`${name}.${own}`, vocabulary, hidden);
  }
}

type LatentConfig = Pick<
  SmallConfig,
  | "hidden_size"
  | "kv_lora_rank"
  | "num_attention_heads"
  | "v_head_dim"
  | "qk_rope_head_dim"
  | "qk_nope_head_dim"
> & { readonly q_lora_rank: number | null };

/** @param place `inputs`: width of the rows that are projected. */
export function writeLatentAttention(
  config: LatentConfig,
  { name, inputs }: { readonly name: string; readonly inputs: number },
  { vector, linear }: Pick<Writers, "vector" | "linear">,
): void {
  const { hidden_size: hidden, kv_lora_rank: latent, q_lora_rank: queryLatent } = config;
  const { num_attention_heads: heads, v_head_dim: value } = config;
  const { qk_rope_head_dim: rope, qk_nope_head_dim: nope } = config;
  const norm = (which: string, length: number) => vector(`${name}.${which}.weight`, length, 0.3, 1);
  if (queryLatent === null) linear(`${name}.q_proj`, heads * (nope + rope), inputs);
  else {
    linear(`${name}.q_a_proj`, queryLatent, inputs);
    norm("q_a_layernorm", queryLatent);
    linear(`${name}.q_b_proj`, heads * (nope + rope), queryLatent);
  }
  linear(`${name}.kv_a_proj_with_mqa`, latent + rope, inputs);
  norm("kv_a_layernorm", latent);
  linear(`${name}.kv_b_proj`, heads * (nope + value), latent);
  linear(`${name}.o_proj`, hidden, heads * value);
}
