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
import { UnsupportedError } from "../../errors.ts";
import type { DefinedRanks } from "../../layers/ranks/ranked_model.ts";
import { ONE_RANK } from "../../parallel/communicator.ts";
import { gqaArchitecture } from "../gqa_decoder.ts";
import type { Model, ModelArchitecture, ModelDefinition } from "../model.ts";
import type { CreateOptions } from "../model_options.ts";
import { patchesASide, readSiglip } from "./vision_shape.ts";
import { imageTokens, type TowerShape, VisionTower } from "./vision_tower.ts";

const ARCHITECTURE = "Idefics3ForConditionalGeneration";
/** What stands in front of the names of the decoder's tensors, the output head aside. */
const TEXT = "model.text_model.";
const DECODER = "model.";

export const idefics3: ModelArchitecture = { names: [ARCHITECTURE], define };

function define(
  config: ConfigReader,
  quantization: Quantization,
  ranks?: DefinedRanks,
): ModelDefinition {
  if ((ranks?.communicator ?? ONE_RANK).size > 1) {
    throw new UnsupportedError(`${ARCHITECTURE} on several ranks`);
  }
  if (quantization.method !== "none") {
    throw new UnsupportedError(`${ARCHITECTURE} with quantization ${quantization.name}`);
  }
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
  const definition = decoder.define(text, quantization, ranks);
  const { hiddenSize: textSize, vocabularySize } = definition.shape;
  const shape = towerShape(config, vision, textSize);
  const placeholder = config.integer("image_token_id", { min: 0, max: vocabularySize - 1 });
  // What the files repeat of text_config and of the processor.
  vision.skip("max_image_size", "size", "tie_word_embeddings", "use_base_siglip");
  config.skip("vocab_size");
  config.finish();
  const { imageSide } = shape;
  return {
    ...definition,
    vision: { tileSide: imageSide, tileTokens: imageTokens(shape), placeholder },
    create: (options) => createModel(definition, shape, options),
  };
}

function towerShape(config: ConfigReader, vision: ConfigReader, textSize: number): TowerShape {
  const siglip = readSiglip(vision);
  const side = patchesASide(siglip);
  const shuffle = config.integer("scale_factor", { min: 1, max: side, fallback: 2 });
  if (side % shuffle !== 0) {
    throw config.error("scale_factor", `${side} patches of a side are not made of squares of it`);
  }
  const shape = { ...siglip, shuffle, textSize };
  const tokens = config.integer("image_seq_len", { fallback: imageTokens(shape) });
  if (tokens !== imageTokens(shape)) {
    throw config.error("image_seq_len", `a tile is ${imageTokens(shape)} rows, not ${tokens}`);
  }
  return shape;
}

function createModel(
  definition: ModelDefinition,
  shape: TowerShape,
  options: CreateOptions,
): Model {
  const { formats } = options;
  const text = definition.create({ ...options, formats: formats.renamed(storedName) });
  const tower = new VisionTower({ ...options, communicator: ONE_RANK }, shape);
  return {
    specs: [
      ...text.specs.map((spec) => ({ ...spec, name: storedName(spec.name) })),
      ...tower.specs,
    ],
    weightFormats: formats.used,
    numericClasses: text.numericClasses,
    findsBest: text.findsBest,
    unshared: text.unshared,
    ignores: (name) => name.startsWith(TEXT) && text.ignores(DECODER + name.slice(TEXT.length)),
    compile: (plan, tensors) => text.compile(plan, tensors),
    asDraft: () => text.asDraft(),
    vision: tower,
  };
}

/** Of a tensor, or a module, of the decoder. */
function storedName(name: string): string {
  return name.startsWith(DECODER) ? TEXT + name.slice(DECODER.length) : name;
}
