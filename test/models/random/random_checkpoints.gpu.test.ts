import { describe, expect, test } from "vitest";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import {
  type RandomDeepseek,
  randomDeepseek,
  SMALL_DEEPSEEK,
} from "../../support/checkpoints/random_deepseek.ts";
import { seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { answerTokens, mixedStepDifference } from "../../support/engines/model_answers.ts";
import { logSoftmax } from "../../support/engines/model_session.ts";
import { ReferenceDeepseek } from "../../support/reference/reference_deepseek.ts";

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
  { name: "FP8, BF16 scales, shards", dtype: "FP8", scaleDtype: "BF16", shards: 3 },
  { name: "FP8, scales powers of two", dtype: "FP8", quantization: { scale_fmt: "ue8m0" } },
  { name: "FP8, kv_b_proj BF16", dtype: "FP8", unquantized: ["kv_b_proj"] },
  { name: "FP8, a layer BF16", dtype: "FP8", unquantized: ["layers.1."] },
  { name: "FP8, shared experts BF16", dtype: "FP8", unquantized: ["shared_experts"] },
  { name: "FP8, down_proj BF16", dtype: "FP8", unquantized: ["down_proj"] },
  { name: "FP8, shared down_proj BF16", dtype: "FP8", unquantized: ["shared_experts.down_proj"] },
  { name: "no q_lora", config: { q_lora_rank: null } },
  { name: "FP8, no q_lora", dtype: "FP8", config: { q_lora_rank: null } },
  { name: "tied embeddings", config: { tie_word_embeddings: true } },

  { name: "no rope_scaling", config: { rope_scaling: undefined } },
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
  {
    name: "rope_parameters",
    config: {
      rope_scaling: undefined,
      rope_theta: undefined,
      rope_parameters: { ...yarn, type: undefined, rope_type: "yarn", rope_theta: 30000 },
    },
  },
  { name: "eps 1e-2", config: { rms_norm_eps: 1e-2 } },
  { name: "eps 1e-5", config: { rms_norm_eps: 1e-5 } },
  {
    name: "V2, eps 1e-2, no q_lora",
    config: { ...V2_ROUTER, rms_norm_eps: 1e-2, q_lora_rank: null },
  },

  { name: "all MoE", config: { first_k_dense_replace: 0 } },
  { name: "all dense", config: { first_k_dense_replace: 2 } },
  { name: "moe_layer_freq 2", config: { moe_layer_freq: 2, num_hidden_layers: 3 } },
  {
    name: "no experts",
    config: { n_routed_experts: undefined, n_shared_experts: undefined, topk_method: undefined },
  },
  ...[0, undefined, 3].map((shared) => ({
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
    config: { n_group, topk_group: Math.ceil(n_group / 2) },
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
  {
    name: "V3 router's numbers by default",
    config: {
      n_group: undefined,
      num_experts_per_tok: undefined,
      routed_scaling_factor: undefined,
      topk_group: undefined,
    },
  },
  { name: "V2", config: V2_ROUTER },
  { name: "V2 normalized, so not scaled", config: { ...V2_ROUTER, norm_topk_prob: true } },
  {
    name: "V2 normalized in groups, so not scaled",
    config: { ...V2_ROUTER, norm_topk_prob: true, topk_method: "group_limited_greedy" },
  },
  {
    name: "V2 normalized with noaux_tc, and scaled",
    config: { ...V2_ROUTER, norm_topk_prob: true, topk_method: "noaux_tc" },
  },
  {
    name: "V2 of one expert, so not normalized but scaled",
    config: { ...V2_ROUTER, norm_topk_prob: true, num_experts_per_tok: 1 },
  },
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
  { name: "odd intermediates", config: { intermediate_size: 77, moe_intermediate_size: 19 } },
  {
    name: "FP8, odd intermediates",
    dtype: "FP8",
    config: { intermediate_size: 145, moe_intermediate_size: 131 },
  },
  ...[1, 5].map((heads) => ({
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
  { name: "nope 512", config: { qk_nope_head_dim: 512 } },

  { name: "long prompt", prompt: 760, chunk: 256, decode: 3 },
  { name: "long prompt, pages", prompt: 700, chunk: 200, decode: 3, options: { pageSize: 16 } },
  { name: "pages of 64", dtype: "FP8", prompt: 70, options: { pageSize: 64 } },
];

const SMALLEST = ["FP8", "V2"];
const QUANTIZING = [
  "FP8",
  "FP8, scales powers of two",
  "FP8, a layer BF16",
  "FP8, shared experts BF16",
  "FP8, shared experts of 96",
  "FP8, nope 64 value 64",
];

/** Rounding in f32 moves no log-probability further; ten times what is measured. */
const TOLERANCE = 5e-5;

function tokensOf({ config }: RandomDeepseek, count: number, seed = 7): number[] {
  const { vocab_size: size } = { ...SMALL_DEEPSEEK, ...config } as typeof SMALL_DEEPSEEK;
  const random = seeded(seed);
  return Array.from({ length: count }, () => Math.floor(random() * size));
}

/** |difference| of every log-probability; infinite where one of them is no number. */
function differences(logits: readonly Float32Array[], want: readonly Float64Array[]): number[] {
  expect(logits).toHaveLength(want.length);
  return logits.flatMap((row, i) =>
    [...logSoftmax(row)].map((x, token) => {
      const difference = Math.abs(x - want[i]![token]!);
      return Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
    }),
  );
}

const largest = (values: readonly number[]) =>
  values.reduce((most, value) => Math.max(most, value), 0);

const middle = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[values.length >> 1]!;

function run(one: Case, options: Partial<LoadOptions>, tokens: readonly number[]) {
  const { chunk = 8, decode = 3 } = one;
  return answerTokens(randomDeepseek(one), tokens, {
    chunk,
    decode,
    options: { ...options, ...one.options },
  });
}

describe("random checkpoints", () => {
  const cases = smallestCaseOnly ? CASES.filter(({ name }) => SMALLEST.includes(name)) : CASES;

  test.each(cases)("$name: the reference's log-probabilities", async (one) => {
    const { prompt = 21, decode = 3 } = one;
    const tokens = tokensOf(one, prompt + decode);
    const reference = await ReferenceDeepseek.open(randomDeepseek(one));
    const logits = await run(one, { quantizeActivations: false }, tokens);
    const errors = differences(logits, reference.logProbabilities(tokens));
    expect(largest(errors)).toBeLessThan(TOLERANCE);
  });

  const quantizing = CASES.filter(({ name }) => QUANTIZING.includes(name));
  test.skipIf(smallestCaseOnly).each(quantizing)(
    "$name, activations quantized: near the reference",
    async (one) => {
      const tokens = tokensOf(one, 40);
      const source = randomDeepseek(one);
      const reference = await ReferenceDeepseek.open(source, { quantizeActivations: true });
      const want = reference.logProbabilities(tokens);
      const errors = differences(await run(one, { quantizeActivations: true }, tokens), want);
      // Without any rounding of activations the answers are elsewhere.
      const plain = reference.with({}).logProbabilities(tokens);
      const moved = plain.flatMap((row, i) => [...row].map((x, k) => Math.abs(x - want[i]![k]!)));
      expect(middle(errors)).toBeLessThan(1e-4);
      expect(middle(moved)).toBeGreaterThan(1e-2);
    },
  );

  test.skipIf(smallestCaseOnly).each(["fp8_e4m3", "fp8_e5m2"] as const)(
    "a cache in %s: near the reference that rounds latents so",
    async (cacheDtype) => {
      // Runs of 128 and of 12.
      const one: Case = { name: "", config: { kv_lora_rank: 140 } };
      const tokens = tokensOf(one, 60);
      const reference = await ReferenceDeepseek.open(randomDeepseek(one), {
        roundCache: cacheDtype,
      });
      const want = reference.logProbabilities(tokens);
      const errors = differences(await run(one, { cacheDtype }, tokens), want);
      const plain = reference.with({}).logProbabilities(tokens);
      const moved = plain.flatMap((row, i) => [...row].map((x, k) => Math.abs(x - want[i]![k]!)));
      expect(middle(errors)).toBeLessThan(1e-4);
      expect(middle(moved)).toBeGreaterThan(2e-3);
    },
  );

  test.skipIf(smallestCaseOnly)("several sequences of different pasts in one step", async () => {
    const one: Case = { name: "", dtype: "FP8" };
    const source = randomDeepseek(one);
    const reference = await ReferenceDeepseek.open(source);
    const difference = await mixedStepDifference(source, reference, (count, i) =>
      tokensOf(one, count, 20 + i),
    );
    expect(difference).toBeLessThan(TOLERANCE);
  });
});
