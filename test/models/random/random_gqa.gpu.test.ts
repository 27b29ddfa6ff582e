import { describe, expect, test } from "vitest";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { MatrixStorage } from "../../support/checkpoints/quantized_tensors.ts";
import { configOf, type RandomGqa, randomGqa } from "../../support/checkpoints/random_gqa.ts";
import type { TensorInput } from "../../support/checkpoints/write_checkpoint.ts";
import { fullTest, seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { answerTokens, mixedStepDifference } from "../../support/engines/model_answers.ts";
import { largestDifference, medianDifference } from "../../support/reference/log_probabilities.ts";
import { ReferenceGqa } from "../../support/reference/reference_gqa.ts";

interface Case extends RandomGqa {
  readonly name: string;
  /** Tokens of the prompt, of a chunk of it, of the completion. */
  readonly prompt?: number;
  readonly chunk?: number;
  readonly decode?: number;
  readonly options?: Partial<LoadOptions>;
  /** Positions that the engine opens, where a scaling goes by them. */
  readonly positions?: number;
  /** One of those that every run computes; the rest is for the full run. */
  readonly always?: true;
}

const FP8_BLOCK: MatrixStorage = { kind: "FP8", per: "block" };
const FP8_TENSOR: MatrixStorage = { kind: "FP8", per: "tensor" };
const FP8_ROW: MatrixStorage = { kind: "FP8", per: "row" };
const INT8_BLOCK: MatrixStorage = { kind: "INT8", per: "block" };
const INT8_ROW: MatrixStorage = { kind: "INT8", per: "row" };
const AWQ_32: MatrixStorage = { kind: "AWQ", group: 32 };
const GPTQ_32: MatrixStorage = { kind: "GPTQ", group: 32 };

/** Words hold eight codes, groups 32 columns; otherwise as odd as that allows. */
const PACKED = {
  hidden_size: 96,
  head_dim: 32,
  num_attention_heads: 3,
  num_key_value_heads: 1,
  intermediate_size: 160,
};
const PACKED_EXPERTS = { ...PACKED, moe_intermediate_size: 32 };
/** Small enough for thousands of tokens. */
const TINY = {
  head_dim: 8,
  hidden_size: 16,
  intermediate_size: 16,
  max_position_embeddings: 8192,
  num_attention_heads: 1,
  num_hidden_layers: 1,
  num_key_value_heads: 1,
  vocab_size: 17,
};
const WIDE_GROUP = { ...PACKED, hidden_size: 128, num_attention_heads: 4, intermediate_size: 256 };
const packed = (family: string) => (family === "qwen3Moe" ? PACKED_EXPERTS : PACKED);
/** Cuts blocks of 128 in both dimensions. */
const BLOCKS = { hidden_size: 136, intermediate_size: 150 };

/** As AutoGPTQ writes them. */
function missingBiases(tensors: readonly TensorInput[]): TensorInput[] {
  const given = new Set(tensors.map(({ name }) => name));
  return tensors
    .filter(({ name }) => name.endsWith(".scales"))
    .map((scales) => ({ ...scales, name: scales.name.replace(/scales$/, "bias") }))
    .filter(({ name }) => !given.has(name))
    .map((scales) => ({
      ...scales,
      shape: [scales.shape[1]!],
      values: new Float32Array(scales.shape[1]!),
    }));
}

const CASES: readonly Case[] = [
  { name: "llama", always: true },
  { name: "mistral", family: "mistral", always: true },
  { name: "qwen2", family: "qwen2", always: true },
  { name: "qwen3", family: "qwen3", always: true },
  { name: "qwen3Moe", family: "qwen3Moe", always: true },
  { name: "gptOss", family: "gptOss", always: true },

  ...[1, 3, 7, 16].flatMap((ratio) =>
    [8, 64].map((head_dim) => ({
      name: `${ratio} heads of ${head_dim} to a key head`,
      config: { head_dim, num_attention_heads: 2 * ratio, num_key_value_heads: 2 },
    })),
  ),
  { name: "heads of 256", config: { head_dim: 256, num_attention_heads: 2 } },
  { name: "one key head", config: { num_key_value_heads: 1 }, always: true },
  { name: "no num_key_value_heads", config: { num_key_value_heads: undefined } },
  { name: "no head_dim", config: { head_dim: undefined } },
  { name: "qwen3Moe, no head_dim", family: "qwen3Moe", config: { head_dim: undefined } },
  ...[40, 130].map((hidden_size) => ({ name: `hidden ${hidden_size}`, config: { hidden_size } })),
  { name: "F32, hidden 131", storage: { kind: "F32" }, config: { hidden_size: 131 } },
  { name: "F16", storage: { kind: "F16" } },
  { name: "tied", config: { tie_word_embeddings: true }, always: true },
  { name: "biases", config: { attention_bias: true, mlp_bias: true } },
  { name: "tied, shards", family: "qwen3", config: { tie_word_embeddings: true }, shards: 3 },
  { name: "eps 1e-2", family: "qwen3", config: { rms_norm_eps: 1e-2 } },
  { name: "qwen3 with biases", family: "qwen3", config: { attention_bias: true } },

  { name: "long prompt", prompt: 600, chunk: 256, decode: 2, always: true },
  {
    name: "a window over splits",
    family: "mistral",
    config: { sliding_window: 270 },
    prompt: 590,
    chunk: 250,
    decode: 2,
    always: true,
  },
  {
    name: "sinks and a window over splits",
    family: "gptOss",
    config: { sliding_window: 100 },
    prompt: 560,
    chunk: 200,
    decode: 2,
  },
  { name: "a window of one", family: "mistral", config: { sliding_window: 1 } },
  { name: "pages of 64", family: "gptOss", prompt: 70, options: { pageSize: 64 } },
  {
    name: "qwen3Moe, whose layers all slide",
    family: "qwen3Moe",
    config: { use_sliding_window: true, sliding_window: 5, max_window_layers: 1 },
    always: true,
  },
  {
    name: "gptOss, its own window",
    family: "gptOss",
    config: { sliding_window: undefined },
    prompt: 170,
  },
  ...(["mistral", "qwen2"] as const).map((family) => ({
    name: `${family}, its own window`,
    family,
    config: { ...TINY, sliding_window: undefined, max_window_layers: 0 },
    prompt: 6000,
    chunk: 128,
    decode: 1,
    options: { maxTotalTokens: 8192 },
    positions: 8192,
    ...(family === "mistral" && { always: true as const }),
  })),
  {
    name: "layer_types",
    family: "qwen3",
    config: { layer_types: ["full_attention", "sliding_attention"], sliding_window: 5 },
  },

  { name: "no rope_scaling", config: { rope_scaling: undefined } },
  { name: "linear", config: { rope_scaling: { rope_type: "linear", factor: 4 } } },
  {
    name: "dynamic",
    config: { max_position_embeddings: 64, rope_scaling: { type: "dynamic", factor: 8 } },
    positions: 512,
  },
  {
    name: "yarn",
    config: {
      rope_scaling: { rope_type: "yarn", factor: 4, original_max_position_embeddings: 256 },
    },
  },
  {
    name: "yarn with an attention_factor",
    config: {
      rope_scaling: {
        rope_type: "yarn",
        factor: 4,
        original_max_position_embeddings: 256,
        attention_factor: 1.3,
        beta_fast: 4,
      },
    },
  },
  ...[1024, 100].map((original) => ({
    name: `longrope of ${original}`,
    config: {
      original_max_position_embeddings: original,
      rope_scaling: {
        rope_type: "longrope",
        factor: 4,
        short_factor: Array.from({ length: 10 }, (_, i) => 1 + i / 10),
        long_factor: Array.from({ length: 10 }, (_, i) => 2 + i),
      },
    },
  })),
  {
    name: "rope_parameters",
    family: "qwen3",
    config: { rope_theta: undefined, rope_parameters: { rope_type: "default", rope_theta: 3e5 } },
  },
  { name: "a part rotates", config: { head_dim: 16, partial_rotary_factor: 0.5 } },

  ...(["llama", "qwen2", "qwen3", "qwen3Moe"] as const).flatMap((family) => [
    { name: `FP8, ${family}`, family, storage: FP8_BLOCK, config: BLOCKS },
    { name: `FP8 tensors, ${family}`, family, storage: FP8_TENSOR, config: BLOCKS },
    { name: `FP8 rows, ${family}`, family, storage: FP8_ROW, config: BLOCKS },
    { name: `int8 blocks, ${family}`, family, storage: INT8_BLOCK, config: BLOCKS },
    { name: `int8 rows, ${family}`, family, storage: INT8_ROW, config: BLOCKS },
    { name: `AWQ, ${family}`, family, storage: AWQ_32, config: packed(family) },
    { name: `GPTQ, ${family}`, family, storage: GPTQ_32, config: packed(family) },
  ]),
  {
    name: "FP8 tensors, static activations",
    storage: FP8_TENSOR,
    config: {
      ...BLOCKS,
      quantization_config: { quant_method: "fp8", activation_scheme: "static" },
    },
    edit: (tensors) => [
      ...tensors,
      ...tensors
        .filter(({ name }) => name.endsWith(".weight_scale"))
        .map((tensor) => ({ ...tensor, name: tensor.name.replace("weight_scale", "input_scale") })),
    ],
    options: { quantizeActivations: true },
  },
  { name: "AWQ of 64", storage: { kind: "AWQ", group: 64 }, config: WIDE_GROUP },
  { name: "AWQ of 128", storage: { kind: "AWQ", group: 128 }, config: WIDE_GROUP },
  {
    name: "GPTQ of 128, its second format, no order",
    storage: { kind: "GPTQ", group: 128, version: 2, order: false },
    config: WIDE_GROUP,
  },
  {
    name: "GPTQ, biases of zeros where there are none",
    family: "qwen2",
    storage: GPTQ_32,
    config: PACKED,
    edit: (tensors) => [...tensors, ...missingBiases(tensors)],
    always: true,
  },
  { name: "AWQ, BF16 scales", storage: AWQ_32, config: PACKED, scaleDtype: "BF16" },
  { name: "FP8, BF16 scales", storage: FP8_BLOCK, config: BLOCKS, scaleDtype: "BF16" },
  { name: "int8 rows, BF16 scales", storage: INT8_ROW, config: BLOCKS, scaleDtype: "BF16" },
  { name: "AWQ, k_proj BF16", storage: AWQ_32, config: PACKED, unquantized: ["k_proj"] },
  { name: "AWQ, a layer BF16", storage: AWQ_32, config: PACKED, unquantized: ["layers.0."] },
  {
    name: "AWQ, MLPs BF16, many tokens",
    family: "qwen3Moe",
    storage: AWQ_32,
    config: PACKED_EXPERTS,
    unquantized: ["mlp"],
    prompt: 90,
    chunk: 60,
  },
  {
    name: "FP8, down_proj BF16",
    family: "qwen3",
    storage: FP8_BLOCK,
    config: BLOCKS,
    unquantized: ["down_proj"],
  },

  {
    name: "dense layers between",
    family: "qwen3Moe",
    config: { decoder_sparse_step: 2, mlp_only_layers: [3], num_hidden_layers: 4 },
  },
  { name: "not normalized", family: "qwen3Moe", config: { norm_topk_prob: false } },
  { name: "every expert", family: "qwen3Moe", config: { num_experts_per_tok: 11 } },
  { name: "one expert", family: "qwen3Moe", config: { num_experts: 1, num_experts_per_tok: 1 } },
  { name: "experts sorted", family: "qwen3Moe", prompt: 150, chunk: 100 },
  { name: "stacked experts sorted", family: "gptOss", prompt: 150, chunk: 100 },
  { name: "every stacked expert", family: "gptOss", config: { num_experts_per_tok: 5 } },
  { name: "a wide limit", family: "gptOss", config: { swiglu_limit: 50 } },
  { name: "a steep gate", family: "gptOss", config: { swiglu_alpha: 3 } },
  { name: "a narrow limit", family: "gptOss", config: { swiglu_limit: 0.25 } },
  { name: "no layer_types", family: "gptOss", config: { layer_types: undefined } },
  {
    name: "stacked experts of 160",
    family: "gptOss",
    config: { hidden_size: 160, intermediate_size: 224 },
  },
];

const SMALLEST = ["gptOss", "AWQ, llama"];
const QUICK = /^FP8 rows, qwen3Moe$|^AWQ, llama$|^GPTQ, qwen2$|^int8 blocks, qwen3$/;

/** Rounding in f32 moves no log-probability further; ten times what is measured. */
const TOLERANCE = 5e-5;

const wanted = ({ name, always }: Case) =>
  smallestCaseOnly ? SMALLEST.includes(name) : fullTest || always || QUICK.test(name);

function tokensOf(one: RandomGqa, count: number, seed = 7): number[] {
  const random = seeded(seed);
  return Array.from({ length: count }, () => Math.floor(random() * configOf(one).vocab_size));
}

function run(one: Case, options: Partial<LoadOptions>, tokens: readonly number[]) {
  const { chunk = 8, decode = 3 } = one;
  return answerTokens(randomGqa(one), tokens, {
    chunk,
    decode,
    options: { ...options, ...one.options },
  });
}

describe("random checkpoints with grouped-query attention", () => {
  test.each(CASES.filter(wanted))("$name: the reference's log-probabilities", async (one) => {
    const { prompt = 21, decode = 3, positions = 1024 } = one;
    const tokens = tokensOf(one, prompt + decode);
    const reference = await ReferenceGqa.open(randomGqa(one), { positions });
    const logits = await run(one, { quantizeActivations: false }, tokens);
    const want = reference.logProbabilities(tokens);
    expect(largestDifference(logits, want)).toBeLessThan(TOLERANCE);
  });

  const rounding = CASES.filter(({ name }) => /^(FP8|FP8 rows|int8 \w+), qwen3$/.test(name));
  test.skipIf(smallestCaseOnly).each(rounding)(
    "$name, activations quantized: near the reference",
    async (one) => {
      const reference = await ReferenceGqa.open(randomGqa(one), { quantizeActivations: true });
      const unrounded = reference.with({});
      const differences: number[] = [];
      for (const seed of [7, 8, 9]) {
        const tokens = tokensOf(one, 30, seed);
        const logits = await run(one, { quantizeActivations: true }, tokens);
        differences.push(medianDifference(logits, reference.logProbabilities(tokens)));
        // Without any rounding of activations the answers are elsewhere.
        const elsewhere = medianDifference(logits, unrounded.logProbabilities(tokens));
        expect(elsewhere).toBeGreaterThan(2e-3);
      }
      // A number so close to a tie that f32 rounds it to the other side moves all that follows it:
      // of three sequences one may have that.
      const [, second] = differences.sort((a, b) => a - b);
      expect(second).toBeLessThan(1e-4);
    },
  );

  const cached = ["llama", "qwen3", "gptOss"].flatMap((family) =>
    (["fp8_e4m3", "fp8_e5m2"] as const).map((dtype) => ({ family, dtype })),
  );
  test.skipIf(smallestCaseOnly).each(fullTest ? cached : cached.slice(1, 4))(
    "$family, a cache in $dtype: near the reference that rounds keys and values so",
    async ({ family, dtype }) => {
      const one = CASES.find(({ name }) => name === family)!;
      const tokens = tokensOf(one, 60);
      const reference = await ReferenceGqa.open(randomGqa(one), { roundCache: dtype });
      const want = reference.logProbabilities(tokens);
      const logits = await run(one, { cacheDtype: dtype }, tokens);
      // Few numbers lie so close to a tie that f32 rounds them to the other side.
      expect(medianDifference(logits, want)).toBeLessThan(1e-4);
      expect(medianDifference(logits, reference.with({}).logProbabilities(tokens))).toBeGreaterThan(
        2e-3,
      );
    },
  );

  test.skipIf(smallestCaseOnly)("several sequences of different pasts in one step", async () => {
    const one: Case = { name: "", family: "gptOss", config: { sliding_window: 40 } };
    const source = randomGqa(one);
    const reference = await ReferenceGqa.open(source);
    const difference = await mixedStepDifference(source, reference, (count, i) =>
      tokensOf(one, count, 20 + i),
    );
    expect(difference).toBeLessThan(TOLERANCE);
  });
});
