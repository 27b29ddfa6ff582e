/**
 * `quantization_config` sections as published repositories have them, written down by hand, and
 * what each means.
 *
 * @module
 */
import type { Quantization } from "../../../src/checkpoint/quantization.ts";

interface Published {
  /** Repositories whose config.json has this section. */
  readonly where: string;
  readonly section: Readonly<Record<string, unknown>>;
  readonly means: Quantization;
}

const BLOCKS = { blockRows: 128, blockColumns: 128, activations: "dynamic" } as const;

const QWEN3_GATES = Array.from({ length: 3 }, (_, i) => `model.layers.${i}.mlp.gate`);

/** One group of all linears, as llm-compressor writes it. */
function group(weights: object, inputs: object | null) {
  return {
    group_0: {
      input_activations: inputs,
      output_activations: null,
      targets: ["Linear"],
      weights,
    },
  };
}

const ARGUMENTS = {
  actorder: null,
  block_structure: null,
  group_size: null,
  num_bits: 8,
  observer_kwargs: {},
  symmetric: true,
};
const STATIC_WEIGHTS = { ...ARGUMENTS, dynamic: false, observer: "minmax" };
const TOKEN_INPUTS = { ...ARGUMENTS, dynamic: true, observer: null, strategy: "token" };
const COMPRESSED = {
  ignore: ["lm_head"],
  kv_cache_scheme: null,
  quant_method: "compressed-tensors",
};

export const INT8_TOKEN = {
  ...COMPRESSED,
  config_groups: group(
    { ...STATIC_WEIGHTS, strategy: "channel", type: "int" },
    { ...TOKEN_INPUTS, observer: "memoryless", type: "int" },
  ),
  format: "int-quantized",
  global_compression_ratio: 1.2378695113424665,
  quantization_status: "frozen",
};

export const FP8_DYNAMIC = {
  ...COMPRESSED,
  config_groups: group(
    { ...STATIC_WEIGHTS, strategy: "channel", type: "float" },
    { ...TOKEN_INPUTS, type: "float" },
  ),
  format: "float-quantized",
  global_compression_ratio: 1.4,
  quantization_status: "compressed",
  sparsity_config: {
    format: "dense",
    global_sparsity: 0.13,
    ignore: [],
    registry_requires_subclass: false,
    sparsity_structure: "unstructured",
    targets: [],
  },
};

export const GPTQ = {
  batch_size: 1,
  bits: 4,
  block_name_to_quantize: null,
  cache_block_outputs: true,
  damp_percent: 0.01,
  dataset: null,
  desc_act: false,
  exllama_config: { version: 1 },
  group_size: 128,
  max_input_length: null,
  model_seqlen: null,
  module_name_preceding_first_block: null,
  modules_in_block_to_quantize: null,
  pad_token_id: null,
  quant_method: "gptq",
  sym: true,
  tokenizer: null,
  true_sequential: true,
  use_cuda_fp16: false,
  use_exllama: true,
};

const GPTQ_MEANS = {
  method: "gptq",
  name: "gptq",
  groupSize: 128,
  descAct: false,
  symmetric: true,
  zeroOffset: 1,
  unconverted: ["lm_head"],
} as const;

