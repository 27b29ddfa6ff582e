import { describe, expect, test } from "vitest";
import { MATRIX_CONFIGS } from "../../kernels/linear/checks/check_matrix.ts";
import { matrixKernels } from "../../kernels/matrix_self_test.ts";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import { type RandomDeepseek, randomDeepseek } from "../support/checkpoints/random_deepseek.ts";
import { type RandomGqa, randomGqa } from "../support/checkpoints/random_gqa.ts";
import { device, fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  answersOfOne,
  closeRanks,
  expectAlike,
  RANK_VOCABULARY,
} from "../support/engines/rank_answers.ts";
import { openEmulatedMatrices } from "../support/reference/emulated_matrices.ts";

/**
 * Whatever is split has whole blocks of 128 on four ranks. Row-parallel linears have eight: four of
 * a rank of two, so that the order shows in which it adds its own.
 */
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

/** Six blocks of inputs of each row-parallel linear: three sums of a rank of two. */
const GQA = {
  head_dim: 64,
  hidden_size: 256,
  intermediate_size: 768,
  num_attention_heads: 12,
  num_key_value_heads: 4,
  vocab_size: RANK_VOCABULARY,
};

const STEPS = 6;
/** Rounding by rows is refused: ranks would have to share a scale. */
const UNROUNDED = { quantizeActivations: false };
const LAYER = "model.layers";

describe("DeepSeek", () => {
  /** What ranks exchange in a step: one dense layer, two of experts. */
  const EXCHANGES = [
    `${LAYER}.0.self_attn.o_proj`,
    `${LAYER}.0.mlp.down_proj`,
    `${LAYER}.1.self_attn.o_proj`,
    `${LAYER}.1.mlp`,
    `${LAYER}.2.self_attn.o_proj`,
    `${LAYER}.2.mlp`,
    "logits",
  ];

  const cases: ["FP8" | "BF16", readonly number[]][] = smallestCaseOnly
    ? [["FP8", [2]]]
    : [
        ["FP8", [2, 4]],
        ["BF16", fullTest ? [2, 4, 8] : [2]],
      ];

  /** Beyond what published checkpoints have: other routers, shared experts, first projections. */
  const forms: [string, RandomDeepseek][] = [
    ["two shared experts", { config: { ...DEEPSEEK, n_shared_experts: 2 }, dtype: "FP8" }],
    [
      "a shared expert of another dtype, powers of two as scales",
      {
        config: DEEPSEEK,
        dtype: "FP8",
        quantization: { scale_fmt: "ue8m0" },
        unquantized: ["shared_experts"],
      },
    ],
    [
      "queries without a latent, a softmax router",
      {
        config: {
          ...DEEPSEEK,
          architectures: ["DeepseekV2ForCausalLM"],
          q_lora_rank: null,
          scoring_func: "softmax",
          topk_method: "greedy",
        },
      },
    ],
  ];

  test.runIf(fullTest).each(forms)("%s: two ranks have the bits of one", async (_, model) => {
    const source = randomDeepseek(model);
    closeRanks(await expectAlike(source, await answersOfOne(source), { size: 2 }));
  });

  test.each(cases)("in %s: %j ranks have the bits of one", async (dtype, sizes) => {
    const source = randomDeepseek({ config: DEEPSEEK, dtype });
    const want = await answersOfOne(source);
    const files = (await source.list()).reduce((sum, { size }) => sum + size, 0);
    // The comparison is not of constants.
    expect(new Set(want.bits.map((row) => row.join())).size).toBe(want.bits.length);
    for (const size of sizes) {
      const ranks = await expectAlike(source, want, { size });
      for (const { session, exchanged, readBytes } of ranks) {
        expect(exchanged.names).toEqual(Array(STEPS).fill(EXCHANGES).flat());
        // Most of it is shared out; the embedding, first projections and shared experts are not.
        const { weightBytes } = session.loaded.memoryBudget;
        const most = 1 / size + 0.15;
        expect(weightBytes / want.weightBytes).toBeLessThan(most);
        expect(readBytes / files).toBeLessThan(most);
      }
      // A step without rows meets the others all the same.
      for (const { exchanged } of ranks) Object.assign(exchanged, { names: [], bytes: 0 });
      await Promise.all(ranks.map(({ session }) => session.run([])));
      for (const { exchanged } of ranks) {
        expect(exchanged).toEqual({ names: EXCHANGES, bytes: 0 });
      }
      closeRanks(ranks);
    }
  });
});

