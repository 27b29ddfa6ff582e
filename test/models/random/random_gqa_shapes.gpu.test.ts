import { describe, test } from "vitest";
import type { MatrixStorage } from "../../support/checkpoints/quantized_tensors.ts";
import { type RandomGqa, randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { fullTest, seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { answerTokens, expectNearNoise } from "../../support/engines/model_answers.ts";
import { ReferenceGqa } from "../../support/reference/reference_gqa.ts";

interface Draw {
  readonly model: RandomGqa;
  readonly tokens: readonly number[];
  readonly chunk: number;
  readonly pageSize: number;
}

const BF16: MatrixStorage = { kind: "BF16" };

/** Everything at once: family, sizes, storage, windows, positions, pages. */
function draw(seed: number): Draw {
  const random = seeded(seed);
  const from = (low: number, high: number) => low + Math.floor(random() * (high - low + 1));
  const pick = <T>(...values: readonly [T, ...T[]]): T => values[from(0, values.length - 1)]!;
  const family = pick("llama", "mistral", "qwen2", "qwen3", "qwen3Moe", "gptOss");
  const storage: MatrixStorage =
    family === "gptOss"
      ? BF16
      : pick<MatrixStorage>(
          BF16,
          { kind: "F16" },
          { kind: "F32" },
          { kind: "FP8", per: pick("tensor", "row", "block") },
          { kind: "INT8", per: pick("row", "block") },
          { kind: "AWQ", group: pick(32, 64, 128) },
          { kind: "GPTQ", group: pick(32, 64, 128), order: random() < 0.5 },
        );
  // Columns of packed matrices are a multiple of the group, and rows of a word's codes.
  const unit = "group" in storage ? storage.group : 1;
  const size = (low: number, high: number, of: number) =>
    Math.ceil(from(low, high) / Math.max(unit, of)) * Math.max(unit, of);
  const ratio = pick(1, 2, 3, 5, 7, 8);
  const kvHeads = from(1, 3);
  const layers = from(1, 3);
  const routed = from(2, 20);
  const vocab_size = from(20, 400);
  const sliding_window = family === "gptOss" ? from(1, 300) : pick(undefined, from(1, 300));
  const slides = sliding_window !== undefined && family !== "mistral";
  const types = Array.from({ length: layers }, () => pick("sliding_attention", "full_attention"));
  const isMoe = family === "qwen3Moe";
  const stacked = family === "gptOss";
  const config = {
    attention_bias: family === "qwen2" ? undefined : stacked || random() < 0.3,
    mlp_bias: family === "llama" ? random() < 0.3 : undefined,
    head_dim: size(4, 96, 4),
    hidden_size: size(20, 300, stacked ? 32 : 2),
    intermediate_size: size(5, 300, stacked ? 32 : unit > 1 ? 8 : 1),
    layer_types: slides ? types : undefined,
    max_window_layers: undefined,
    num_attention_heads: ratio * kvHeads,
    num_hidden_layers: layers,
    num_key_value_heads: kvHeads,
    rope_theta: pick(10000, 100, 1000000),
    sliding_window,
    tie_word_embeddings: random() < 0.3,
    use_sliding_window: undefined,
    vocab_size,
    ...(isMoe && {
      decoder_sparse_step: pick(1, 1, 2),
      moe_intermediate_size: size(3, 150, 1),
      norm_topk_prob: random() < 0.5,
      num_experts: routed,
      num_experts_per_tok: from(1, Math.min(routed, 8)),
    }),
    ...(stacked && {
      num_experts_per_tok: from(1, Math.min(routed, 4)),
      num_local_experts: routed,
      swiglu_limit: pick(7, 1, 100),
    }),
  };
  const count = from(1, 30) + (random() < 0.2 ? from(230, 600) : 0);
  return {
    model: {
      family,
      config,
      storage,
      unquantized: random() < 0.2 ? [pick("mlp", "k_proj", "o_proj", "down", "layers.0.")] : [],
      shards: pick(1, 2, 7),
      seed,
    },
    tokens: Array.from({ length: count + 2 }, () => from(0, vocab_size - 1)),
    chunk: from(1, 200),
    pageSize: pick(1, 3, 16, 64),
  };
}

describe("grouped-query shapes drawn at random", () => {
  const seeds = Array.from({ length: fullTest ? 20 : 1 }, (_, i) => i + 1);

  test.skipIf(smallestCaseOnly).each(seeds)("seed %i", async (seed) => {
    const { model, tokens, chunk, pageSize } = draw(seed);
    const source = randomGqa(model);
    const logits = await answerTokens(source, tokens, { chunk, decode: 2, options: { pageSize } });
    expectNearNoise(logits, await ReferenceGqa.open(source), tokens);
  });
});
