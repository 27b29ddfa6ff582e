import { describe, expect, test } from "vitest";
import type { LoadOptions } from "../../src/engine/load.ts";
import { seeded, smallestCaseOnly } from "../support/gpu.ts";
import { logSoftmax, ModelSession } from "../support/model_session.ts";
import { type RandomDeepseek, randomDeepseek, SMALL_DEEPSEEK } from "../support/random_deepseek.ts";
import { ReferenceDeepseek } from "../support/reference_deepseek.ts";

interface Case extends RandomDeepseek {
  readonly name: string;
  /** Tokens of the prompt, of a chunk of it, of the completion. */
  readonly prompt?: number;
  readonly chunk?: number;
  readonly decode?: number;
  readonly options?: Partial<LoadOptions>;
}

const yarn = SMALL_DEEPSEEK.rope_scaling;
const V2 = { architectures: ["DeepseekV2ForCausalLM"] };
const V2_ROUTER = { ...V2, scoring_func: "softmax", topk_method: "greedy", norm_topk_prob: false };

const CASES: readonly Case[] = [
  { name: "control" },
  { name: "FP8", dtype: "FP8" },
  { name: "F16", dtype: "F16" },
  { name: "F32", dtype: "F32" },
  { name: "FP8, BF16 scales", dtype: "FP8", scaleDtype: "BF16" },
  { name: "FP8, shards", dtype: "FP8", shards: 3 },
  { name: "FP8, kv_b_proj BF16", dtype: "FP8", unquantized: ["kv_b_proj"] },
  { name: "FP8, a layer BF16", dtype: "FP8", unquantized: ["layers.1."] },
  { name: "FP8, shared experts BF16", dtype: "FP8", unquantized: ["shared_experts"] },
  { name: "no q_lora", config: { q_lora_rank: null } },
  { name: "FP8, no q_lora", dtype: "FP8", config: { q_lora_rank: null } },
  { name: "tied embeddings", config: { tie_word_embeddings: true } },

  { name: "no rope_scaling", config: { rope_scaling: undefined } },
  { name: "rope_scaling null", config: { rope_scaling: null } },
  { name: "rope_type", config: { rope_scaling: { ...yarn, type: undefined, rope_type: "yarn" } } },
  {
    name: "rope_type default",
    config: { rope_scaling: { rope_type: "default" } },
  },
  { name: "mscale 0.7", config: { rope_scaling: { ...yarn, mscale: 0.7 } } },
  {
    name: "no mscale_all_dim",
    config: { rope_scaling: { ...yarn, mscale: undefined, mscale_all_dim: undefined } },
  },
  { name: "yarn factor 1", config: { rope_scaling: { ...yarn, factor: 1 } } },
  { name: "beta", config: { rope_scaling: { ...yarn, beta_fast: 4, beta_slow: 0.5 } } },
  { name: "rope_theta 50000", config: { rope_theta: 50000 } },
  {
    name: "rope_parameters",
    config: {
      rope_scaling: undefined,
      rope_theta: undefined,
      rope_parameters: { ...yarn, type: undefined, rope_type: "yarn", rope_theta: 30000 },
    },
  },
  { name: "eps 1e-2", config: { rms_norm_eps: 1e-2 } },

  { name: "all MoE", config: { first_k_dense_replace: 0 } },
  { name: "all dense", config: { first_k_dense_replace: 2 } },
  { name: "moe_layer_freq 2", config: { moe_layer_freq: 2, num_hidden_layers: 3 } },
  {
    name: "no experts",
    config: { n_routed_experts: undefined, n_shared_experts: undefined, topk_method: undefined },
  },
  ...[0, undefined, 2, 3].map((shared) => ({
    name: `shared experts ${shared}`,
    config: { n_shared_experts: shared },
  })),
  ...[2, 3].map((shared) => ({
    name: `FP8, shared experts ${shared}`,
    dtype: "FP8" as const,
    config: { n_shared_experts: shared },
  })),
  {
    name: "FP8, shared experts of 128",
    dtype: "FP8",
    config: { n_shared_experts: 2, moe_intermediate_size: 128 },
  },
  {
    name: "FP8, shared experts of 96",
    dtype: "FP8",
    config: { n_shared_experts: 2, moe_intermediate_size: 96 },
  },
  { name: "one expert a token", config: { num_experts_per_tok: 1 } },
  {
    name: "one expert a token, not normalized",
    config: { num_experts_per_tok: 1, norm_topk_prob: false },
  },
  { name: "every expert", config: { num_experts_per_tok: 16, topk_group: 4 } },
  ...[1, 2, 8].map((n_group) => ({
    name: `groups ${n_group}`,
    config: { n_group, topk_group: 1 },
  })),
  { name: "every group", config: { topk_group: 4 } },
  { name: "70 experts", config: { n_routed_experts: 70, n_group: 5, num_experts_per_tok: 6 } },
  ...["sigmoid", "softmax"].flatMap((scoring_func) =>
    ["noaux_tc", "greedy", "group_limited_greedy"].flatMap((topk_method) =>
      [true, false].map((norm_topk_prob) => ({
        name: `router ${scoring_func} ${topk_method} ${norm_topk_prob}`,
        config: { scoring_func, topk_method, norm_topk_prob },
      })),
    ),
  ),
  {
    name: "V3 router by default",
    config: { scoring_func: undefined, norm_topk_prob: undefined },
  },
  { name: "V2", config: V2_ROUTER },
  { name: "V2 FP8", dtype: "FP8", config: V2_ROUTER },
  {
    name: "V2 router by default",
    config: {
      ...V2,
      scoring_func: undefined,
      topk_method: undefined,
      norm_topk_prob: undefined,
      q_lora_rank: null,
    },
  },

  { name: "vocab 263", config: { vocab_size: 263 } },
  { name: "vocab 263 tied", config: { vocab_size: 263, tie_word_embeddings: true } },
  { name: "hidden 132", config: { hidden_size: 132 } },
  { name: "FP8, hidden 130", dtype: "FP8", config: { hidden_size: 130 } },
  { name: "F32, hidden 131", dtype: "F32", config: { hidden_size: 131 } },
  { name: "hidden 131", config: { hidden_size: 131 } },
  { name: "odd intermediates", config: { intermediate_size: 77, moe_intermediate_size: 19 } },
  {
    name: "FP8, odd intermediates",
    dtype: "FP8",
    config: { intermediate_size: 145, moe_intermediate_size: 131 },
  },
  ...[1, 3, 5].map((heads) => ({
    name: `FP8, heads ${heads}`,
    dtype: "FP8" as const,
    config: { num_attention_heads: heads, num_key_value_heads: heads },
  })),
  { name: "q_lora 41", config: { q_lora_rank: 41 } },
  { name: "FP8, q_lora 300", dtype: "FP8", config: { q_lora_rank: 300 } },
  ...[20, 132, 512].map((kv_lora_rank) => ({
    name: `FP8, kv_lora ${kv_lora_rank}`,
    dtype: "FP8" as const,
    config: { kv_lora_rank },
  })),
  {
    name: "FP8, nope 64 value 64",
    dtype: "FP8",
    config: { qk_nope_head_dim: 64, v_head_dim: 64 },
  },
  {
    name: "FP8, nope 192 value 36 rope 4",
    dtype: "FP8",
    config: { qk_nope_head_dim: 192, v_head_dim: 36, qk_rope_head_dim: 4 },
  },
  {
    name: "the 671B head",
    dtype: "FP8",
    config: {
      qk_nope_head_dim: 128,
      v_head_dim: 128,
      qk_rope_head_dim: 64,
      kv_lora_rank: 512,
      num_attention_heads: 2,
      num_key_value_heads: 2,
    },
  },
  { name: "nope 12", config: { qk_nope_head_dim: 12 } },

  { name: "long prompt", prompt: 760, chunk: 256, decode: 3 },
  { name: "long prompt, pages", prompt: 700, chunk: 200, decode: 3, options: { pageSize: 16 } },
  { name: "pages of 64", dtype: "FP8", prompt: 70, options: { pageSize: 64 } },
];

