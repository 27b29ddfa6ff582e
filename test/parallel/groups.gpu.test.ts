/** Attention groups: ranks that share a model and attend to different rows have the bits of one. */
import { expect, test } from "vitest";
import { randomDeepseek } from "../support/checkpoints/random_deepseek.ts";
import { type RandomGqa, randomGqa } from "../support/checkpoints/random_gqa.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  answersOfOne,
  closeRanks,
  expectAlike,
  RANK_VOCABULARY,
} from "../support/engines/rank_answers.ts";

const DEEPSEEK = {
  hidden_size: 256,
  intermediate_size: 1024,
  kv_lora_rank: 128,
  moe_intermediate_size: 128,
  n_routed_experts: 8,
  num_attention_heads: 8,
  num_hidden_layers: 3,
  num_key_value_heads: 8,
  q_lora_rank: 128,
  qk_nope_head_dim: 64,
  qk_rope_head_dim: 64,
  v_head_dim: 128,
  vocab_size: RANK_VOCABULARY,
};

test("two groups", async () => {
  const source = randomDeepseek({ config: DEEPSEEK, dtype: "FP8" });
  const want = await answersOfOne(source);
  const weights: number[] = [];
  for (const options of [{}, { headByGroup: true }, { wholeDenseLayers: true }]) {
    const ranks = await expectAlike(source, want, { size: 2, attentionGroups: 2, ...options });
    weights.push(ranks[0]!.session.loaded.memoryBudget.weightBytes);
    closeRanks(ranks);
  }
  const [shared, ...whole] = weights as [number, ...number[]];
  expect(shared).toBeLessThan(want.weightBytes);
  for (const more of whole) expect(more).toBeGreaterThan(shared);
});

const GQA = {
  head_dim: 64,
  hidden_size: 256,
  intermediate_size: 768,
  num_attention_heads: 12,
  num_hidden_layers: 2,
  num_key_value_heads: 4,
  vocab_size: RANK_VOCABULARY,
};
const GPT_OSS = {
  ...GQA,
  ...{ num_attention_heads: 8, intermediate_size: 64, num_local_experts: 6, attention_bias: true },
};

test.skipIf(smallestCaseOnly).each<readonly [string, RandomGqa]>([
  ["Llama, all layers dense", { config: GQA }],
  [
    "Qwen3 with experts",
    {
      family: "qwen3Moe",
      config: { ...GQA, num_experts: 10, num_experts_per_tok: 3, mlp_only_layers: [1] },
    },
  ],
  ["gpt-oss", { family: "gptOss", config: GPT_OSS }],
])("two groups of two ranks: %s", async (_, model) => {
  const source = randomGqa(model);
  const want = await answersOfOne(source);
  closeRanks(await expectAlike(source, want, { size: 4, attentionGroups: 2 }));
});
