import { describe, expect, test } from "vitest";
import { ConfigReader } from "../../../src/checkpoint/config.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import { detectQuantization } from "../../../src/checkpoint/quantization_config/detect_quantization.ts";
import { layOut } from "../../../src/engine/load/sizing.ts";
import type { DefinedRanks } from "../../../src/layers/ranks/ranked_model.ts";
import { architectureOf } from "../../../src/models/architectures.ts";
import type { ModelDefinition } from "../../../src/models/model.ts";
import { localGroup } from "../../../src/parallel/local.ts";
import { formatsOf } from "../../support/checkpoints/formats.ts";
import {
  DEEPSEEK_VL2_TINY,
  LLAVA_1_5,
  QWEN_2_5_VL,
  QWEN_2_5_VL_NEW,
} from "../../support/checkpoints/vision_configs.ts";

async function define(config: object, ranks?: DefinedRanks): Promise<ModelDefinition> {
  const reader = new ConfigReader(config, { file: "config.json" });
  const quantization = await detectQuantization(memorySource({}), reader);
  return architectureOf(reader).define(reader, quantization, ranks);
}

const within = (config: object, section: string, fields: object): object => ({
  ...config,
  [section]: { ...(config as Record<string, object>)[section], ...fields },
});

describe("published configs say how models see and read", () => {
  test("LLaVA-1.5-7B", async () => {
    const { vision, shape, facts } = await define(LLAVA_1_5);
    expect(vision).toEqual({
      kind: "llava",
      placeholder: 32000,
      patchSide: 14,
      side: 336,
      tokens: 576,
    });
    expect(shape).toMatchObject({ hiddenSize: 4096, layers: 32, vocabularySize: 32064 });
    expect(facts).toMatchObject({ attention: { heads: 32, kvHeads: 32, headDim: 128 } });
  });

  test("with the class token's row, and under its newer name", async () => {
    const { image_token_index, ...rest } = LLAVA_1_5;
    const { vision } = await define({
      ...rest,
      image_token_id: image_token_index,
      vision_feature_select_strategy: "full",
      image_seq_length: 577,
    });
    expect(vision).toMatchObject({ placeholder: 32000, tokens: 577 });
  });

  test.each([
    ["as it was published", QWEN_2_5_VL],
    ["as the transformers library writes it since", QWEN_2_5_VL_NEW],
  ])("Qwen2.5-VL-3B, %s", async (_, config) => {
    const { vision, shape, facts } = await define(config);
    expect(vision).toEqual({
      kind: "qwen2_5_vl",
      placeholder: 151655,
      patchSide: 14,
      merge: 2,
      window: 4,
      maxPatches: 8192,
    });
    expect(shape).toMatchObject({ hiddenSize: 2048, layers: 36, contextLength: 128000 });
    expect(shape.partedRope).toMatchObject({ theta: 1e6, dim: 128, parts: [16, 24, 24] });
    expect(facts).toMatchObject({ tiedEmbeddings: true, attention: { heads: 16, kvHeads: 2 } });
  });

  test("DeepSeek-VL2-Tiny", async () => {
    const { vision, shape, facts, architecture } = await define(DEEPSEEK_VL2_TINY);
    expect(vision).toMatchObject({
      kind: "deepseek_vl2",
      patchSide: 14,
      tileSide: 384,
      seenSide: 378,
      rowSide: 14,
    });
    expect(architecture).toBe("DeepseekVLV2ForCausalLM");
    expect(shape).toMatchObject({ hiddenSize: 1280, layers: 12 });
    expect(facts).toMatchObject({
      attention: { kind: "gqa", heads: 10 },
      experts: { routed: 64, perToken: 6, shared: 2 },
    });
  });

  test("DeepSeek-VL2-Small, whose attention has a latent", async () => {
    const { language_config } = DEEPSEEK_VL2_TINY;
    const latent = { ...language_config, use_mla: true, kv_lora_rank: 512, q_lora_rank: null };
    const heads = { qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128 };
    const { facts } = await define({
      ...DEEPSEEK_VL2_TINY,
      language_config: { ...latent, ...heads },
    });
    expect(facts.attention).toMatchObject({ kind: "mla", latent: 512, heads: 10 });
  });
});