describe.skipIf(smallestCaseOnly)("numeric classes", () => {
  const all = [
    ["Llama", () => randomGqa({ config: GQA })],
    ["DeepSeek in FP8", () => randomDeepseek({ config: DEEPSEEK, dtype: "FP8" })],
  ] as const;
  const models = fullTest ? all : all.slice(0, 1);

  test.runIf(device.features.has("shader-f16")).each(models)(
    "%s in f16: two ranks have the bits of one",
    async (_, source) => {
      // Drivers without arithmetic in f16 take seconds to compile a form of more rows.
      const tuning = { ...PLAIN_TUNING, rowForms: PLAIN_TUNING.rowForms.slice(0, 1) };
      const options = { numericClass: "f16", tuning } as const;
      const want = await answersOfOne(source(), options);
      closeRanks(await expectAlike(source(), want, { size: 2, ...options }));
    },
  );

  test.each(models)("%s in mma128: two ranks have the bits of one", async (_, source) => {
    const emulated = await openEmulatedMatrices([MATRIX_CONFIGS["f16 16x16x16"]]);
    for (const deterministicInference of fullTest ? [false, true] : [false]) {
      const options = {
        ...{ device: emulated.device, numericClass: "mma128" as const, matrixKernels },
        deterministicInference,
      };
      const want = await answersOfOne(source(), options);
      closeRanks(await expectAlike(source(), want, { size: 2, ...options }));
    }
  });
});

describe.skipIf(smallestCaseOnly)("grouped-query attention", () => {
  const cases: [string, RandomGqa, Partial<LoadOptions>?][] = [
    [
      "Llama with biases and one table for both ends",
      {
        config: { ...GQA, attention_bias: true, mlp_bias: true, tie_word_embeddings: true },
      },
    ],
    ["Qwen3 in FP8", { family: "qwen3", config: GQA, storage: { kind: "FP8", per: "block" } }],
  ];

  const forms: typeof cases = [
    [
      "gpt-oss",
      {
        family: "gptOss",
        config: {
          ...GQA,
          num_attention_heads: 8,
          intermediate_size: 64,
          num_local_experts: 6,
          attention_bias: true,
        },
      },
    ],
    [
      "Qwen3 with experts",
      {
        family: "qwen3Moe",
        config: { ...GQA, num_experts: 10, num_experts_per_tok: 3, mlp_only_layers: [1] },
        storage: { kind: "FP8", per: "block" },
      },
    ],
    ["AWQ", { config: GQA, storage: { kind: "AWQ", group: 64 } }],
    ["GPTQ", { config: GQA, storage: { kind: "GPTQ", group: 128 } }],
    ["INT8 in blocks", { config: GQA, storage: { kind: "INT8", per: "block" } }],
    ["INT8 in rows", { config: GQA, storage: { kind: "INT8", per: "row" } }, UNROUNDED],
    ["FP8 with a scale each", { config: GQA, storage: { kind: "FP8", per: "tensor" } }, UNROUNDED],
    ["BF16 quantized to int4", { config: GQA }, { quantization: "int4" }],
    ["F32 quantized to fp8", { config: GQA, storage: { kind: "F32" } }, { quantization: "fp8" }],
    [
      "small bindings",
      { config: { ...GQA, vocab_size: 1024 } },
      { maxBindingSize: 200_000, maxTotalTokens: 96 },
    ],
    ["an FP8 cache", { config: GQA }, { cacheDtype: "fp8_e4m3" }],
  ];

  test.each(fullTest ? [...cases, ...forms] : cases)(
    "%s: two ranks have the bits of one",
    async (_, model, options = {}) => {
      const source = randomGqa(model);
      const want = await answersOfOne(source, options);
      const ranks = await expectAlike(source, want, { size: 2, ...options });
      for (const { exchanged, session } of ranks) {
        // Two layers, in each attention and what follows it.
        expect(exchanged.names).toHaveLength(STEPS * (2 * 2 + 1));
        const { memoryBudget, definition } = session.loaded;
        // Keys and values of half the heads.
        expect(definition.shape.cacheEntryWidth).toBe(2 * 2 * 64);
        expect(memoryBudget.weightBytes / want.weightBytes).toBeLessThan(0.7);
      }
      closeRanks(ranks);
    },
  );
});