const SMALLEST = ["FP8", "V2"];

async function worstError(one: Case): Promise<number> {
  const { prompt = 21, chunk = 8, decode = 3, options = {}, config } = one;
  const source = randomDeepseek(one);
  const { vocab_size = SMALL_DEEPSEEK.vocab_size } = (config ?? {}) as { vocab_size?: number };
  const random = seeded(7);
  const tokens = Array.from({ length: prompt + decode }, () => Math.floor(random() * vocab_size));
  const reference = await ReferenceDeepseek.open(source);
  const want = reference.logProbabilities(tokens);

  const session = await ModelSession.open(source, {
    cacheDtype: "f32",
    quantizeActivations: false,
    maxTotalTokens: 1024,
    maxRunningRequests: 4,
    ...options,
  });
  const sequence = session.sequence(tokens.slice(0, prompt), 1);
  const logits = await session.prefill(sequence, chunk);
  for (const token of tokens.slice(prompt)) {
    sequence.tokens.push(token);
    logits.push(...(await session.decode([sequence])));
  }
  session.close();
  expect(logits).toHaveLength(want.length);
  let worst = 0;
  logits.forEach((row, i) => {
    logSoftmax(row).forEach((x, token) => {
      const error = Math.abs(x - want[i]![token]!);
      // Anything but a number is as wrong as can be.
      worst = error <= worst ? worst : Number.isNaN(error) ? Number.POSITIVE_INFINITY : error;
    });
  });
  return worst;
}

describe("random checkpoints", () => {
  const cases = smallestCaseOnly ? CASES.filter(({ name }) => SMALLEST.includes(name)) : CASES;

  test.each(cases)("$name: log-probabilities like the reference's", async (one) => {
    const worst = await worstError(one);
    console.log("WORST", one.name, worst.toExponential(2));
    expect(worst).toBeLessThanOrEqual(3e-4);
  });
});
