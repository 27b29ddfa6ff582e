/** A step has no more rows than one binding holds of the widest activations, normed rows among them. */
import { expect, test } from "vitest";
import { normedShape } from "../../../kernels/norm/normed_rows.ts";
import { ConfigReader } from "../../../src/checkpoint/config.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import { detectQuantization } from "../../../src/checkpoint/quantization_config/detect_quantization.ts";
import { architectureOf } from "../../../src/models/architectures.ts";
import { DEEPSEEK_V3 } from "../../support/checkpoints/deepseek_configs.ts";
import { QWEN3_06B } from "../../support/checkpoints/gqa_configs.ts";

const FP8 = { quant_method: "fp8", fmt: "e4m3", weight_block_size: [128, 128] };

async function rowBytes(config: object): Promise<number> {
  const reader = new ConfigReader(config, { file: "config.json" });
  const quantization = await detectQuantization(memorySource({}), reader);
  return architectureOf(reader).define(reader, quantization).shape.maxRowBytes.row;
}

/** Nothing else of a row is wider than its normed form. */
const NARROW = [
  [
    "grouped-query attention",
    {
      ...QWEN3_06B,
      ...{ intermediate_size: 128, num_attention_heads: 8, num_key_value_heads: 2 },
    },
  ],
  [
    "latent attention",
    {
      ...DEEPSEEK_V3,
      ...{ intermediate_size: 128, num_attention_heads: 8, num_key_value_heads: 8 },
      first_k_dense_replace: DEEPSEEK_V3.num_hidden_layers,
      ...{ num_experts_per_tok: 1, n_shared_experts: 0, n_group: 1, topk_group: 1 },
    },
  ],
] as const;

test.each(NARROW)("of %s in FP8", async (_, config) => {
  const { stride } = normedShape(config.hidden_size, true);
  expect(await rowBytes({ ...config, quantization_config: FP8 })).toBe(4 * stride);
});