export const PUBLISHED: readonly Published[] = [
  {
    where: "deepseek-ai/DeepSeek-V3, Qwen/Qwen3-8B-FP8",
    section: {
      activation_scheme: "dynamic",
      fmt: "e4m3",
      quant_method: "fp8",
      weight_block_size: [128, 128],
    },
    means: { method: "fp8_block", name: "fp8", ...BLOCKS, unconverted: [] },
  },
  {
    where: "deepseek-ai/DeepSeek-V3.1",
    section: {
      activation_scheme: "dynamic",
      fmt: "e4m3",
      quant_method: "fp8",
      scale_fmt: "ue8m0",
      weight_block_size: [128, 128],
    },
    means: { method: "fp8_block", name: "fp8", ...BLOCKS, powersOfTwo: true, unconverted: [] },
  },
  {
    where: "Qwen/Qwen3-30B-A3B-Instruct-2507-FP8",
    section: {
      activation_scheme: "dynamic",
      modules_to_not_convert: ["lm_head", ...QWEN3_GATES],
      fmt: "e4m3",
      quant_method: "fp8",
      weight_block_size: [128, 128],
    },
    means: {
      method: "fp8_block",
      name: "fp8",
      ...BLOCKS,
      unconverted: ["lm_head", ...QWEN3_GATES],
    },
  },
  {
    where: "MiniMaxAI/MiniMax-M2",
    section: {
      activation_scheme: "dynamic",
      fmt: "float8_e4m3fn",
      modules_to_not_convert: ["gate", "e_score_correction_bias", "lm_head"],
      quant_method: "fp8",
      weight_block_size: [128, 128],
    },
    means: {
      method: "fp8_block",
      name: "fp8",
      ...BLOCKS,
      unconverted: ["gate", "e_score_correction_bias", "lm_head"],
    },
  },
  {
    where: "neuralmagic/Meta-Llama-3-8B-Instruct-FP8",
    section: { activation_scheme: "static", ignored_layers: ["lm_head"], quant_method: "fp8" },
    means: {
      method: "fp8",
      name: "fp8",
      scales: "tensor",
      activations: "static",
      unconverted: ["lm_head"],
    },
  },
  {
    where: "Qwen/Qwen2.5-7B-Instruct-AWQ, Qwen/Qwen3-8B-AWQ",
    section: {
      bits: 4,
      group_size: 128,
      modules_to_not_convert: null,
      quant_method: "awq",
      version: "gemm",
      zero_point: true,
    },
    means: { method: "awq", name: "awq", groupSize: 128, unconverted: [] },
  },
  {
    where: "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4",
    section: {
      backend: "autoawq",
      bits: 4,
      do_fuse: false,
      exllama_config: null,
      fuse_max_seq_len: null,
      group_size: 128,
      modules_to_fuse: null,
      modules_to_not_convert: null,
      quant_method: "awq",
      version: "gemm",
      zero_point: true,
    },
    means: { method: "awq", name: "awq", groupSize: 128, unconverted: [] },
  },
  {
    where: "AutoAWQ's own spelling",
    section: { quant_method: "awq", w_bit: 4, q_group_size: 64, version: "GEMM", zero_point: true },
    means: { method: "awq", name: "awq", groupSize: 64, unconverted: [] },
  },
  { where: "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", section: GPTQ, means: GPTQ_MEANS },
  {
    where: "Qwen/Qwen3-30B-A3B-GPTQ-Int4 (GPTQModel)",
    section: {
      bits: 4,
      checkpoint_format: "gptq",
      desc_act: false,
      dynamic: { "-:.*mlp\\.gate$": {} },
      group_size: 128,
      lm_head: false,
      meta: { quantizer: ["gptqmodel:2.2.0"], damp_percent: 0.01 },
      pack_dtype: "int32",
      quant_method: "gptq",
      sym: true,
    },
    means: { ...GPTQ_MEANS, unconverted: ["lm_head", "re:.*mlp\\.gate$"] },
  },
  {
    where: "TheBloke's -GPTQ repositories, branch gptq-4bit-32g-actorder_True",
    section: {
      bits: 4,
      damp_percent: 0.1,
      desc_act: true,
      group_size: 32,
      model_file_base_name: "model",
      model_name_or_path: null,
      quant_method: "gptq",
      static_groups: false,
      sym: true,
      true_sequential: true,
    },
    means: { ...GPTQ_MEANS, groupSize: 32, descAct: true },
  },
  {
    where: "neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w8a8",
    section: INT8_TOKEN,
    means: {
      method: "int8_channel",
      name: "compressed-tensors",
      activations: "dynamic",
      unconverted: ["lm_head"],
    },
  },
  {
    where: "RedHatAI/Qwen3-8B-FP8-dynamic",
    section: FP8_DYNAMIC,
    means: {
      method: "fp8",
      name: "compressed-tensors",
      scales: "channel",
      activations: "dynamic",
      unconverted: ["lm_head"],
    },
  },
  {
    where: "neuralmagic/Mixtral-8x7B-Instruct-v0.1-FP8 (static activations)",
    section: {
      ...COMPRESSED,
      ignore: ["lm_head", "re:.*block_sparse_moe.gate"],
      config_groups: group(
        { ...STATIC_WEIGHTS, strategy: "tensor", type: "float" },
        { ...STATIC_WEIGHTS, strategy: "tensor", type: "float" },
      ),
      format: "float-quantized",
      quantization_status: "frozen",
    },
    means: {
      method: "fp8",
      name: "compressed-tensors",
      scales: "tensor",
      activations: "static",
      unconverted: ["lm_head", "re:.*block_sparse_moe.gate"],
    },
  },
  {
    where: "llm-compressor 0.8, weights only, with the newer fields",
    section: {
      ...COMPRESSED,
      config_groups: {
        group_0: {
          format: "float-quantized",
          input_activations: null,
          output_activations: null,
          targets: ["Linear"],
          weights: {
            ...STATIC_WEIGHTS,
            scale_dtype: null,
            strategy: "channel",
            type: "float",
            zp_dtype: null,
          },
        },
      },
      format: "float-quantized",
      quantization_status: "compressed",
      sparsity_config: {},
      transform_config: {},
      version: "0.12.2",
    },
    means: {
      method: "fp8",
      name: "compressed-tensors",
      scales: "channel",
      activations: "none",
      unconverted: ["lm_head"],
    },
  },
  {
    where: "meituan/DeepSeek-R1-Block-INT8",
    section: {
      activation_scheme: "dynamic",
      quant_method: "blockwise_int8",
      weight_block_size: [128, 128],
    },
    means: { method: "int8_block", name: "blockwise_int8", ...BLOCKS, unconverted: [] },
  },
  {
    where: "openai/gpt-oss-20b",
    section: {
      modules_to_not_convert: [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
      ],
      quant_method: "mxfp4",
    },
    means: {
      method: "mxfp4",
      name: "mxfp4",
      unconverted: [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
      ],
    },
  },
  {
    where: "nvidia's -FP8 repositories with the section in config.json",
    section: {
      config_groups: {
        group_0: {
          input_activations: { dynamic: false, num_bits: 8, type: "float" },
          targets: ["Linear"],
          weights: { dynamic: false, num_bits: 8, type: "float" },
        },
      },
      ignore: ["lm_head"],
      producer: { name: "modelopt", version: "0.33.0" },
      quant_algo: "FP8",
      quant_method: "modelopt",
    },
    means: {
      method: "fp8",
      name: "modelopt",
      scales: "tensor",
      activations: "static",
      unconverted: ["lm_head"],
    },
  },
];
