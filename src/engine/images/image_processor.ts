/**
 * How a model's images are prepared, as its preprocessor_config.json says.
 *
 * @module
 */
import { ConfigReader } from "../../checkpoint/config.ts";
import { readJson } from "../../checkpoint/json_file.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { CheckpointError } from "../../errors.ts";
import { imageMarks } from "../../images/image_text.ts";
import type { TilingConfig } from "../../images/image_tiles.ts";
import type { PixelScale } from "../../images/patches.ts";
import type { VisionFacts } from "../../models/model.ts";
import type { Tokenizer } from "../../text/tokenizer.ts";

export interface ImageProcessor {
  readonly tiling: TilingConfig;
  readonly scale: PixelScale;
  /** Rows that a tile becomes. */
  readonly tileTokens: number;
  /** The token in whose place each of them stands, and how a prompt spells it. */
  readonly placeholder: number;
  readonly placeholderText: string;
}

const FILE = "preprocessor_config.json";
const LANCZOS = 1;
const CHANNELS = 3;
/** Tiles of a side at most: the pixels of all of them are there at once. */
const MAX_TILES_A_SIDE = 8;

/**
 * @returns Undefined where the model reads no images.
 * @throws {CheckpointError | UnsupportedError} naming the field, or the token that is missing.
 */
export async function loadImageProcessor(
  source: WeightSource,
  { vision }: { readonly vision?: VisionFacts | undefined },
  { vocabulary }: Pick<Tokenizer, "vocabulary">,
): Promise<ImageProcessor | undefined> {
  if (vision === undefined) return undefined;
  const { tileSide, tileTokens, placeholder } = vision;
  const config = new ConfigReader(await readJson(source, FILE), { file: FILE });
  config.only("image_processor_type", ["Idefics3ImageProcessor"]);
  for (const step of ["do_convert_rgb", "do_resize", "do_rescale", "do_normalize"]) {
    config.only(step, [true]);
  }
  config.only("resample", [LANCZOS]);
  // Images of a batch are padded to one size, and here they are apart.
  config.skip("do_pad", "processor_class");
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
  const scale = {
    rescale: config.number("rescale_factor", { min: 0, fallback: 1 / 255 }),
    mean: channels(config, "image_mean"),
    deviation: channels(config, "image_std"),
  };
  if (scale.deviation.includes(0)) throw config.error("image_std", "it must not be 0");
  config.finish();
  const most = Math.ceil(longestEdge / tileSide);
  for (const mark of imageMarks({ rows: most, columns: most })) {
    if (vocabulary.id(mark) !== undefined) continue;
    throw new CheckpointError("tokenizer.json", `it has no token ${mark}`);
  }
  const placeholderText = vocabulary.text(placeholder);
  const tiling = { longestEdge, tileSide, splits };
  return { tiling, scale, tileTokens, placeholder, placeholderText };
}

function channels(config: ConfigReader, field: string): readonly number[] {
  const values = config.numbers(field);
  if (values.length === CHANNELS) return values;
  throw config.error(field, `it must have ${CHANNELS} numbers, not ${values.length}`);
}
