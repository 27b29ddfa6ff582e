/**
 * DeepSeek-VL2: a DeepSeek-V2 decoder that reads tiles of pictures by a SigLIP tower. The smallest one's
 * attention has keys and values of its own in place of a latent.
 *
 * Source: Wu et al., "DeepSeek-VL2: Mixture-of-Experts Vision-Language Models for Advanced Multimodal
 * Understanding" (2024).
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import type { Quantization } from "../../checkpoint/quantization.ts";
import type { DefinedRanks } from "../../layers/ranks/ranked_model.ts";
import { readDeepseekExperts } from "../config/deepseek_config.ts";
import type { GqaConfig } from "../config/gqa_config.ts";
import { deepseekV2 } from "../deepseek_v2.ts";
import { gqaArchitecture } from "../gqa_decoder.ts";
import type { ModelArchitecture, ModelDefinition } from "../model.ts";
import { DeepseekTower, type DeepseekVisionShape, rowsASide } from "./deepseek_tower.ts";
import { createSeeing, ranksOfText, type Spellings } from "./seeing_model.ts";
import { readTimmShape } from "./vision_shape.ts";

const ARCHITECTURE = "DeepseekVLV2ForCausalLM";
const SPELLINGS: Spellings = [
  ["language.model.", "model."],
  ["language.lm_head", "lm_head"],
];
/** Only what reads a picture as one vector needs it. */
const POOL = "vision.attn_pool.";

/** Sizes that pictures are cut into tiles in. */
const MAX_RESOLUTIONS = 256;
/** Tiles of such a size: the pixels of all of them are there at once. */
const MAX_TILES = 64;

/** Attention with keys and values of its own. */
const plain = gqaArchitecture({
  architecture: ARCHITECTURE,
  experts: readExperts,
  defaults: { normEps: 1e-6 },
});

export const deepseekVl2: ModelArchitecture = { names: [ARCHITECTURE], define };

function define(
  config: ConfigReader,
  quantization: Quantization,
  ranks?: DefinedRanks,
): ModelDefinition {
  const text = config.modelSection("language_config");
  const vision = config.modelSection("vision_config");
  const projector = config.modelSection("projector_config");
  const isLatent = text.boolean("use_mla", { fallback: true });
  text.only("lm_head", [true]);
  text.only("rm_head", [false]);
  if (!isLatent) {
    // What only a latent has.
    text.skip("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim");
  }
  const decoder = isLatent ? deepseekV2 : plain;
  const textRanks = ranksOfText(ranks, () => SPELLINGS);
  const decoded = decoder.define(text, quantization, textRanks);
  const definition = { ...decoded, architecture: ARCHITECTURE };
  const shape = towerShape(vision, projector, definition.shape.hiddenSize);
  const tileSide = vision.integer("image_size", { fallback: 384 });
  const resolutions = readResolutions(config, tileSide);
  config.only("tile_tag", ["2D"]);
  config.only("global_view_pos", ["head"]);
  config.finish();
  const { imageSide: seenSide, patchSide } = shape;
  const facts = { patchSide, tileSide, seenSide, rowSide: rowsASide(shape), resolutions };
  return {
    ...definition,
    vision: { kind: "deepseek_vl2", ...facts },
    create: (options) =>
      createSeeing(
        {
          definition,
          spellings: SPELLINGS,
          ranks,
          ignores: (name) => name.startsWith(POOL),
          createTower: (context) => new DeepseekTower(context, shape),
        },
        options,
      ),
  };
}

function readExperts(config: ConfigReader): GqaConfig["experts"] {
  const experts = readDeepseekExperts(config, "v2");
  return (
    experts && {
      ...experts,
      isSparse: (layer) => layer >= experts.firstLayer && layer % experts.layerPeriod === 0,
    }
  );
}

function towerShape(
  vision: ConfigReader,
  projector: ConfigReader,
  textSize: number,
): DeepseekVisionShape {
  const siglip = readTimmShape(vision);
  vision.only("class_token", [false]);
  // Which of the library's towers it is, and how it would make one vector of a picture.
  vision.skip("model_name", "global_pool", "ignore_head", "weight_init", "num_classes");
  projector.only("projector_type", ["downsample_mlp_gelu"]);
  projector.only("depth", [2]);
  projector.only("mlp_ratio", [1]);
  projector.only("token_pooling", [false]);
  const merge = projector.integer("downsample_ratio", { min: 1, max: 16, fallback: 2 });
  const sizes = [
    ["input_dim", siglip.hiddenSize],
    ["n_embed", textSize],
  ] as const;
  for (const [field, size] of sizes) {
    const given = projector.integer(field, { fallback: size });
    if (given !== size) throw projector.error(field, `it must be ${size}, not ${given}`);
  }
  return { ...siglip, merge, textSize };
}

function readResolutions(
  config: ConfigReader,
  tileSide: number,
): readonly (readonly [width: number, height: number])[] {
  const field = "candidate_resolutions";
  const flat = config.pairs(field);
  if (flat.length === 0 || flat.length > MAX_RESOLUTIONS) {
    throw config.error(field, `it must have 1 to ${MAX_RESOLUTIONS} sizes, not ${flat.length}`);
  }
  for (const [width, height] of flat) {
    const tiles = (width / tileSide) * (height / tileSide);
    const isCut = width > 0 && height > 0 && width % tileSide === 0 && height % tileSide === 0;
    if (isCut && tiles <= MAX_TILES) continue;
    const rule = `up to ${MAX_TILES} tiles of ${tileSide} pixels`;
    throw config.error(field, `${width} x ${height} must be made of ${rule}`);
  }
  return flat;
}
