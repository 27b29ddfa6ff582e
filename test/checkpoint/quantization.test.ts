import { describe, expect, test } from "vitest";
import { ConfigReader } from "../../src/checkpoint/config.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import { detectQuantization, type Quantization } from "../../src/checkpoint/quantization.ts";
import { CheckpointError, UnsupportedError } from "../../src/errors.ts";
import { jsonFile } from "../support/write_checkpoint.ts";

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

  test.each([
    ["awq", { quant_method: "awq", bits: 4 }, '"awq"'],
    ["gptq", { quant_method: "gptq" }, '"gptq"'],
    ["channel int8", { quant_method: "w8a8_int8" }, '"w8a8_int8"'],
    [
      "block int8",
      { quant_method: "blockwise_int8", weight_block_size: [128, 128] },
      "blockwise_int8",
    ],
    ["compressed-tensors", { quant_method: "compressed-tensors" }, '"compressed-tensors"'],
    [
      "per-tensor fp8",
      { quant_method: "fp8", activation_scheme: "dynamic" },
      "one scale for each tensor",
    ],
    ["static activations", { ...FP8, activation_scheme: "static" }, 'activation_scheme "static"'],
    ["another block size", { ...FP8, weight_block_size: [64, 128] }, "[64, 128]"],
    ["another format", { ...FP8, fmt: "e5m2" }, 'fmt "e5m2"'],
    ["scales that are powers of two", { ...FP8, scale_fmt: "ue8m0" }, 'scale_fmt "ue8m0"'],
  ])("refuses %s by name", async (_, section, say) => {
    const error = await detect({ quantization_config: section }).catch((reason) => reason);
    expect(error).toBeInstanceOf(UnsupportedError);
    expect(error.message).toContain(say);
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

  test.each([
    [{}],
    [{ quant_method: 8 }],
    [{ ...FP8, weight_block_size: [128] }],
    [{ ...FP8, weight_block_size: "128x128" }],
    [{ ...FP8, ignored_layers: [1] }],
    ["fp8"],
  ])("refuses the malformed section %j", async (section) => {
    await expect(detect({ quantization_config: section })).rejects.toThrow(CheckpointError);
  });
});
