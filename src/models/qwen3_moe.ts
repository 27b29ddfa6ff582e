/**
 * Qwen3 with experts: a softmax over all of them chooses, and no expert is shared.
 *
 * Source: Yang et al., "Qwen3 Technical Report" (2025).
 *
 * @module
 */
import type { ConfigReader } from "../checkpoint/config.ts";
import { readEither } from "./config/either_field.ts";
import { MAX_EXPERTS, MAX_EXPERTS_PER_TOKEN, SOFTMAX_ROUTER } from "./config/expert_limits.ts";
import type { GqaConfig } from "./config/gqa_config.ts";
import { readSize } from "./config/size_limits.ts";
import { gqaArchitecture } from "./gqa_decoder.ts";

export const qwen3Moe = gqaArchitecture({
  architecture: "Qwen3MoeForCausalLM",
  headNorms: true,
  defaults: { slidingWindow: 4096 },
  // All of them or none: unlike the dense families it has no max_window_layers.
  slides: (config) => config.boolean("use_sliding_window", { fallback: false }),
  experts: readExperts,
});

function readExperts(config: ConfigReader): GqaConfig["experts"] {
  // Qwen3-Coder's files repeat what the family fixes.
  config.only("qkv_bias", [false]);
  config.only("use_qk_norm", [true]);
  config.only("shared_expert_intermediate_size", [0]);
  const routed = readEither(config, ["num_experts", "num_local_experts"], {
    min: 1,
    max: MAX_EXPERTS,
  });
  const period = config.integer("decoder_sparse_step", { min: 1, fallback: 1 });
  const dense = new Set(config.integers("mlp_only_layers", { fallback: [] }));
  return {
    ...SOFTMAX_ROUTER,
    routed,
    perToken: config.integer("num_experts_per_tok", {
      min: 1,
      max: Math.min(MAX_EXPERTS_PER_TOKEN, routed),
    }),
    intermediate: readSize(config, "moe_intermediate_size"),
    normalize: config.boolean("norm_topk_prob", { fallback: false }),
    isSparse: (layer) => !dense.has(layer) && (layer + 1) % period === 0,
  };
}
