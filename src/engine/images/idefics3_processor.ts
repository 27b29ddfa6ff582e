/**
 * How Idefics3 and SmolVLM prepare images: tiles, and behind them the whole picture as one more.
 *
 * @module
 */
import { CheckpointError } from "../../errors.ts";
import { imageMarks, imageText } from "../../images/image_text.ts";
import { type TilingConfig, tileCount, tileGrid } from "../../images/image_tiles.ts";
import type { PixelScale } from "../../images/patches.ts";
import type { ImageSize } from "../../images/pixels.ts";
import type { VisionFacts } from "../../models/model.ts";
import type {
  ImageProcessor,
  PreparedImage,
  PrepareOptions,
  ProcessorFiles,
} from "./prepared_image.ts";
import { LANCZOS, readPreprocessor, scaleKey } from "./processor_config.ts";

type Facts = Extract<VisionFacts, { kind: "idefics3" }>;

/** Tiles of a side at most: the pixels of all of them are there at once. */
const MAX_TILES_A_SIDE = 8;

/** @throws {CheckpointError | UnsupportedError} naming the field, or the token that is missing. */
export function idefics3Processor(
  { config, vocabulary }: ProcessorFiles,
  facts: Facts,
): ImageProcessor {
  const { tileSide, tileTokens, placeholder } = facts;
  const type = "Idefics3ImageProcessor";
  const scale = readPreprocessor(config, { type, resample: LANCZOS });
  // Images of a batch are padded to one size, and here they are apart.
  config.skip("do_pad");
  const edge = (field: string, max: number) => {
    const section = config.section(field);
    return section.integer("longest_edge", { min: 1, max });
  };
  const longestEdge = edge("size", MAX_TILES_A_SIDE * tileSide);
  const side = edge("max_image_size", tileSide);
  if (side !== tileSide) {
    throw config.error("max_image_size", `the vision tower sees ${tileSide} pixels, not ${side}`);
  }
  const splits = config.boolean("do_image_splitting", { fallback: true });
  config.finish();
  const most = Math.ceil(longestEdge / tileSide);
  for (const mark of imageMarks({ rows: most, columns: most })) {
    if (vocabulary.id(mark) !== undefined) continue;
    throw new CheckpointError("tokenizer.json", `it has no token ${mark}`);
  }
  const placeholderText = vocabulary.text(placeholder);
  const tiling = { longestEdge, tileSide, splits };
  return {
    placeholder,
    placeholderText,
    fewestTokens: tileTokens,
    beginsChats: false,
    prepare: (size, options) =>
      prepare(size, options, { tiling, scale, placeholder: placeholderText, facts }),
  };
}

function prepare(
  size: ImageSize,
  { detail }: PrepareOptions,
  given: {
    readonly tiling: TilingConfig;
    readonly scale: PixelScale;
    readonly placeholder: string;
    readonly facts: Facts;
  },
): PreparedImage {
  const { scale, placeholder } = given;
  const { tileTokens, patchSide } = given.facts;
  const splits = given.tiling.splits && detail !== "low";
  const tiling = { ...given.tiling, splits };
  const grid = tileGrid(size, tiling);
  return {
    key: `${splits ? "tiles" : "whole"} ${scaleKey(scale)}`,
    text: imageText(grid, { placeholder, tileTokens }),
    tokens: tileCount(grid) * tileTokens,
    recipe: { view: { kind: "tiles", tiling }, scale, layout: { patchSide } },
    join: (tiles) => tiles.flat(),
  };
}
