import { describe, expect, test } from "vitest";
import { ConfigReader } from "../../../src/checkpoint/config.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import { detectQuantization } from "../../../src/checkpoint/quantization_config/detect_quantization.ts";
import { architectureOf } from "../../../src/models/architectures.ts";
import type { ModelDefinition } from "../../../src/models/model.ts";

/** As SmolVLM-256M's config.json has it: what its towers leave out is a default. */
const SMOLVLM = {
  architectures: ["Idefics3ForConditionalGeneration"],
  model_type: "idefics3",
  image_token_id: 49190,
  scale_factor: 4,
  tie_word_embeddings: false,
  torch_dtype: "bfloat16",
  vocab_size: 49280,
  text_config: {
    _flash_attn_2_enabled: true,
    architectures: ["VLlama3ForCausalLM"],
    head_dim: 64,
    hidden_size: 576,
    intermediate_size: 1536,
    max_position_embeddings: 8192,
    model_type: "llama",
    neftune_noise_alpha: 0,
    num_attention_heads: 9,
    num_hidden_layers: 30,
    num_key_value_heads: 3,
    perceiver_config: { model_type: "vllama3", use_resampler: false },
    pixel_shuffle_factor: 4,
    qk_layer_norms: false,
    rms_norm_eps: 1e-5,
    rope_theta: 100000,
    use_resampler: false,
    vocab_size: 49280,
  },
  vision_config: {
    hidden_size: 768,
    image_size: 512,
    max_image_size: { longest_edge: 512 },
    model_type: "idefics3",
    num_attention_heads: 12,
    patch_size: 16,
    size: { longest_edge: 2048 },
    use_base_siglip: true,
  },
};

type Config = typeof SMOLVLM;

async function define(config: object): Promise<ModelDefinition> {
  const reader = new ConfigReader(config, { file: "config.json" });
  const quantization = await detectQuantization(memorySource({}), reader);
  return architectureOf(reader).define(reader, quantization);
}

const text = (fields: object): object => ({
  ...SMOLVLM,
  text_config: { ...SMOLVLM.text_config, ...fields },
});
const vision = (fields: object): object => ({
  ...SMOLVLM,
  vision_config: { ...SMOLVLM.vision_config, ...fields },
});
const whole = (fields: Partial<Record<keyof Config | string, unknown>>): object => ({
  ...SMOLVLM,
  ...fields,
});

describe("SmolVLM's config", () => {
  test("says how it sees and how it reads", async () => {
    const { vision: sees, shape, facts } = await define(SMOLVLM);
    expect(sees).toEqual({
      kind: "idefics3",
      tileSide: 512,
      patchSide: 16,
      tileTokens: 64,
      placeholder: 49190,
    });
    expect(shape).toMatchObject({ hiddenSize: 576, layers: 30, contextLength: 8192 });
    expect(facts).toMatchObject({ attention: { heads: 9, kvHeads: 3 }, tiedEmbeddings: false });
  });

  test("tied embeddings are those of the whole", async () => {
    const { facts } = await define(whole({ tie_word_embeddings: true }));
    expect(facts.tiedEmbeddings).toBe(true);
  });

  test.each<[object, string]>([
    [vision({ hidden_act: "quick_gelu" }), 'vision_config.hidden_act "quick_gelu"'],
    [vision({ num_channels: 4 }), "vision_config.num_channels 4"],
    [vision({ num_attention_heads: 5 }), "they make 153.6 elements each"],
    [vision({ hidden_size: 1536 }), "they make 128 elements each, not a multiple of 4 up to 80"],
    [vision({ image_size: 500 }), "it must be up to 128 times patch_size 16, not 500"],
    [vision({ rope: true }), "vision_config.rope true"],
    [text({ use_resampler: true }), "text_config.use_resampler true"],
    [text({ qk_layer_norms: true }), "text_config.qk_layer_norms true"],
    [text({ mood: 1 }), "text_config.mood 1"],
    [whole({ scale_factor: 5 }), "32 patches of a side are not made of squares of it"],
    [whole({ image_seq_len: 81 }), "a tile is 64 rows, not 81"],
    [whole({ image_token_id: 49280 }), "image_token_id"],
    [whole({ text_config: undefined }), "text_config"],
  ])("%# is refused: %s", async (config, message) => {
    await expect(define(config)).rejects.toThrow(message);
  });
});
