/**
 * LLaVA-1.5: a Llama decoder that reads pictures by a CLIP tower.
 *
 * Source: Liu et al., "Improved Baselines with Visual Instruction Tuning" (2023).
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import type { Quantization } from "../../checkpoint/quantization.ts";
import type { DefinedRanks } from "../../layers/ranks/ranked_model.ts";
import type { MatrixFormats } from "../../layers/weights/matrix_format.ts";
import { readEither } from "../config/either_field.ts";
import { gqaArchitecture } from "../gqa_decoder.ts";
import type { ModelArchitecture, ModelDefinition } from "../model.ts";
import { type ClipNames, type ClipShape, ClipTower, clipRows } from "./clip_tower.ts";
import {
  createSeeing,
  ranksOfText,
  requireRepeated,
  type Spellings,
  spellingOf,
} from "./seeing_model.ts";
import { CLIP, readSquareShape } from "./vision_shape.ts";

const ARCHITECTURE = "LlavaForConditionalGeneration";

/** As the transformers library has written them, first and since. */
const OLD = {
  text: [
    ["language_model.model.", "model."],
    ["language_model.lm_head", "lm_head"],
  ] satisfies Spellings,
  vision: { tower: "vision_tower", projector: "multi_modal_projector" } satisfies ClipNames,
};
const NEW = {
  text: [["model.language_model.", "model."]] satisfies Spellings,
  vision: {
    tower: "model.vision_tower",
    projector: "model.multi_modal_projector",
  } satisfies ClipNames,
};

const textSpelling = (formats: MatrixFormats) => spellingOf(formats, [OLD, NEW]).text;

/** What a Llama's config leaves out: the sizes of its first one of 7 billion parameters. */
const LLAMA = {
  hidden_size: 4096,
  intermediate_size: 11008,
  num_hidden_layers: 32,
  num_attention_heads: 32,
  max_position_embeddings: 2048,
  vocab_size: 32000,
};

export const llava: ModelArchitecture = { names: [ARCHITECTURE], define };

function define(
  config: ConfigReader,
  quantization: Quantization,
  ranks?: DefinedRanks,
): ModelDefinition {
  const tiedEmbeddings = config.boolean("tie_word_embeddings", { fallback: false });
  const text = config.modelSection("text_config", LLAMA);
  const vision = config.modelSection("vision_config");
  text.only("model_type", ["llama"]);
  vision.only("model_type", ["clip_vision_model"]);
  const decoder = gqaArchitecture({ architecture: ARCHITECTURE, defaults: { tiedEmbeddings } });
  const definition = decoder.define(text, quantization, ranksOfText(ranks, textSpelling));
  const { hiddenSize: textSize, vocabularySize } = definition.shape;
  const { shape, layers } = towerShape(config, vision, textSize);
  const placeholder = readEither(config, ["image_token_index", "image_token_id"], {
    min: 0,
    max: vocabularySize - 1,
  });
  config.only("projector_hidden_act", ["gelu"]);
  config.only("multimodal_projector_bias", [true]);
  requireRepeated(config, "image_seq_length", { value: clipRows(shape), what: "a picture" });
  // Of training and of text; of CLIP's other half.
  config.skip("ignore_index", "vocab_size");
  vision.skip("projection_dim", "vocab_size", "attention_dropout", "initializer_factor");
  config.finish();
  const { imageSide: side } = shape;
  const facts = { side, patchSide: shape.patchSide, tokens: clipRows(shape), placeholder };
  return {
    ...definition,
    vision: { kind: "llava", ...facts },
    create(options) {
      const { text: spellings, vision: names } = spellingOf(options.formats, [OLD, NEW]);
      const unread = unreadTensors(`${names.tower}.vision_model.`, shape.layers, layers);
      const ignores = (name: string) => unread.some((one) => name.startsWith(one));
      const createTower: Parameters<typeof createSeeing>[0]["createTower"] = (context) =>
        new ClipTower(context, shape, names);
      return createSeeing({ definition, spellings, ranks, ignores, createTower }, options);
    },
  };
}

/** What only layers behind the one that is read need. */
function unreadTensors(tower: string, read: number, layers: number): readonly string[] {
  const behind = Array.from({ length: layers - read }, (_, i) => `encoder.layers.${read + i}.`);
  return ["post_layernorm.", "embeddings.position_ids", ...behind].map((name) => tower + name);
}

/** @returns The tower up to the layer that is read, and how many layers the checkpoint has. */
function towerShape(config: ConfigReader, vision: ConfigReader, textSize: number) {
  const clip = readSquareShape(vision, CLIP);
  const { layers } = clip;
  // Of what is in front of each layer, and behind the last one.
  const given = config.integer("vision_feature_layer", {
    min: -layers,
    max: layers,
    fallback: -2,
  });
  const read = given < 0 ? layers + 1 + given : given;
  if (read === 0) throw config.error("vision_feature_layer", "no layer is in front of it");
  const strategy = config.only("vision_feature_select_strategy", ["default", "full"]);
  const shape: ClipShape = { ...clip, layers: read, keepsClass: strategy === "full", textSize };
  return { shape, layers };
}
