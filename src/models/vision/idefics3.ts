/**
 * Idefics3 and SmolVLM: a Llama decoder that reads tiles of pictures by a SigLIP tower.
 *
 * Sources: Laurençon et al., "Building and better understanding vision-language models" (2024);
 * Marafioti et al., "SmolVLM: Redefining small and efficient multimodal models" (2025).
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import type { Quantization } from "../../checkpoint/quantization.ts";
import type { DefinedRanks } from "../../layers/ranks/ranked_model.ts";
import { gqaArchitecture } from "../gqa_decoder.ts";
import type { ModelArchitecture, ModelDefinition } from "../model.ts";
import { type Idefics3Shape, Idefics3Tower, tileRows } from "./idefics3_tower.ts";
import { createSeeing, ranksOfText, requireRepeated, type Spellings } from "./seeing_model.ts";
import { patchesASide, readSquareShape, SIGLIP } from "./vision_shape.ts";

const ARCHITECTURE = "Idefics3ForConditionalGeneration";
/** The output head has the name that it has everywhere. */
const SPELLINGS: Spellings = [["model.text_model.", "model."]];

export const idefics3: ModelArchitecture = { names: [ARCHITECTURE], define };

function define(
  config: ConfigReader,
  quantization: Quantization,
  ranks?: DefinedRanks,
): ModelDefinition {
  const tiedEmbeddings = config.boolean("tie_word_embeddings", { fallback: false });
  const text = config.modelSection("text_config");
  const vision = config.modelSection("vision_config");
  const decoder = gqaArchitecture({
    architecture: ARCHITECTURE,
    defaults: { tiedEmbeddings, normEps: 1e-5 },
  });
  text.only("use_resampler", [false]);
  text.only("qk_layer_norms", [false]);
  // Of the resampler, of training, and what scale_factor says too.
  text.skip("perceiver_config", "neftune_noise_alpha", "pixel_shuffle_factor");
  const definition = decoder.define(
    text,
    quantization,
    ranksOfText(ranks, () => SPELLINGS),
  );
  const { hiddenSize: textSize, vocabularySize } = definition.shape;
  const shape = towerShape(config, vision, textSize);
  const placeholder = config.integer("image_token_id", { min: 0, max: vocabularySize - 1 });
  // What the files repeat of text_config and of the processor.
  vision.skip("max_image_size", "size", "tie_word_embeddings", "use_base_siglip");
  config.skip("vocab_size");
  config.finish();
  const { imageSide: tileSide, patchSide } = shape;
  const facts = { tileSide, patchSide, tileTokens: tileRows(shape), placeholder };
  return {
    ...definition,
    vision: { kind: "idefics3", ...facts },
    create: (options) =>
      createSeeing(
        {
          definition,
          spellings: SPELLINGS,
          ranks,
          createTower: (context) => new Idefics3Tower(context, shape),
        },
        options,
      ),
  };
}

function towerShape(config: ConfigReader, vision: ConfigReader, textSize: number): Idefics3Shape {
  const siglip = readSquareShape(vision, SIGLIP);
  const side = patchesASide(siglip);
  const shuffle = config.integer("scale_factor", { min: 1, max: side, fallback: 2 });
  if (side % shuffle !== 0) {
    throw config.error("scale_factor", `${side} patches of a side are not made of squares of it`);
  }
  const shape = { ...siglip, shuffle, textSize };
  requireRepeated(config, "image_seq_len", { value: tileRows(shape), what: "a tile" });
  return shape;
}
