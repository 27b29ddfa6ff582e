import { describe, expect, test } from "vitest";
import { DEFAULT_LAYOUT } from "../../../kernels/linear/weights/layout.ts";
import { bytesPerToken } from "../../../src/cache/kv_cache.ts";
import { ConfigReader } from "../../../src/checkpoint/config.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import { detectQuantization } from "../../../src/checkpoint/quantization_config/detect_quantization.ts";
import { DTYPE_BYTES, type Dtype } from "../../../src/dtype.ts";
import { CheckpointError, UnsupportedError } from "../../../src/errors.ts";
import { DeviceMemory } from "../../../src/gpu/memory.ts";
import { architectureOf } from "../../../src/models/architectures.ts";
import { readDeepseekConfig } from "../../../src/models/config/deepseek_config.ts";
import { kvCacheShape, type ModelDefinition } from "../../../src/models/model.ts";
import {
  DEEPSEEK_V2,
  DEEPSEEK_V2_LITE,
  DEEPSEEK_V3,
  DEEPSEEK_V3_NATIVE,
  DEEPSEEK_V3_ROPE_PARAMETERS,
  DEEPSEEK_V31,
  fp8ReleaseDtype,
  KIMI_K2,
} from "../../support/checkpoints/deepseek_configs.ts";
import { formatsOf } from "../../support/checkpoints/formats.ts";

const readerOf = (config: object) => new ConfigReader(config, { file: "config.json" });

async function define(config: object): Promise<ModelDefinition> {
  const reader = readerOf(config);
  const quantization = await detectQuantization(memorySource({}), reader);
  return architectureOf(reader).define(reader, quantization);
}

function create(definition: ModelDefinition, dtypeOf: (name: string) => Dtype) {
  const memory = new DeviceMemory({
    maxBufferSize: 2 ** 32,
    maxStorageBufferBindingSize: 2 ** 32 - 4,
  });
  const model = definition.create({
    memory,
    layout: DEFAULT_LAYOUT,
    formats: formatsOf(dtypeOf),
    maxRows: 128,
    maxDecodeRows: 32,
    contextLength: 4096,
    pageSize: 1,
    cacheDtype: "bf16",
    prefillCapacity: 0,
    quantizeActivations: true,
  });
  return { memory, model };
}

/** Bytes of the tensors in the checkpoint. */
function checkpointBytes({ specs }: ReturnType<typeof create>["model"]): number {
  return specs.reduce((sum, { shape, dtypes }) => {
    return sum + shape.reduce((product, size) => product * size, DTYPE_BYTES[dtypes[0]!]);
  }, 0);
}

