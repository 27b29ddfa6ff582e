import { describe, expect, test } from "vitest";
import { ConfigReader } from "../../src/checkpoint/config.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import type { Quantization } from "../../src/checkpoint/quantization.ts";
import { detectQuantization } from "../../src/checkpoint/quantization_config/detect_quantization.ts";
import { CheckpointError, UnsupportedError } from "../../src/errors.ts";
import {
  FP8_DYNAMIC,
  GPTQ,
  INT8_TOKEN,
  PUBLISHED,
} from "../support/checkpoints/published_quantizations.ts";
import { jsonFile } from "../support/checkpoints/write_checkpoint.ts";

const FP8 = {
  quant_method: "fp8",
  fmt: "e4m3",
  activation_scheme: "dynamic",
  weight_block_size: [128, 128],
};

function detect(config: unknown, modelopt?: unknown): Promise<Quantization> {
  const files = modelopt === undefined ? {} : { "hf_quant_config.json": jsonFile(modelopt) };
  const reader = new ConfigReader(config, { file: "config.json" });
  return detectQuantization(memorySource(files as Record<string, Uint8Array>), reader);
}

describe("detectQuantization", () => {
  test("finds none", async () => {
    expect(await detect({})).toEqual({ method: "none" });
    expect(await detect({ quantization_config: null })).toEqual({ method: "none" });
    expect(await detect({}, { quantization: { quant_algo: null } })).toEqual({ method: "none" });
  });

  const block = {
    method: "fp8_block",
    name: "fp8",
    blockRows: 128,
    blockColumns: 128,
    activations: "dynamic",
    unconverted: [],
  };

  test.each(["quantization_config", "compression_config"])(
    "reads FP8 blocks from %s",
    async (key) => {
      const reader = new ConfigReader({ [key]: FP8 }, { file: "config.json" });
      expect(await detectQuantization(memorySource({}), reader)).toEqual(block);
      reader.finish();
    },
  );

  test("needs neither fmt nor activation_scheme, and knows both lists of modules", async () => {
    const { quant_method, weight_block_size } = FP8;
    expect(await detect({ quantization_config: { quant_method, weight_block_size } })).toEqual(
      block,
    );
    const lists = {
      modules_to_not_convert: ["lm_head"],
      ignored_layers: ["model.layers.0.mlp.gate"],
    };
    expect(await detect({ quantization_config: { ...FP8, ...lists } })).toEqual({
      ...block,
      unconverted: ["lm_head", "model.layers.0.mlp.gate"],
    });
    expect(await detect({ quantization_config: { ...FP8, modules_to_not_convert: null } })).toEqual(
      block,
    );
  });

  test.each(PUBLISHED)("understands $where", async ({ section, means }) => {
    const reader = new ConfigReader({ quantization_config: section }, { file: "config.json" });
    expect(await detectQuantization(memorySource({}), reader)).toEqual(means);
    reader.finish();
  });

  test.each(PUBLISHED)("refuses an unknown field in $where", async ({ section }) => {
    const error = await detect({ quantization_config: { ...section, swizzle: 3 } }).catch(
      (reason) => reason,
    );
    expect(error).toBeInstanceOf(UnsupportedError);
    expect(error.message).toContain("quantization_config.swizzle 3 of config.json");
  });

  const AWQ = { quant_method: "awq", bits: 4, group_size: 64 };
  const INT8 = { quant_method: "w8a8_int8" };
  const INT8_BLOCK = { quant_method: "blockwise_int8", weight_block_size: [128, 128] };
  const FP8_TENSOR = { quant_method: "fp8", activation_scheme: "static" };
  const MODELOPT = { quant_method: "modelopt", quant_algo: "FP8" };

  test("takes gptq_v2's zeros as they are", async () => {
    const section = { ...GPTQ, checkpoint_format: "gptq_v2", sym: false, lm_head: true };
    expect(await detect({ quantization_config: section })).toMatchObject({
      zeroOffset: 0,
      symmetric: false,
      unconverted: [],
    });
  });

  test("keeps the spelling of a method with two names", async () => {
    const marlin = { ...AWQ, quant_method: "awq_marlin" };
    expect(await detect({ quantization_config: marlin })).toMatchObject({
      method: "awq",
      name: "awq_marlin",
    });
    const blocks = { ...INT8_BLOCK, quant_method: "deepseek_int8" };
    expect(await detect({ quantization_config: blocks })).toMatchObject({
      method: "int8_block",
      name: "deepseek_int8",
    });
  });

  test.each([
    ["AWQ's other packings", { ...AWQ, version: "gemv" }, 'version "gemv"'],
    ["AWQ with eight bits", { ...AWQ, bits: 8 }, "bits 8"],
    ["AWQ in two spellings", { ...AWQ, w_bit: 3 }, "w_bit 3"],
    ["AWQ without groups", { ...AWQ, group_size: -1 }, "group_size -1"],
    ["AWQ without zeros", { ...AWQ, zero_point: false }, "zero_point false"],
    ["GPTQ with eight bits", { ...GPTQ, bits: 8 }, "bits 8"],
    ["GPTQ without groups", { ...GPTQ, group_size: -1 }, "group_size -1"],
    ["GPTQ in marlin's order", { ...GPTQ, is_marlin_format: true }, "is_marlin_format true"],
    ["GPTQ's other formats", { ...GPTQ, checkpoint_format: "bitblas" }, '"bitblas"'],
    ["GPTQ by module", { ...GPTQ, dynamic: { "+:.*down.*": { bits: 8 } } }, '"+:.*down.*"'],
    ["int8 with static activations", { ...INT8, activation_scheme: "static" }, '"static"'],
    ["int8 by tensor", { ...INT8, weight_strategy: "tensor" }, 'weight_strategy "tensor"'],
    ["other int8 blocks", { ...INT8_BLOCK, weight_block_size: [64, 64] }, "[64, 64]"],
    ["static int8 blocks", { ...INT8_BLOCK, activation_scheme: "static" }, '"static"'],
    ["another int8", { quant_method: "int8" }, '"int8" of config.json: known are fp8, awq, '],
    ["bitsandbytes", { quant_method: "bitsandbytes" }, '"bitsandbytes"'],
    ["a quantized cache", { ...FP8_TENSOR, kv_cache_scheme: "static" }, 'kv_cache_scheme "static"'],
    ["modelopt's FP4", { ...MODELOPT, quant_algo: "NVFP4" }, 'quant_algo "NVFP4"'],
    ["dequantized MXFP4", { quant_method: "mxfp4", dequantize: true }, "dequantize true"],
    ["static activations", { ...FP8, activation_scheme: "static" }, 'activation_scheme "static"'],
    ["another block size", { ...FP8, weight_block_size: [64, 128] }, "[64, 128]"],
    ["another format", { ...FP8, fmt: "e5m2" }, 'fmt "e5m2"'],
    ["another format of scales", { ...FP8, scale_fmt: "ue4m3" }, 'scale_fmt "ue4m3"'],
  ])("refuses %s by name", async (_, section, say) => {
    const error = await detect({ quantization_config: section }).catch((reason) => reason);
    expect(error).toBeInstanceOf(UnsupportedError);
    expect(error.message).toContain(say);
  });

  const compressed = (scheme: object, change: object) => ({
    ...INT8_TOKEN,
    config_groups: {
      group_0: { ...INT8_TOKEN.config_groups.group_0, ...scheme },
    },
    ...change,
  });
  const weights = (change: object) =>
    compressed({ weights: { ...INT8_TOKEN.config_groups.group_0.weights, ...change } }, {});
  const inputs = (change: object) => {
    const { input_activations } = INT8_TOKEN.config_groups.group_0;
    return compressed({ input_activations: { ...input_activations, ...change } }, {});
  };
  const at = "quantization_config.config_groups.group_0";

  test.each([
    ['format "pack-quantized"', compressed({}, { format: "pack-quantized" })],
    [
      'only "int-quantized" or "float-quantized"',
      compressed({}, { format: "nvfp4-pack-quantized" }),
    ],
    ['quantization_status "calibration"', compressed({}, { quantization_status: "calibration" })],
    ["kv_cache_scheme", compressed({}, { kv_cache_scheme: { num_bits: 8 } })],
    [
      'sparsity_config.format "sparse',
      compressed({}, { sparsity_config: { format: "sparse-24" } }),
    ],
    ["transform_config.config_groups", compressed({}, { transform_config: { config_groups: {} } })],
    ["with 0 groups", compressed({}, { config_groups: {} })],
    ["with 2 groups", compressed({}, { config_groups: { a: {}, b: {} } })],
    [`${at}.output_activations`, compressed({ output_activations: {} }, {})],
    [`${at}.format "pack-quantized"`, compressed({ format: "pack-quantized" }, {})],
    [`${at}.weights.num_bits 4`, weights({ num_bits: 4 })],
    [`${at}.weights.type "float"`, weights({ type: "float" })],
    [`${at}.weights.strategy "tensor"`, weights({ strategy: "tensor" })],
    [`${at}.weights.symmetric false`, weights({ symmetric: false })],
    [`${at}.weights.group_size 128`, weights({ group_size: 128 })],
    [`${at}.weights.actorder "static"`, weights({ actorder: "static" })],
    [`${at}.input_activations.dynamic false`, inputs({ dynamic: false })],
    [`${at}.input_activations.strategy "tensor"`, inputs({ strategy: "tensor" })],
    [`${at}.input_activations.symmetric false`, inputs({ symmetric: false })],
  ])("refuses %s of compressed-tensors", async (say, section) => {
    const error = await detect({ quantization_config: section }).catch((reason) => reason);
    expect(error).toBeInstanceOf(UnsupportedError);
    expect(error.message).toContain(say);
  });

  test("refuses FP8 activations whose scale would be found for a whole batch", async () => {
    const { group_0 } = FP8_DYNAMIC.config_groups;
    const input_activations = { ...group_0.input_activations, strategy: "tensor" };
    const config_groups = { group_0: { ...group_0, input_activations } };
    await expect(
      detect({ quantization_config: { ...FP8_DYNAMIC, config_groups } }),
    ).rejects.toThrow(`${at}.input_activations.strategy "tensor"`);
  });

  test("leaves int8 activations alone when there is no scheme for them", async () => {
    const section = compressed({ input_activations: null }, {});
    expect(await detect({ quantization_config: section })).toMatchObject({ activations: "none" });
  });

  test("refuses hf_quant_config.json's algorithms by name, unless config.json decides", async () => {
    const modelopt = {
      producer: { name: "modelopt" },
      quantization: { quant_algo: "MIXED_PRECISION" },
    };
    await expect(detect({}, modelopt)).rejects.toThrow('quant_algo "MIXED_PRECISION"');
    expect(await detect({ quantization_config: FP8 }, modelopt)).toEqual(block);
    await expect(detect({}, {})).rejects.toThrow(CheckpointError);
  });

  test("reads FP8 from hf_quant_config.json, and refuses what it says of the cache", async () => {
    const producer = { name: "modelopt", version: "0.23.0" };
    const plain = { quant_algo: "FP8", kv_cache_quant_algo: null, exclude_modules: ["lm_head"] };
    expect(await detect({}, { producer, quantization: plain })).toEqual({
      method: "fp8",
      name: "modelopt",
      scales: "tensor",
      activations: "static",
      unconverted: ["lm_head"],
    });
    for (const quant_algo of ["FP8", null]) {
      const quantization = { ...plain, quant_algo, kv_cache_quant_algo: "FP8" };
      await expect(detect({}, { producer, quantization })).rejects.toThrow(
        'quantization.kv_cache_quant_algo "FP8" of hf_quant_config.json',
      );
    }
  });

  test.each([
    [{}],
    [{ quant_method: 8 }],
    [{ ...FP8, weight_block_size: [128] }],
    [{ ...FP8, weight_block_size: "128x128" }],
    [{ ...FP8, ignored_layers: [1] }],
    [{ quant_method: "awq", bits: 4 }],
    [{ quant_method: "awq", bits: 4, group_size: 64, q_group_size: 128 }],
    [{ quant_method: "gptq", group_size: 64 }],
    [{ quant_method: "blockwise_int8" }],
    [{ quant_method: "compressed-tensors" }],
    [{ quant_method: "compressed-tensors", format: "int-quantized" }],
    [{ quant_method: "modelopt" }],
    ["fp8"],
  ])("refuses the malformed section %j", async (section) => {
    await expect(detect({ quantization_config: section })).rejects.toThrow(CheckpointError);
  });
});
