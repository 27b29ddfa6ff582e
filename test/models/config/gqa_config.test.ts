import { describe, expect, test } from "vitest";
import { DEFAULT_LAYOUT } from "../../../kernels/linear/weights/layout.ts";
import { bytesPerToken } from "../../../src/cache/kv_cache.ts";
import { ConfigReader } from "../../../src/checkpoint/config.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import type { Quantization } from "../../../src/checkpoint/quantization.ts";
import { detectQuantization } from "../../../src/checkpoint/quantization_config/detect_quantization.ts";
import { CheckpointError, UnsupportedError } from "../../../src/errors.ts";
import { DeviceMemory } from "../../../src/gpu/memory.ts";
import { architectureOf } from "../../../src/models/architectures.ts";
import { readGqaConfig } from "../../../src/models/config/gqa_config.ts";
import { kvCacheShape, type ModelDefinition } from "../../../src/models/model.ts";
import { formatsOf } from "../../support/checkpoints/formats.ts";
import {
  GPT_OSS_20B,
  GPT_OSS_120B,
  LLAMA_31_8B,
  LLAMA_32_1B,
  MISTRAL_7B_V01,
  MISTRAL_7B_V03,
  QWEN3_8B,
  QWEN3_8B_ROPE_PARAMETERS,
  QWEN3_06B,
  QWEN3_30B_A3B,
  QWEN3_CODER_30B_A3B,
  QWEN25_7B,
  QWEN25_05B,
  R1_DISTILL_LLAMA_8B,
  R1_DISTILL_QWEN_15B,
  SMOLLM2_135M,
} from "../../support/checkpoints/gqa_configs.ts";

const readerOf = (config: object) => new ConfigReader(config, { file: "config.json" });

async function define(
  config: object,
): Promise<{ definition: ModelDefinition; quantization: Quantization }> {
  const reader = readerOf(config);
  const quantization = await detectQuantization(memorySource({}), reader);
  return { definition: architectureOf(reader).define(reader, quantization), quantization };
}

/** Laid out without a device, linears in BF16: nothing but sizes. */
async function create(config: object) {
  const { definition, quantization } = await define(config);
  const memory = new DeviceMemory({
    maxBufferSize: 2 ** 32,
    maxStorageBufferBindingSize: 2 ** 32 - 4,
  });
  const model = definition.create({
    memory,
    layout: DEFAULT_LAYOUT,
    formats: formatsOf("BF16", quantization),
    maxRows: 128,
    maxDecodeRows: 32,
    contextLength: 4096,
    pageSize: 1,
    cacheDtype: "bf16",
    prefillCapacity: 0,
    quantizeActivations: true,
  });
  return { memory, model, shape: definition.shape };
}

const product = (shape: readonly number[]) => shape.reduce((all, size) => all * size, 1);