describe("published configs", () => {
  test.each([
    ["DeepSeek-V3", DEEPSEEK_V3],
    ["DeepSeek-V3.1", DEEPSEEK_V31],
    ["as transformers 4 writes it", DEEPSEEK_V3_NATIVE],
    ["as transformers 5 writes it", DEEPSEEK_V3_ROPE_PARAMETERS],
  ])("%s is understood", (_, config) => {
    expect(readDeepseekConfig(readerOf(config), "v3")).toEqual({
      hiddenSize: 7168,
      draftLayers: 1,
      vocabularySize: 129280,
      layers: 61,
      contextLength: 163840,
      normEps: 1e-6,
      heads: 128,
      queryLatent: 1536,
      latent: 512,
      nope: 128,
      rope: 64,
      value: 128,
      ropeTheta: 10000,
      yarn: {
        type: "yarn",
        factor: 40,
        originalMaxPosition: 4096,
        betaFast: 32,
        betaSlow: 1,
        mscale: 1,
        mscaleAllDim: 1,
      },
      denseIntermediate: 18432,
      experts: {
        routed: 256,
        shared: 1,
        perToken: 8,
        intermediate: 2048,
        firstLayer: 3,
        layerPeriod: 1,
        scoring: "sigmoid",
        selection: "noaux_tc",
        groups: 8,
        groupsKept: 4,
        normalize: true,
        scalingFactor: 2.5,
      },
      tiedEmbeddings: false,
    });
  });

  test("Kimi-K2 is understood", () => {
    const { ropeTheta, heads, experts } = readDeepseekConfig(readerOf(KIMI_K2), "v3");
    expect({ ropeTheta, heads }).toEqual({ ropeTheta: 50000, heads: 64 });
    expect(experts).toMatchObject({ routed: 384, groups: 1, groupsKept: 1, scalingFactor: 2.827 });
  });

  test.each([
    ["DeepSeek-V3", DEEPSEEK_V3, 671.0, 61 * 576 * 2],
    ["DeepSeek-V3.1", DEEPSEEK_V31, 671.0, 61 * 576 * 2],
    ["Kimi-K2", KIMI_K2, 1026.4, 61 * 576 * 2],
  ])("%s: parameters, and bytes of a cached token", async (_, config, billions, bytes) => {
    const definition = await define(config);
    const { specs } = create(definition, fp8ReleaseDtype).model;
    const parameters = specs.filter(({ name }) => !name.endsWith("weight_scale_inv"));
    const counted = parameters.reduce(
      (sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1),
      0,
    );
    expect(counted / 1e9).toBeCloseTo(billions, 1);
    expect(bytesPerToken(kvCacheShape(definition.shape, "bf16"))).toBe(bytes);
  });

  test("DeepSeek-V2 and V2-Lite are understood", () => {
    const v2 = readDeepseekConfig(readerOf(DEEPSEEK_V2), "v2");
    expect(v2.experts).toMatchObject({
      scoring: "softmax",
      selection: "group_limited_greedy",
      shared: 2,
    });
    const lite = readDeepseekConfig(readerOf(DEEPSEEK_V2_LITE), "v2");
    expect(lite).toMatchObject({ queryLatent: null, experts: { selection: "greedy" } });
  });

  const weighting = (config: object, generation: "v2" | "v3") => {
    const { experts } = readDeepseekConfig(readerOf(config), generation);
    const { normalize, scalingFactor } = experts!;
    return { normalize, scalingFactor };
  };

  test("weights of V2's experts are normalized or scaled, V3's both", () => {
    const normalized = { norm_topk_prob: true };
    const plain = { normalize: false, scalingFactor: 16 };
    const both = { normalize: true, scalingFactor: 16 };
    expect(weighting(DEEPSEEK_V2, "v2")).toEqual(plain);
    const v2 = { ...DEEPSEEK_V2, ...normalized };
    expect(weighting(v2, "v2")).toEqual({ normalize: true, scalingFactor: 1 });
    expect(weighting({ ...v2, num_experts_per_tok: 1 }, "v2")).toEqual(plain);
    expect(weighting({ ...v2, topk_method: "noaux_tc" }, "v2")).toEqual(both);
    expect(weighting({ ...DEEPSEEK_V3, routed_scaling_factor: 16 }, "v3")).toEqual(both);
  });

  test("numbers of V3's router that the file does not name are V3's own", () => {
    const { experts } = readDeepseekConfig(readerOf(DEEPSEEK_V3), "v3");
    const silent = {
      ...DEEPSEEK_V3,
      n_group: undefined,
      num_experts_per_tok: undefined,
      routed_scaling_factor: undefined,
      topk_group: undefined,
    };
    const fields = JSON.parse(JSON.stringify(silent));
    expect(readDeepseekConfig(readerOf(fields), "v3").experts).toEqual(experts);
  });

  test("the memory budget of DeepSeek-V3 is its weights and two forms of kv_b_proj", async () => {
    const before = process.memoryUsage().arrayBuffers;
    const { memory, model } = create(await define(DEEPSEEK_V3), fp8ReleaseDtype);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 20);
    const stored = checkpointBytes(model);
    // 671 billion parameters in FP8, embedding and head in BF16, scales.
    expect(stored / 1e9).toBeGreaterThan(671);
    expect(stored / 1e9).toBeLessThan(674);
    const upForms = 61 * 128 * (128 + 128) * 512;
    const added = memory.bytes("weights") - stored - upForms;
    // Scales are spread from one for each block to one for each row of it.
    const spread = (671e9 / (128 * 128)) * 127 * 4;
    expect(Math.abs(added - spread) / spread).toBeLessThan(0.02);
  });

  test("DeepSeek-V2-Lite in BF16 fits 32 GiB", async () => {
    const bf16 = (name: string): Dtype => (name.endsWith("scale_inv") ? "F32" : "BF16");
    const { memory, model } = create(await define(DEEPSEEK_V2_LITE), bf16);
    expect(checkpointBytes(model) / 2 / 1e9).toBeCloseTo(15.7, 1);
    expect(memory.bytes("weights") / 2 ** 30).toBeLessThan(32);
  });
});

