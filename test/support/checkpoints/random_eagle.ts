/**
 * Checkpoints of EAGLE and EAGLE-3 heads with random weights, for targets of `randomGqa` and
 * `randomDeepseek`.
 *
 * @module
 */
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { seeded } from "../devices/gpu.ts";
import { SMALL_DEEPSEEK, writeLatentAttention } from "./random_deepseek.ts";
import { SMALL_GQA } from "./random_gqa.ts";
import { checkpointFiles, type TensorInput } from "./write_checkpoint.ts";

export interface RandomEagle {
  readonly generation: "EAGLE" | "EAGLE3";
  /** Fields of config.json besides the usual. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Whether its layer has latent attention. */
  readonly isLatent?: boolean;
  /** Default "midlayer", "layers.0" of EAGLE. */
  readonly layerName?: string;
  /** Whether it says which tokens of the target it knows. Default true. */
  readonly hasIds?: boolean;
  /** Whether the first projection has a bias. */
  readonly fcBias?: boolean;
  readonly seed?: number;
  /** Tensors to leave out, change or add, before the files are written. */
  readonly edit?: (tensors: TensorInput[]) => TensorInput[];
}

/** What the writer reads of a config. */
interface HeadConfig {
  readonly architectures: readonly string[];
  readonly num_hidden_layers: number;
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim: number;
  readonly vocab_size: number;
  readonly attention_bias: boolean;
  readonly draft_vocab_size?: number | null;
}

const USUAL = {
  EAGLE: { architectures: ["LlamaForCausalLMEagle"] },
  EAGLE3: {
    architectures: ["LlamaForCausalLMEagle3"],
    draft_vocab_size: 100,
    eagle_config: { eagle_aux_hidden_state_layer_ids: [0, 1, 2] },
  },
};

export function randomEagle(options: RandomEagle): WeightSource {
  const { generation, fcBias = false, seed = 1, edit = (all) => all } = options;
  const { isLatent = false, hasIds = true } = options;
  const config = {
    ...(isLatent ? SMALL_DEEPSEEK : SMALL_GQA.llama),
    num_hidden_layers: 1,
    attention_bias: false,
    ...{ ...USUAL[generation], ...options.config },
  } as HeadConfig;
  const random = seeded(seed);
  const tensors: TensorInput[] = [];
  const fill = (length: number, size: number, middle = 0) =>
    Float32Array.from({ length }, () => middle + (random() * 2 - 1) * size);
  const vector = (name: string, length: number, size: number, middle: number) =>
    tensors.push({ name, shape: [length], dtype: "BF16", values: fill(length, size, middle) });
  const linear = (name: string, rows: number, columns: number, bias = false, gain = 1) => {
    const values = fill(rows * columns, gain * Math.sqrt(3 / columns));
    tensors.push({ name: `${name}.weight`, shape: [rows, columns], dtype: "BF16", values });
    if (bias) vector(`${name}.bias`, rows, 0.5, 0);
  };
  const { hidden_size: hidden, intermediate_size: width, head_dim: dim } = config;
  const { num_attention_heads: heads, num_key_value_heads: kvHeads } = config;
  const isThird = generation === "EAGLE3";
  const { layerName: name = isThird ? "midlayer" : "layers.0" } = options;
  const norm = (which: string) => vector(`${which}.weight`, hidden, 0.3, 1);
  const isQwen = config.architectures[0]!.startsWith("Qwen2");
  const bias = config.attention_bias || isQwen;
  const inputs = isThird ? 2 * hidden : hidden;
  linear("fc", hidden, (isThird ? 3 : 2) * hidden, fcBias);
  if (isLatent) {
    const latent = config as unknown as typeof SMALL_DEEPSEEK;
    writeLatentAttention(
      latent,
      { name: `${name}.self_attn`, inputs },
      {
        vector: (own, length, size, middle) => vector(own, length, size, middle),
        linear: (own, rows, columns) => linear(own, rows, columns, false, 1.4),
      },
    );
  } else {
    for (const [which, count] of [
      ["q", heads],
      ["k", kvHeads],
      ["v", kvHeads],
    ] as const) {
      linear(`${name}.self_attn.${which}_proj`, count * dim, inputs, bias, 1.4);
    }
    linear(`${name}.self_attn.o_proj`, hidden, heads * dim, config.attention_bias, 1.5);
  }
  norm(`${name}.post_attention_layernorm`);
  linear(`${name}.mlp.gate_proj`, width, hidden, false, 1.5);
  linear(`${name}.mlp.up_proj`, width, hidden, false, 1.5);
  linear(`${name}.mlp.down_proj`, hidden, width);
  if (isThird) {
    norm(`${name}.input_layernorm`);
    norm(`${name}.hidden_norm`);
    norm("norm");
    const { draft_vocab_size: known } = config;
    if (typeof known === "number") {
      linear("lm_head", known, hidden, false, 1.5);
      const { vocab_size: all } = config;
      // Every other token and then some, in order.
      const values = Float64Array.from({ length: known }, (_, i) => i + (i > 20 ? 40 : 0));
      if (hasIds) tensors.push({ name: "d2t", shape: [known], dtype: "I64", values });
      tensors.push({ name: "t2d", shape: [all], dtype: "U8", values: new Uint8Array(all) });
    }
  }
  return memorySource(checkpointFiles({ tensors: edit(tensors), config }));
}