describe("published configs", () => {
  // Parameters as the repositories state them; keys and values of a token in bf16.
  test.each([
    ["LLAMA_32_1B", LLAMA_32_1B, 1_235_814_400, 16 * 2 * 8 * 64 * 2, 131072],
    ["LLAMA_31_8B", LLAMA_31_8B, 8_030_261_248, 32 * 2 * 8 * 128 * 2, 131072],
    ["R1_DISTILL_LLAMA_8B", R1_DISTILL_LLAMA_8B, 8_030_261_248, 32 * 2 * 8 * 128 * 2, 131072],
    ["MISTRAL_7B_V01", MISTRAL_7B_V01, 7_241_732_096, 32 * 2 * 8 * 128 * 2, 32768],
    ["MISTRAL_7B_V03", MISTRAL_7B_V03, 7_248_023_552, 32 * 2 * 8 * 128 * 2, 32768],
    ["QWEN25_05B", QWEN25_05B, 494_032_768, 24 * 2 * 2 * 64 * 2, 32768],
    ["QWEN25_7B", QWEN25_7B, 7_615_616_512, 28 * 2 * 4 * 128 * 2, 32768],
    ["R1_DISTILL_QWEN_15B", R1_DISTILL_QWEN_15B, 1_777_088_000, 28 * 2 * 2 * 128 * 2, 131072],
    ["QWEN3_06B", QWEN3_06B, 596_049_920, 28 * 2 * 8 * 128 * 2, 40960],
    ["QWEN3_8B", QWEN3_8B, 8_190_735_360, 36 * 2 * 8 * 128 * 2, 40960],
    [
      "QWEN3_8B_ROPE_PARAMETERS",
      QWEN3_8B_ROPE_PARAMETERS,
      8_190_735_360,
      36 * 2 * 8 * 128 * 2,
      40960,
    ],
    ["QWEN3_30B_A3B", QWEN3_30B_A3B, 30_532_122_624, 48 * 2 * 4 * 128 * 2, 40960],
    ["QWEN3_CODER_30B_A3B", QWEN3_CODER_30B_A3B, 30_532_122_624, 48 * 2 * 4 * 128 * 2, 262144],
    ["SMOLLM2_135M", SMOLLM2_135M, 134_515_008, 30 * 2 * 3 * 64 * 2, 8192],
    ["GPT_OSS_20B", GPT_OSS_20B, 20_914_757_184, 24 * 2 * 8 * 64 * 2, 131072],
    ["GPT_OSS_120B", GPT_OSS_120B, 116_829_156_672, 36 * 2 * 8 * 64 * 2, 131072],
  ] as const)("%s", async (name, config, parameters, tokenBytes, contextLength) => {
    const before = process.memoryUsage().arrayBuffers;
    const { memory, model, shape } = await create(config);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 20);
    expect(shape).toMatchObject({
      vocabularySize: config.vocab_size,
      layers: config.num_hidden_layers,
      contextLength,
      splitLength: 256,
      expandedEntry: undefined,
      promptsDiffer: false,
    });
    expect(bytesPerToken(kvCacheShape(shape, "bf16"))).toBe(tokenBytes);

    // Two codes of MXFP4 to a byte; exponents are no parameters.
    const counted = model.specs
      .filter(({ name }) => !name.endsWith("_scales"))
      .reduce((sum, one) => sum + product(one.shape) * (one.name.endsWith("_blocks") ? 2 : 1), 0);
    expect(counted).toBe(parameters);
    if (name.startsWith("GPT_OSS")) return;
    // Columns are kept in blocks of 128; SmolLM2's 576 fill four and a half.
    const padding = name === "SMOLLM2_135M" ? 1.08 : 1.01;
    // Norms and biases are kept as f32, a tied head is a matrix of its own.
    const tied = config.tie_word_embeddings ? config.vocab_size * config.hidden_size : 0;
    const bytes = 2 * (parameters + tied);
    expect(memory.bytes("weights") / bytes).toBeGreaterThan(1);
    expect(memory.bytes("weights") / bytes).toBeLessThan(padding);
  });

  test("gpt-oss-20b takes little more than its file", async () => {
    const { memory } = await create(GPT_OSS_20B);
    // The file has 13.76 GB; columns of 2880 are kept in blocks of 128.
    expect(memory.bytes("weights") / 1e9).toBeGreaterThan(13.7);
    expect(memory.bytes("weights") / 1e9).toBeLessThan(14.4);
  });

  const windowsOf = (config: object, slides?: boolean) =>
    readGqaConfig(readerOf(config), {
      architecture: "",
      ...(slides !== undefined && { slides: () => slides }),
    }).windows;

  test("windows are those of layer_types, or of the family", () => {
    expect(windowsOf(GPT_OSS_20B).slice(0, 3)).toEqual([128, undefined, 128]);
    expect(windowsOf(MISTRAL_7B_V01, true)).toEqual(new Array(32).fill(4096));
    expect(windowsOf(MISTRAL_7B_V03, true)).toEqual(new Array(32).fill(undefined));
    expect(windowsOf(LLAMA_31_8B)).toEqual(new Array(32).fill(undefined));
  });

  test("a window that the file does not name is the family's own, and null is none", async () => {
    const read = (config: object) =>
      readGqaConfig(readerOf(config), {
        architecture: "",
        defaults: { slidingWindow: 4096, normEps: 1e-5 },
        slides: () => true,
      });
    const { sliding_window: _, rms_norm_eps: __, ...silent } = MISTRAL_7B_V01;
    expect(read(silent)).toMatchObject({ normEps: 1e-5, windows: new Array(32).fill(4096) });
    expect(read(MISTRAL_7B_V03).windows).toEqual(new Array(32).fill(undefined));
  });

  test("attention_bias changes nothing in a family that fixes its biases", async () => {
    for (const attention_bias of [false, true]) {
      const { model } = await create({ ...QWEN25_05B, attention_bias });
      const biases = model.specs.filter(({ name }) => /layers\.0\..*bias$/.test(name));
      expect(biases.map(({ name }) => name.split(".").at(-2))).toEqual([
        "q_proj",
        "k_proj",
        "v_proj",
      ]);
    }
  });

  test("fields of other programs and older files, which change nothing, are no reason to refuse", async () => {
    const fields = {
      attn_implementation: "sdpa",
      attn_pdrop: 0,
      cls_token_id: 1,
      mask_token_id: 2,
      max_sequence_length: 2048,
    };
    await expect(define({ ...LLAMA_31_8B, ...fields })).resolves.toBeDefined();
  });

  test("heads of Qwen3 with experts are as wide as the hidden size leaves them", async () => {
    const { head_dim: _, ...moe } = QWEN3_30B_A3B;
    const { definition } = await define(moe);
    expect(definition.facts.attention).toMatchObject({ headDim: 2048 / 32 });
  });

  test("num_local_experts is what newer files call num_experts", async () => {
    const { num_experts: num_local_experts, ...moe } = QWEN3_30B_A3B;
    const { definition } = await define({ ...moe, num_local_experts });
    expect(definition.facts.experts).toMatchObject({ routed: 128 });
  });

  test("use_sliding_window may stand beside the layer_types that it follows from", async () => {
    const layer_types = QWEN3_8B_ROPE_PARAMETERS.layer_types.with(35, "sliding_attention");
    const config = { layer_types, use_sliding_window: true, sliding_window: 512 };
    await expect(define({ ...QWEN3_8B_ROPE_PARAMETERS, ...config })).resolves.toBeDefined();
  });
});

