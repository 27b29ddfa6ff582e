import { describe, test } from "vitest";
import {
  type RandomDeepseek,
  randomDeepseek,
  SMALL_DEEPSEEK,
} from "../../support/checkpoints/random_deepseek.ts";
import { fullTest, seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { answerTokens, expectNearNoise } from "../../support/engines/model_answers.ts";
import { ReferenceDeepseek } from "../../support/reference/reference_deepseek.ts";

interface Draw {
  readonly model: RandomDeepseek;
  readonly tokens: readonly number[];
  readonly chunk: number;
  readonly pageSize: number;
}

/** Everything at once: sizes, storage, router, positions, pages. */
function draw(seed: number): Draw {
  const random = seeded(seed);
  const from = (low: number, high: number) => low + Math.floor(random() * (high - low + 1));
  const pick = <T>(...values: readonly [T, ...T[]]): T => values[from(0, values.length - 1)]!;
  const v3 = random() < 0.6;
  const groups = pick(1, 2, 3, 4, 8);
  const n_routed_experts = groups * from(2, 9);
  const topk_group = from(1, groups);
  const most = (n_routed_experts / groups) * topk_group;
  const heads = from(1, 9);
  const rope = 4 * from(1, 5);
  const vocab_size = from(20, 400);
  const config = {
    architectures: [v3 ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM"],
    first_k_dense_replace: from(0, 2),
    hidden_size: 2 * from(10, 200),
    intermediate_size: from(5, 300),
    kv_lora_rank: 4 * from(1, 70),
    moe_intermediate_size: from(3, 150),
    moe_layer_freq: pick(1, 1, 2),
    n_group: groups,
    n_routed_experts: random() < 0.1 ? null : n_routed_experts,
    n_shared_experts: pick(null, 0, 1, 1, 2, 3),
    norm_topk_prob: random() < 0.5,
    num_attention_heads: heads,
    num_key_value_heads: heads,
    num_experts_per_tok: from(1, Math.min(most, 9)),
    num_hidden_layers: from(1, 3),
    q_lora_rank: random() < 0.3 ? null : from(3, 300),
    qk_nope_head_dim: 4 * from(1, 40),
    qk_rope_head_dim: rope,
    rope_scaling: pick(null, SMALL_DEEPSEEK.rope_scaling, {
      type: "yarn",
      factor: 1 + 30 * random(),
      original_max_position_embeddings: from(16, 512),
      beta_fast: 32,
      beta_slow: 1,
      mscale: random() * 2,
      mscale_all_dim: random() * 2,
    }),
    rope_theta: pick(10000, 100, 1000000),
    routed_scaling_factor: pick(1, 2.5, 16),
    scoring_func: pick("sigmoid", "softmax"),
    tie_word_embeddings: random() < 0.2,
    topk_group,
    topk_method: pick("noaux_tc", "greedy", "group_limited_greedy"),
    v_head_dim: 4 * from(1, 40),
    vocab_size,
  };
  const count = from(1, 30) + (random() < 0.2 ? from(230, 600) : 0);
  return {
    model: {
      config,
      dtype: pick("BF16", "FP8", "FP8", "FP8", "F16", "F32"),
      scaleDtype: pick("F32", "BF16"),
      unquantized:
        random() < 0.2 ? [pick("mlp", "kv_b", "shared", "q_b_proj", "o_proj", "down")] : [],
      shards: pick(1, 2, 7),
      seed,
    },
    tokens: Array.from({ length: count + 2 }, () => from(0, vocab_size - 1)),
    chunk: from(1, 200),
    pageSize: pick(1, 3, 16, 64),
  };
}

describe("shapes drawn at random", () => {
  const seeds = Array.from({ length: fullTest ? 20 : 1 }, (_, i) => i + 1);

  test.skipIf(smallestCaseOnly).each(seeds)("seed %i", async (seed) => {
    const { model, tokens, chunk, pageSize } = draw(seed);
    const source = randomDeepseek(model);
    const logits = await answerTokens(source, tokens, { chunk, decode: 2, options: { pageSize } });
    expectNearNoise(logits, await ReferenceDeepseek.open(source), tokens);
  });
});
