/**
 * Qwen2.5-VL: a Qwen2.5 decoder that reads pictures of any size. Their rows stand at a row and a column
 * of a position.
 *
 * Source: Bai et al., "Qwen2.5-VL Technical Report" (2025).
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import type { Quantization } from "../../checkpoint/quantization.ts";
import type { DefinedRanks } from "../../layers/ranks/ranked_model.ts";
import type { MatrixFormats } from "../../layers/weights/matrix_format.ts";
import { qwenSlides } from "../config/qwen_window.ts";
import { MAX_LAYERS } from "../config/size_limits.ts";
import { gqaArchitecture } from "../gqa_decoder.ts";
import type { ModelArchitecture, ModelDefinition } from "../model.ts";
import { QwenTower, type QwenVisionShape } from "./qwen_tower.ts";
import { createSeeing, ranksOfText, type Spellings, spellingOf } from "./seeing_model.ts";
import { MAX_WIDTH, requireHeads } from "./vision_shape.ts";

const ARCHITECTURE = "Qwen2_5_VLForConditionalGeneration";

/** As the transformers library has written them, first and since. */
const OLD = { text: [] satisfies Spellings as Spellings, tower: "visual" };
const NEW = {
  text: [["model.language_model.", "model."]] satisfies Spellings as Spellings,
  tower: "model.visual",
};

const textSpelling = (formats: MatrixFormats) => spellingOf(formats, [OLD, NEW]).text;

/** Patches of a picture at most: what its queries, keys and values take is then within one binding. */
const MAX_PATCHES = 8192;
const MAX_SIDE = 4096;
const NORM_EPS = 1e-6;
/** Elements of a head that turn together: a row's and a column's pairs. */
const QUARTERS = 4;

export const qwen25Vl: ModelArchitecture = { names: [ARCHITECTURE], define };

function define(
  config: ConfigReader,
  quantization: Quantization,
  ranks?: DefinedRanks,
): ModelDefinition {
  const isNew = config.has("text_config");
  const tiedEmbeddings = config.boolean("tie_word_embeddings", { fallback: false });
  const vision = config.modelSection("vision_config");
  const placeholder = config.integer("image_token_id", { min: 0 });
  // Ordinary tokens, and those of films, which are no part of this.
  config.skip("vision_start_token_id", "vision_end_token_id", "vision_token_id", "video_token_id");
  const text = isNew ? config.modelSection("text_config") : config;
  // The newer files repeat them in both places.
  text.skip("vision_start_token_id", "vision_end_token_id", "vision_token_id");
  text.skip("image_token_id", "video_token_id");
  // Before the decoder's fields, which older files have beside this section: behind them nothing is left.
  const tower = readTower(vision);
  const decoder = gqaArchitecture({
    architecture: ARCHITECTURE,
    projectionBias: true,
    defaults: { slidingWindow: 4096, ropeTheta: 1e6, tiedEmbeddings },
    slides: qwenSlides,
    ropeParts: true,
  });
  const definition = decoder.define(text, quantization, ranksOfText(ranks, textSpelling));
  const { hiddenSize: textSize, vocabularySize } = definition.shape;
  if (placeholder >= vocabularySize) {
    throw config.error("image_token_id", `the vocabulary has ${vocabularySize} tokens`);
  }
  if (tower.textSize !== undefined && tower.textSize !== textSize) {
    const problem = `the text model reads ${textSize} numbers, not ${tower.textSize}`;
    throw vision.error("out_hidden_size", problem);
  }
  const shape: QwenVisionShape = { ...tower, textSize };
  config.finish();
  const { patchSide, merge, window, maxPatches } = shape;
  return {
    ...definition,
    vision: { kind: "qwen2_5_vl", placeholder, patchSide, merge, window, maxPatches },
    create(options) {
      const { text: spellings, tower: name } = spellingOf(options.formats, [OLD, NEW]);
      return createSeeing(
        {
          definition,
          spellings,
          ranks,
          createTower: (context) => new QwenTower(context, shape, name),
        },
        options,
      );
    },
  };
}

/** @returns `textSize`: as the section has it, if it does. */
function readTower(config: ConfigReader) {
  const size = (field: string, fallback: number, max = MAX_WIDTH) =>
    config.integer(field, { min: 1, max, fallback });
  config.only("hidden_act", ["silu"]);
  for (const field of ["in_chans", "in_channels"]) config.only(field, [3]);
  const patchSide = size("patch_size", 14, MAX_SIDE);
  const merge = size("spatial_merge_size", 2, 16);
  const windowPixels = size("window_size", 112, MAX_SIDE);
  const window = Math.floor(windowPixels / merge / patchSide);
  if (window < 1) throw config.error("window_size", "it holds no patches that become a row");
  const layers = size("depth", 32, MAX_LAYERS);
  const whole = config.integers("fullatt_block_indexes", { fallback: [7, 15, 23, 31] });
  if (whole.some((index) => index < 0 || index >= layers)) {
    throw config.error("fullatt_block_indexes", `there are ${layers} layers`);
  }
  const shape = {
    hiddenSize: size("hidden_size", 3584),
    intermediate: size("intermediate_size", 3420),
    layers,
    heads: size("num_heads", 16),
    normEps: NORM_EPS,
    activation: "tanh" as const,
    patchSide,
    merge,
    window,
    frames: size("temporal_patch_size", 2, 16),
    wholeLayers: new Set(whole),
    textSize: config.integer("out_hidden_size", { min: 1, fallback: undefined }),
    maxPatches: Math.floor(MAX_PATCHES / merge ** 2) * merge ** 2,
  };
  requireHeads(config, "num_heads", shape);
  if ((shape.hiddenSize / shape.heads) % QUARTERS !== 0) {
    throw config.error("num_heads", "a quarter of a head must turn by rows");
  }
  // What patch_size says too, and the speed of films.
  config.skip("spatial_patch_size", "tokens_per_second");
  return shape;
}
