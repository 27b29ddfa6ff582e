/**
 * gpt-oss-20b: config.json and tensors as published, MXFP4 experts included, sizes of choice.
 *
 * @module
 */
import type { SyntheticModel } from "./source.ts";
import { SMALL_FIELDS, TensorList } from "./tensor_list.ts";

const GPT_OSS_20B = {
  ...SMALL_FIELDS,
  architectures: ["GptOssForCausalLM"],
  attention_bias: true,
  attention_dropout: 0.0,
  experts_per_token: 4,
  head_dim: 64,
  hidden_act: "silu",
  hidden_size: 2880,
  initial_context_length: 4096,
  initializer_range: 0.02,
  intermediate_size: 2880,
  layer_types: ["sliding_attention", "full_attention"],
  max_position_embeddings: 131072,
  model_type: "gpt_oss",
  num_attention_heads: 64,
  num_experts_per_tok: 4,
  num_key_value_heads: 8,
  num_local_experts: 32,
  output_router_logits: false,
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
    beta_fast: 32,
    beta_slow: 1,
    factor: 32,
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
};

/** Elements that share a scale, and those of one byte. */
const BLOCK = 32;
const PER_BYTE = 2;
/** Weights of about 0.05, so that gates pass `swiglu_limit`, and of about 0.015. */
const GATE_UP_EXPONENT = 127 - 8;
const DOWN_EXPONENT = 127 - 10;

export function gptOss(fields: Partial<typeof GPT_OSS_20B> = {}): SyntheticModel {
  const config = { ...GPT_OSS_20B, ...fields };
  const { hidden_size: hidden, head_dim: head, intermediate_size: width } = config;
  const queries = config.num_attention_heads * head;
  const keys = config.num_key_value_heads * head;
  const list = new TensorList();
  const linear = (name: string, shape: readonly [number, number], gain?: number) => {
    list.matrix(name, shape, gain);
    list.bias(`${name}.bias`, [shape[0]]);
  };
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const name = `model.layers.${layer}`;
    list.norm(`${name}.input_layernorm`, hidden);
    list.norm(`${name}.post_attention_layernorm`, hidden);
    linear(`${name}.self_attn.q_proj`, [queries, hidden]);
    linear(`${name}.self_attn.k_proj`, [keys, hidden]);
    linear(`${name}.self_attn.v_proj`, [keys, hidden]);
    linear(`${name}.self_attn.o_proj`, [hidden, queries], 2);
    // Sinks that weigh as much as a few keys.
    const heads = [config.num_attention_heads];
    list.normal(`${name}.self_attn.sinks`, heads, { mean: 2, sigma: 1 });
    const experts = config.num_local_experts;
    linear(`${name}.mlp.router`, [experts, hidden], 2);
    for (const [part, rows, columns, first] of [
      ["gate_up_proj", 2 * width, hidden, GATE_UP_EXPONENT],
      ["down_proj", hidden, width, DOWN_EXPONENT],
    ] as const) {
      const blocks = [experts, rows, columns / BLOCK];
      const weight = `${name}.mlp.experts.${part}`;
      list.tensors.push(
        {
          name: `${weight}_blocks`,
          shape: [...blocks, BLOCK / PER_BYTE],
          values: { kind: "nibbles" },
        },
        { name: `${weight}_scales`, shape: blocks, values: { kind: "exponents", first } },
      );
      list.bias(`${weight}_bias`, [experts, rows]);
    }
  }
  const { vocab_size: vocabulary, tie_word_embeddings: tied } = config;
  list.ends({ vocabulary, hidden, tied });
  return { config, tensors: list.tensors };
}