describe("refused and named", () => {
  const { rope_scaling: rope } = LLAMA_32_1B;
  const oss = GPT_OSS_20B;
  const moe = QWEN3_30B_A3B;
  const qwen = QWEN3_06B;
  const sliding = new Array<string>(16).fill("sliding_attention");
  const llamas: [string, object][] = [
    ["hidden_act", { hidden_act: "gelu" }],
    ["hidden_size", { hidden_size: 2 ** 15 }],
    ["hidden_size", { hidden_size: undefined }],
    ["intermediate_size", { intermediate_size: 0 }],
    ["num_hidden_layers", { num_hidden_layers: "16" }],
    ["num_hidden_layers", { num_hidden_layers: 1025 }],
    ["num_hidden_layers", { num_hidden_layers: 2 ** 40 }],
    ["num_attention_heads", { num_attention_heads: 2 ** 25 }],
    ["intermediate_size", { intermediate_size: 2 ** 53 - 1 }],
    ["vocab_size", { vocab_size: 2 ** 31 }],
    ["num_key_value_heads", { num_key_value_heads: 5 }],
    ["num_key_value_heads", { num_key_value_heads: 64 }],
    ["num_key_value_heads", { num_key_value_heads: 1 }],
    ["head_dim", { head_dim: 66 }],
    ["head_dim", { head_dim: 260 }],
    ["head_dim", { head_dim: undefined, num_attention_heads: 24 }],
    ["head_dim", { head_dim: undefined, num_attention_heads: 4, num_key_value_heads: 4 }],
    ["partial_rotary_factor", { partial_rotary_factor: 0.05 }],
    ["partial_rotary_factor", { partial_rotary_factor: 0.1 }],
    ["max_position_embeddings", { max_position_embeddings: undefined }],
    ["max_position_embeddings", { max_position_embeddings: 1 }],
    ["max_position_embeddings", { max_position_embeddings: 2 ** 31 }],
    ["rope_scaling.factor", { rope_scaling: { type: "linear", factor: 1e300 } }],
    ["vocab_size", { vocab_size: undefined }],
    ["rms_norm_eps", { rms_norm_eps: -1 }],
    ["attention_bias", { attention_bias: "yes" }],
    ["tie_word_embeddings", { tie_word_embeddings: 1 }],
    ["rope_scaling.rope_type", { rope_scaling: { ...rope, rope_type: "ntk" } }],
    ["rope_scaling.type", { rope_scaling: { type: "mrope", mrope_section: [16, 24, 24] } }],
    ["rope_scaling.rope_type", { rope_scaling: { factor: 2 } }],
    ["rope_scaling.low_freq_factor", { rope_scaling: { ...rope, low_freq_factor: undefined } }],
    ["rope_scaling.high_freq_factor", { rope_scaling: { ...rope, high_freq_factor: 1 } }],
    ["rope_scaling.beta_fast", { rope_scaling: { ...rope, beta_fast: 32 } }],
    ["rope_scaling", { rope_parameters: { rope_type: "default", rope_theta: 5e5 } }],
    ["layer_types", { layer_types: sliding.with(3, "linear_attention"), sliding_window: 8 }],
    ["layer_types", { layer_types: sliding.slice(1), sliding_window: 8 }],
    ["sliding_window", { layer_types: sliding }],
    ["sliding_window", { sliding_window: 0 }],
    ["sliding_window", { sliding_window: 2 ** 32 }],
    ["attention_multiplier", { attention_multiplier: 0.5 }],
    ["final_logit_softcapping", { final_logit_softcapping: 30 }],
    ["num_experts", { num_experts: 8 }],
    ["bitsandbytes", { quantization_config: { quant_method: "bitsandbytes" } }],
  ];
  const refusals: [string, object, object][] = [
    ...llamas.map(([field, change]): [string, object, object] => [field, change, LLAMA_32_1B]),
    ["max_window_layers", { use_sliding_window: true, max_window_layers: -1 }, qwen],
    ["use_mrope", { use_mrope: true }, R1_DISTILL_QWEN_15B],
    ["num_experts", { num_experts: undefined }, moe],
    ["num_experts", { num_experts: 5000 }, moe],
    ["num_experts", { num_local_experts: 64 }, moe],
    ["num_hidden_layers", { num_hidden_layers: 1000 }, moe],
    ["num_experts_per_tok", { num_experts_per_tok: 129 }, moe],
    ["num_experts_per_tok", { num_experts_per_tok: undefined }, moe],
    ["moe_intermediate_size", { moe_intermediate_size: undefined }, moe],
    ["decoder_sparse_step", { decoder_sparse_step: 0 }, moe],
    ["mlp_only_layers", { mlp_only_layers: [1.5] }, moe],
    ["shared_expert_intermediate_size", { shared_expert_intermediate_size: 768 }, moe],
    ["qkv_bias", { qkv_bias: true }, moe],
    ["use_qk_norm", { use_qk_norm: false }, moe],
    ["rope_interleaved", { rope_interleaved: true }, SMOLLM2_135M],
    ["num_local_experts", { num_local_experts: undefined }, oss],
    ["num_experts_per_tok", { num_experts_per_tok: 33 }, oss],
    ["experts_per_token", { experts_per_token: 2 }, oss],
    ["swiglu_limit", { swiglu_limit: -7 }, oss],
    ["swiglu_alpha", { swiglu_alpha: "steep" }, oss],
    ["rope_scaling", { rope_scaling: undefined }, oss],
    [
      'GptOssForCausalLM without quantization method "mxfp4"',
      { quantization_config: undefined },
      oss,
    ],
    [
      "quantization_config.dequantize",
      { quantization_config: { quant_method: "mxfp4", dequantize: true } },
      oss,
    ],
  ];

  test.each(refusals)("%s, when the config says %o", async (field, change, config) => {
    const given = JSON.parse(JSON.stringify({ ...config, ...change }));
    const error = await define(given).catch((error: unknown) => error);
    expect(error instanceof CheckpointError || error instanceof UnsupportedError).toBe(true);
    expect((error as Error).message).toContain(field);
    expect((error as Error).message).toMatch(/^Cannot .*config\.json/);
  });

  const KNOWN =
    "known are DeepseekV2ForCausalLM, DeepseekV3ForCausalLM, DeepseekVLV2ForCausalLM, " +
    "GptOssForCausalLM, Idefics3ForConditionalGeneration, LlamaForCausalLM, " +
    "LlavaForConditionalGeneration, MistralForCausalLM, Qwen2ForCausalLM, " +
    "Qwen2_5_VLForConditionalGeneration, Qwen3ForCausalLM, Qwen3MoeForCausalLM";

  test("an unknown architecture, with the known ones", async () => {
    const error = await define({ ...qwen, architectures: ["Gemma3ForCausalLM"] }).catch((e) => e);
    expect(error).toBeInstanceOf(UnsupportedError);
    expect(error.message).toBe(`Cannot use architecture Gemma3ForCausalLM: ${KNOWN}`);
  });

  test("one that brings code of its own", async () => {
    const auto_map = { AutoModelForCausalLM: "modeling_own.OwnForCausalLM" };
    const error = await define({ ...qwen, architectures: ["OwnForCausalLM"], auto_map }).catch(
      (e) => e,
    );
    expect(error.message).toContain("no remote code is ever run");
    expect(error.message).toContain(KNOWN);
    // A known one that brings code too is read as what it is.
    expect((await define({ ...qwen, auto_map })).definition.architecture).toBe("Qwen3ForCausalLM");
  });

  test("none", async () => {
    await expect(define({ ...qwen, architectures: [] })).rejects.toThrow("architecture none");
    await expect(define({ ...qwen, architectures: undefined })).rejects.toThrow("architectures");
  });
});
