import { expect, test } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import { tuningDemand } from "../../../src/engine/load/tuning_demand.ts";
import { checkpointFiles, type TensorInput } from "../../support/checkpoints/write_checkpoint.ts";

/** A llama whose matrices have five shapes. */
const config = {
  architectures: ["LlamaForCausalLM"],
  ...{ hidden_act: "silu", hidden_size: 64, intermediate_size: 256, num_hidden_layers: 2 },
  ...{ num_attention_heads: 2, num_key_value_heads: 1, head_dim: 32, vocab_size: 128 },
  ...{ max_position_embeddings: 64, rms_norm_eps: 1e-5, rope_theta: 10000 },
  tie_word_embeddings: false,
};

function checkpoint(): Promise<Checkpoint> {
  const tensor = (name: string, ...shape: number[]): TensorInput => ({
    ...{ name, shape, dtype: "BF16" },
    values: new Float32Array(shape.reduce((product, size) => product * size, 1)),
  });
  const layer = (l: number) => {
    const at = `model.layers.${l}`;
    return [
      tensor(`${at}.input_layernorm.weight`, 64),
      tensor(`${at}.post_attention_layernorm.weight`, 64),
      ...[64, 32, 32].map((rows, i) => tensor(`${at}.self_attn.${"qkv"[i]}_proj.weight`, rows, 64)),
      tensor(`${at}.self_attn.o_proj.weight`, 64, 64),
      tensor(`${at}.mlp.gate_proj.weight`, 256, 64),
      tensor(`${at}.mlp.up_proj.weight`, 256, 64),
      tensor(`${at}.mlp.down_proj.weight`, 64, 256),
    ];
  };
  const tensors = [
    ...[tensor("model.embed_tokens.weight", 128, 64), tensor("lm_head.weight", 128, 64)],
    ...[tensor("model.norm.weight", 64), ...layer(0), ...layer(1)],
  ];
  return Checkpoint.open(memorySource(checkpointFiles({ tensors, config })));
}

/** Numbers in matrices of each shape: 65,536; 32,768; 16,384 each; and 8,192, left out. */
const LARGEST = [
  { rows: 256, columns: 64 },
  { rows: 64, columns: 256 },
];

test("the shapes that most weights are in, in every dtype that they are kept in", async () => {
  const { matrices, groupColumns } = await tuningDemand(await checkpoint());
  expect(matrices).toHaveLength(3);
  expect(matrices.slice(0, 2)).toEqual(LARGEST.map((shape) => ({ dtype: "bf16", ...shape })));
  expect(groupColumns).toBeUndefined();
});

test("weights that are quantized while they are uploaded, in groups as wide as asked for", async () => {
  const { matrices, groupColumns } = await tuningDemand(await checkpoint(), "int4-g32");
  expect(groupColumns).toBe(32);
  // The table of tokens stays as it is.
  expect(new Set(matrices.map(({ dtype }) => dtype))).toEqual(new Set(["bf16", "int4"]));
  const int4 = matrices.filter(({ dtype }) => dtype === "int4");
  expect(int4.slice(0, 2)).toEqual(LARGEST.map((shape) => ({ dtype: "int4", ...shape })));
});
