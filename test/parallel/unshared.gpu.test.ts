import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource, SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { type RandomDeepseek, randomDeepseek } from "../support/checkpoints/random_deepseek.ts";
import {
  SMALL_GQA as FAMILIES,
  type RandomGqa,
  randomGqa,
} from "../support/checkpoints/random_gqa.ts";
import { fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { answersOfOne, closeRanks, expectAlike } from "../support/engines/rank_answers.ts";

const DEEPSEEK = {
  hidden_size: 32,
  intermediate_size: 256,
  kv_lora_rank: 16,
  moe_intermediate_size: 16,
  q_lora_rank: 16,
  v_head_dim: 64,
  vocab_size: 264,
};
const SMALL_GQA = { head_dim: 64, hidden_size: 32, intermediate_size: 256, vocab_size: 264 };
const LLAMA = { ...SMALL_GQA, num_attention_heads: 8, num_key_value_heads: 4 };

type Case<T> = readonly [string, number, T, { readonly name: string; readonly why: string }];

describe.skipIf(smallestCaseOnly)("every rank has whole what ranks cannot share", () => {
  const deepseek: readonly Case<RandomDeepseek>[] = [
    ["heads", 3, {}, { name: "self_attn", why: "its 4 heads cannot be shared out evenly" }],
    [
      "experts",
      2,
      { config: { n_routed_experts: 9, n_group: 1, topk_group: 1 } },
      { name: "model.layers.1.mlp.experts", why: "its 9 experts cannot be shared out evenly" },
    ],
    [
      "the vocabulary",
      2,
      { config: { vocab_size: 263 } },
      { name: "lm_head", why: "its 263 rows cannot be shared out evenly" },
    ],
    [
      "a dense layer",
      2,
      { config: { intermediate_size: 257 } },
      { name: "model.layers.0.mlp", why: "its 257 columns cannot be shared out evenly" },
    ],
    [
      "segments of attention's output",
      4,
      {},
      {
        name: "model.layers.0.self_attn.o_proj",
        why:
          "64 of its 256 columns each would cut one of the 2 segments of blocks of 128 that they " +
          "are added in",
      },
    ],
    [
      "segments of a down projection",
      2,
      { config: { intermediate_size: 384 } },
      {
        name: "model.layers.0.mlp",
        why:
          "192 of its 384 columns each would cut one of the 3 segments of blocks of 128 that they " +
          "are added in",
      },
    ],
    [
      "blocks of a head's rows",
      2,
      { dtype: "FP8", config: { v_head_dim: 128 } },
      {
        name: "self_attn",
        why: "model.layers.0.self_attn.q_b_proj: 56 of its 112 rows each would cut a block of 128x128",
      },
    ],
  ];

  test.each(deepseek)("DeepSeek: %s", async (_, size, model, part) => {
    const source = randomDeepseek({ ...model, config: { ...DEEPSEEK, ...model.config } });
    const ranks = await expectAlike(source, await answersOfOne(source), { size });
    for (const { session } of ranks) expect(session.loaded.unshared).toContainEqual(part);
    closeRanks(ranks);
  });

  const gqa: readonly Case<RandomGqa>[] = [
    [
      "heads of keys",
      3,
      {},
      { name: "self_attn", why: "its 4 heads of keys cannot be shared out evenly" },
    ],
    [
      "blocks of a few heads of keys that several ranks have",
      8,
      { storage: { kind: "FP8", per: "block" } },
      {
        name: "self_attn",
        why: "model.layers.0.self_attn.q_proj: 64 of its 512 rows each would cut a block of 128x128",
      },
    ],
    [
      "blocks of a few heads",
      4,
      { storage: { kind: "FP8", per: "block" } },
      {
        name: "self_attn",
        why: "model.layers.0.self_attn.k_proj: 64 of its 256 rows each would cut a block of 128x128",
      },
    ],
    [
      "rows that share a scale",
      2,
      { storage: { kind: "INT8", per: "row" } },
      {
        name: "model.layers.0.self_attn.o_proj",
        why: "its inputs are rounded by rows, which share a scale",
      },
    ],
    [
      "words of codes",
      8,
      { storage: { kind: "GPTQ", group: 32 }, config: { intermediate_size: 288 } },
      {
        name: "model.layers.0.mlp",
        why: "36 of its 288 rows each would cut a word of 8 codes",
      },
    ],
  ];

  test.each(gqa)("grouped queries: %s", async (_, size, model, part) => {
    const source = randomGqa({ ...model, config: { ...LLAMA, ...model.config } });
    const ranks = await expectAlike(source, await answersOfOne(source), { size });
    for (const { session } of ranks) expect(session.loaded.unshared).toContainEqual(part);
    closeRanks(ranks);
  });
});

/** Each rank then has one head of keys, and its share of those that read it. */
describe("fewer heads of keys than ranks", () => {
  const family = (architecture: string, kvHeads: number, rest: object = {}): RandomGqa => ({
    config: {
      ...SMALL_GQA,
      ...{ architectures: [architecture], num_attention_heads: 8, num_key_value_heads: kvHeads },
      ...rest,
    },
  });
  const cases: readonly (readonly [string, number, number, RandomGqa])[] = [
    ["Llama", 2, 4, family("LlamaForCausalLM", 2)],
    ["Qwen3, with norms of heads", 1, 4, family("Qwen3ForCausalLM", 1, { attention_bias: false })],
    ["Qwen2, with biases", 1, 2, { config: { ...FAMILIES.qwen2, num_key_value_heads: 1 } }],
    ["gpt-oss, with sinks", 1, 2, { config: { ...FAMILIES.gptOss, num_key_value_heads: 1 } }],
  ];

  test.each(fullTest ? cases : cases.slice(0, 1))(
    "%s: with %i of them %i ranks have the bits of one",
    async (_, kvHeads, size, model) => {
      const source = randomGqa(model);
      const want = await answersOfOne(source);
      const ranks = await expectAlike(source, want, { size });
      const part = {
        name: "one head of self_attn.k_proj and v_proj",
        why: `its ${kvHeads} heads of keys are fewer than ${size} ranks`,
      };
      for (const { session } of ranks) {
        const { unshared, memoryBudget, definition } = session.loaded;
        expect(unshared).toContainEqual(part);
        expect(unshared.map(({ name }) => name)).not.toContain("self_attn");
        // Keys and values in BF16.
        const { layers } = definition.shape;
        const { headDim } = definition.facts.attention as { readonly headDim: number };
        expect(memoryBudget.bytesPerToken).toBe(layers * 2 * headDim * 2);
        expect(memoryBudget.weightBytes).toBeLessThan(want.weightBytes);
      }
      closeRanks(ranks);
    },
  );
});

describe.skipIf(smallestCaseOnly)("the embedded model", () => {
  test.each(fullTest ? [2, 4, 8] : [2])("on %i ranks has the bits of one", async (size) => {
    const source = folderSource(EMBEDDED_MODEL);
    const ranks = await expectAlike(source, await answersOfOne(source), { size });
    const names = ranks[0]!.session.loaded.unshared.map(({ name }) => name);
    // It has a head's rows, and columns of o_proj, in one block of scales.
    expect(names).toContain("self_attn");
    closeRanks(ranks);
  });
});

describe.runIf(fullTest && SHARED_MODELS !== undefined)("published formats of small models", () => {
  const models = [
    ...["mini-deepseek-v2-lite", "mini-deepseek-v3-fp8", "mini-llama", "mini-llama-awq"],
    ...["mini-llama-int8", "mini-qwen3", "mini-qwen3-moe", "tiny-deepseek-v3-awq"],
    ...["tiny-deepseek-v3-bf16", "tiny-deepseek-v3-fp8", "tiny-deepseek-v3-int8"],
  ];
  test.each(models.flatMap((model) => [2, 4, 8].map((size) => [model, size] as const)))(
    "%s on %i ranks has the bits of one",
    async (model, size) => {
      const source = folderSource(join(SHARED_MODELS!, model));
      closeRanks(await expectAlike(source, await answersOfOne(source), { size }));
    },
  );
});