describe("refused and named", () => {
  const refusals: [string, object][] = [
    ["attention_bias", { attention_bias: true }],
    ["mlp_bias", { mlp_bias: true }],
    ["hidden_act", { hidden_act: "gelu" }],
    ["rope_interleave", { rope_interleave: false }],
    ["num_key_value_heads", { num_key_value_heads: 8 }],
    ["head_dim", { head_dim: 56 }],
    ["qk_rope_head_dim", { qk_rope_head_dim: 6 }],
    ["qk_nope_head_dim", { qk_nope_head_dim: 130 }],
    ["kv_lora_rank", { kv_lora_rank: 514 }],
    ["kv_lora_rank", { kv_lora_rank: 2048 }],
    ["v_head_dim", { v_head_dim: 127 }],
    ["hidden_size", { hidden_size: 2 ** 15 }],
    ["hidden_size", { hidden_size: -1 }],
    ["hidden_size", { hidden_size: "7168" }],
    ["q_lora_rank", { q_lora_rank: 10000 }],
    ["q_lora_rank", { q_lora_rank: 0 }],
    ["vocab_size", { vocab_size: undefined }],
    ["n_routed_experts", { n_routed_experts: 2048 }],
    ["num_experts_per_tok", { num_experts_per_tok: 300 }],
    [
      "num_experts_per_tok",
      { architectures: ["DeepseekV2ForCausalLM"], num_experts_per_tok: undefined },
    ],
    ["n_shared_experts", { n_shared_experts: 1e9 }],
    ["num_hidden_layers", { num_hidden_layers: 1e9 }],
    ["num_hidden_layers", { num_hidden_layers: 1000 }],
    ["num_attention_heads", { num_attention_heads: 2 ** 25, num_key_value_heads: 2 ** 25 }],
    ["rope_scaling.beta_fast", { rope_scaling: { ...yarn(), beta_fast: 0 } }],
    ["rope_scaling.beta_slow", { rope_scaling: { ...yarn(), beta_slow: -1 } }],
    ["n_group", { n_group: 7 }],
    ["n_group", { n_group: 256 }],
    ["topk_group", { topk_group: 1, num_experts_per_tok: 33 }],
    ["scoring_func", { scoring_func: "tanh" }],
    ["topk_method", { topk_method: "aux" }],
    ["rope_scaling.type", { rope_scaling: { type: "linear", factor: 2 } }],
    ["rope_scaling.rope_type", { rope_scaling: { factor: 2 } }],
    ["rope_scaling.factor", { rope_scaling: { type: "yarn" } }],
    ["rope_scaling.attention_factor", { rope_scaling: { ...yarn(), attention_factor: 2 } }],
    ["rope_scaling.truncate", { rope_scaling: { ...yarn(), truncate: false } }],
    ["rope_scaling.rope_theta", { rope_scaling: { ...yarn(), rope_theta: 5 } }],
    ["rope_scaling", { rope_parameters: { ...yarn(), rope_theta: 5 } }],
    ["sliding_window", { sliding_window: 128 }],
    ["quantization_config.scale_fmt", quantized({ scale_fmt: "ue4m3" })],
    ["quantization_config.fmt", quantized({ fmt: "e5m2" })],
    ["activation_scheme", quantized({ activation_scheme: "static" })],
    ["weight_block_size", quantized({ weight_block_size: [64, 64] })],
    ["bitsandbytes", { quantization_config: { quant_method: "bitsandbytes" } }],
  ];

  test.each(refusals)("%s, when the config says %o", async (field, change) => {
    const given = JSON.parse(JSON.stringify({ ...DEEPSEEK_V3, ...change }));
    const error = await define(given).catch((error: unknown) => error);
    expect(error instanceof CheckpointError || error instanceof UnsupportedError).toBe(true);
    expect((error as Error).message).toContain(field);
    expect((error as Error).message).toMatch(/^Cannot .*config\.json/);
  });
});

function yarn() {
  return DEEPSEEK_V3.rope_scaling;
}

function quantized(change: object) {
  return { quantization_config: { ...DEEPSEEK_V3.quantization_config, ...change } };
}