const llava = (fields: object) => ({ ...LLAVA_1_5, ...fields });
const qwen = (fields: object) => ({ ...QWEN_2_5_VL, ...fields });
const tower = (fields: object) => within(QWEN_2_5_VL, "vision_config", fields);
const deepseek = (fields: object) => ({ ...DEEPSEEK_VL2_TINY, ...fields });
const projector = (fields: object) => within(DEEPSEEK_VL2_TINY, "projector_config", fields);

describe("configs that the engine refuses by name", () => {
  test.each<[object, string]>([
    [llava({ projector_hidden_act: "relu" }), 'projector_hidden_act "relu"'],
    [llava({ multimodal_projector_bias: false }), "multimodal_projector_bias false"],
    [llava({ vision_feature_layer: 25 }), "vision_feature_layer"],
    [llava({ vision_feature_layer: [-2, -5] }), "vision_feature_layer"],
    [llava({ vision_feature_select_strategy: "cls" }), 'vision_feature_select_strategy "cls"'],
    [llava({ image_seq_length: 729 }), "a picture is 576 rows, not 729"],
    [llava({ image_token_index: 32064 }), "image_token_index"],
    [within(LLAVA_1_5, "text_config", { model_type: "mistral" }), 'model_type "mistral"'],
    [within(LLAVA_1_5, "vision_config", { model_type: "siglip" }), 'model_type "siglip"'],
    [within(LLAVA_1_5, "vision_config", { hidden_act: "relu" }), 'hidden_act "relu"'],
    [qwen({ image_token_id: 151936 }), "the vocabulary has 151936 tokens"],
    [qwen({ rope_scaling: null }), "its mrope_section is missing"],
    [
      qwen({ rope_scaling: { type: "mrope", mrope_section: [16, 24, 23] } }),
      "it must be three numbers whose sum is 64",
    ],
    [qwen({ rope_scaling: { type: "mrope", mrope_section: [64] } }), "whose sum is 64"],
    [qwen({ rope_scaling: { type: "yarn", factor: 4 } }), 'type "yarn"'],
    [tower({ hidden_act: "gelu" }), 'vision_config.hidden_act "gelu"'],
    [tower({ num_heads: 15 }), "elements each, not a multiple of 4 up to 80"],
    [tower({ window_size: 27 }), "it holds no patches that become a row"],
    [tower({ fullatt_block_indexes: [32] }), "there are 32 layers"],
    [tower({ out_hidden_size: 1024 }), "the text model reads 2048 numbers, not 1024"],
    [tower({ deepstack: [1] }), "vision_config.deepstack"],
    [deepseek({ tile_tag: "1D" }), 'tile_tag "1D"'],
    [deepseek({ global_view_pos: "tail" }), 'global_view_pos "tail"'],
    [deepseek({ candidate_resolutions: [[384, 300]] }), "384 x 300 must be made of"],
    [deepseek({ candidate_resolutions: [] }), "it must have 1 to 256 sizes, not 0"],
    [deepseek({ candidate_resolutions: [[384]] }), "a list of pairs of whole numbers"],
    [projector({ projector_type: "linear" }), 'projector_type "linear"'],
    [projector({ n_embed: 2048 }), "it must be 1280, not 2048"],
    [projector({ token_pooling: true }), "token_pooling true"],
    [within(DEEPSEEK_VL2_TINY, "vision_config", { class_token: true }), "class_token true"],
    [within(DEEPSEEK_VL2_TINY, "language_config", { lm_head: false }), "lm_head false"],
  ])("%#: %s", async (config, message) => {
    await expect(define(config)).rejects.toThrow(message);
  });
});

test.each([LLAVA_1_5, QWEN_2_5_VL, DEEPSEEK_VL2_TINY])(
  "%#: each of two ranks counts the tower, as all keep as many tokens",
  async (config) => {
    const formats = formatsOf(() => "BF16");
    const models = await Promise.all(
      localGroup(2).map(async (communicator) =>
        layOut(await define(config, { communicator, formats }), formats),
      ),
    );
    const [first, second] = models.map(({ weightBytes }) => weightBytes);
    expect(second).toBe(first);
    const alone = layOut(await define(config), formats);
    const tower = alone.model.vision!.specs.map(({ name }) => name);
    for (const { model } of models) {
      const names = new Set(model.specs.map(({ name }) => name));
      expect(tower.every((name) => names.has(name))).toBe(true);
    }
    expect(first).toBeLessThan(alone.weightBytes);
  },
);
