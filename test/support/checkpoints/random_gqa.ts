/**
 * Checkpoints of the families with grouped-query attention with random weights, of any shape and
 * storage.
 *
 * @module
 */
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import type { Dtype } from "../../../src/dtype.ts";
import { seeded } from "../devices/gpu.ts";
import {
  type MatrixStorage,
  mxfp4Experts,
  quantizationSection,
  randomMatrix,
} from "./quantized_tensors.ts";
import { checkpointFiles, type TensorInput } from "./write_checkpoint.ts";

export interface RandomGqa {
  /** Whose fields config.json has. Default "llama". */
  readonly family?: keyof typeof SMALL_GQA;
  /** Fields of config.json besides the family's, absent when undefined. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Of the linears; embeddings, heads, norms, biases and routers are plain. Default BF16. */
  readonly storage?: MatrixStorage;
  readonly scaleDtype?: Dtype;
  /** Linears that stay BF16 in a quantized checkpoint: parts of their names. */
  readonly unquantized?: readonly string[];
  readonly shards?: number;
  readonly seed?: number;
  /** Tensors to leave out, change or add, before the files are written. */
  readonly edit?: (tensors: TensorInput[]) => TensorInput[];
}

/** Odd in every respect that a family allows. */
const COMMON = {
  head_dim: 20,
  hidden_act: "silu",
  hidden_size: 72,
  intermediate_size: 101,
  max_position_embeddings: 1024,
  num_attention_heads: 6,
  num_hidden_layers: 2,
  num_key_value_heads: 2,
  rms_norm_eps: 1e-5,
  rope_theta: 10000,
  tie_word_embeddings: false,
  vocab_size: 263,
};

const EXPERTS = {
  decoder_sparse_step: 1,
  mlp_only_layers: [],
  moe_intermediate_size: 27,
  norm_topk_prob: true,
  num_experts: 11,
  num_experts_per_tok: 3,
};

export const SMALL_GQA = {
  llama: {
    ...COMMON,
    architectures: ["LlamaForCausalLM"],
    rope_scaling: {
      rope_type: "llama3",
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 64,
    },
  },
  mistral: { ...COMMON, architectures: ["MistralForCausalLM"], sliding_window: 9 },
  qwen2: {
    ...COMMON,
    architectures: ["Qwen2ForCausalLM"],
    max_window_layers: 1,
    sliding_window: 11,
    use_sliding_window: true,
  },
  qwen3: { ...COMMON, architectures: ["Qwen3ForCausalLM"], attention_bias: false },
  qwen3Moe: { ...COMMON, ...EXPERTS, architectures: ["Qwen3MoeForCausalLM"] },
  gptOss: {
    ...COMMON,
    architectures: ["GptOssForCausalLM"],
    attention_bias: true,
    hidden_size: 96,
    intermediate_size: 64,
    layer_types: ["sliding_attention", "full_attention"],
    num_experts_per_tok: 2,
    num_local_experts: 5,
    quantization_config: { quant_method: "mxfp4" },
    rope_scaling: {
      rope_type: "yarn",
      factor: 8,
      original_max_position_embeddings: 64,
      truncate: false,
    },
    sliding_window: 7,
    swiglu_limit: 2.5,
  },
} as const;

/** What the writer reads of a config. */
interface Sizes {
  readonly architectures: readonly string[];
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads?: number;
  readonly head_dim?: number;
  readonly vocab_size: number;
  readonly attention_bias?: boolean;
  readonly mlp_bias?: boolean;
  readonly tie_word_embeddings?: boolean;
  readonly num_experts?: number;
  readonly moe_intermediate_size?: number;
  readonly decoder_sparse_step?: number;
  readonly mlp_only_layers?: readonly number[];
  readonly num_local_experts?: number;
}

const BF16: MatrixStorage = { kind: "BF16" };

/** Fields of config.json, without `quantization_config`. */
export function configOf({ family = "llama", config }: RandomGqa): Sizes {
  return { ...SMALL_GQA[family], ...config } as Sizes;
}

export function randomGqa(options: RandomGqa = {}): WeightSource {
  const { storage = BF16, scaleDtype, unquantized = [], shards = 1, seed = 1 } = options;
  const config = configOf(options);
  const random = seeded(seed);
  const tensors: TensorInput[] = [];
  const isPlain = storage.kind === "F16" || storage.kind === "F32";
  const plain = isPlain ? storage : BF16;
  const vector: Writers["vector"] = (name, length, size, middle) => {
    const value = () => middle + (random() * 2 - 1) * size;
    const values = Float32Array.from({ length }, value);
    tensors.push({ name, shape: [length], dtype: plain.kind as Dtype, values });
  };
  // Outputs stay near the size of inputs whatever the columns are.
  const matrix: Writers["matrix"] = (name, rows, columns, gain = 1) => {
    const deviation = gain / Math.sqrt(columns);
    tensors.push(...randomMatrix({ name, rows, columns, storage: plain, deviation, random }));
  };
  const linear: Writers["linear"] = (name, rows, columns, more) => {
    const kept = unquantized.some((part) => name.includes(part)) ? BF16 : storage;
    const deviation = (more.gain ?? 1) / Math.sqrt(columns);
    const own = { name, rows, columns, storage: kept, deviation, random };
    tensors.push(...randomMatrix(scaleDtype === undefined ? own : { ...own, scaleDtype }));
    if (more.bias) vector(`${name}.bias`, rows, 0.5, 0);
  };
  const experts: Writers["experts"] = (name, count, rows, columns) => {
    const deviation = 1 / Math.sqrt(columns);
    tensors.push(...mxfp4Experts({ name, experts: count, rows, columns, deviation, random }));
  };

  matrix("model.embed_tokens", config.vocab_size, config.hidden_size, 10);
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    writeLayer(config, layer, { vector, matrix, linear, experts });
  }
  vector("model.norm.weight", config.hidden_size, 0.3, 1);
  if (!config.tie_word_embeddings) matrix("lm_head", config.vocab_size, config.hidden_size, 1.5);

  const section = quantizationSection(storage);
  const file = section === undefined ? config : { quantization_config: section, ...config };
  const edited = options.edit?.(tensors) ?? tensors;
  return memorySource(checkpointFiles({ tensors: edited, config: file, shards }));
}

interface Writers {
  vector(name: string, length: number, size: number, middle: number): void;
  matrix(name: string, rows: number, columns: number, gain?: number): void;
  linear(
    name: string,
    rows: number,
    columns: number,
    more: { readonly gain?: number; readonly bias?: boolean },
  ): void;
  experts(name: string, count: number, rows: number, columns: number): void;
}

function writeLayer(config: Sizes, layer: number, writers: Writers): void {
  const { vector } = writers;
  const { hidden_size: hidden, num_attention_heads: heads } = config;
  const { num_key_value_heads: kvHeads = heads, head_dim: dim = hidden / heads } = config;
  const [architecture] = config.architectures;
  const name = `model.layers.${layer}`;
  const norm = (which: string, length: number) => vector(`${name}.${which}.weight`, length, 0.3, 1);
  norm("input_layernorm", hidden);
  norm("post_attention_layernorm", hidden);
  const biases = config.attention_bias ?? false;
  const bias = biases || architecture === "Qwen2ForCausalLM";
  const project = (which: string, count: number, gain: number) =>
    writers.linear(`${name}.self_attn.${which}_proj`, count * dim, hidden, { gain, bias });
  project("q", heads, 1.4);
  project("k", kvHeads, 1.4);
  project("v", kvHeads, 1);
  writers.linear(`${name}.self_attn.o_proj`, hidden, heads * dim, { gain: 1.5, bias: biases });
  if (architecture!.startsWith("Qwen3")) {
    norm("self_attn.q_norm", dim);
    norm("self_attn.k_norm", dim);
  }
  if (architecture === "GptOssForCausalLM") vector(`${name}.self_attn.sinks`, heads, 1, 1);
  writeFeedForward(config, layer, writers);
}

function writeFeedForward(config: Sizes, layer: number, writers: Writers): void {
  const { matrix, linear, vector, experts } = writers;
  const { hidden_size: hidden, intermediate_size: width } = config;
  const { num_experts: routed, num_local_experts: stacked, mlp_bias: bias = false } = config;
  const name = `model.layers.${layer}.mlp`;
  const mlp = (which: string, width: number) => {
    linear(`${which}.gate_proj`, width, hidden, { bias, gain: 1.5 });
    linear(`${which}.up_proj`, width, hidden, { bias, gain: 1.5 });
    linear(`${which}.down_proj`, hidden, width, { bias });
  };
  if (stacked !== undefined) {
    matrix(`${name}.router`, stacked, hidden, 2);
    vector(`${name}.router.bias`, stacked, 0.5, 0);
    experts(`${name}.experts.gate_up_proj`, stacked, 2 * width, hidden);
    experts(`${name}.experts.down_proj`, stacked, hidden, width);
    return;
  }
  const dense =
    config.mlp_only_layers?.includes(layer) ||
    (layer + 1) % (config.decoder_sparse_step ?? 1) !== 0;
  if (routed === undefined || dense) {
    mlp(name, width);
    return;
  }
  matrix(`${name}.gate`, routed, hidden, 2);
  for (let e = 0; e < routed; e++) {
    mlp(`${name}.experts.${e}`, config.moe_intermediate_size!);
  }
}
