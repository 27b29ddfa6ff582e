/**
 * How DeepSeek-VL2 prepares images: the whole picture in a tile, and tiles of the size that fits it
 * best; their rows lie as the tiles do, with a mark at the end of each line.
 *
 * @module
 */
import { CheckpointError } from "../../errors.ts";
import { bestResolution } from "../../images/padded_tiles.ts";
import type { PixelScale } from "../../images/patches.ts";
import type { ImageSize } from "../../images/pixels.ts";
import type { VisionFacts } from "../../models/model.ts";
import type { ImageRows } from "./feature_cache.ts";
import type {
  ImageProcessor,
  PreparedImage,
  PrepareOptions,
  ProcessorFiles,
} from "./prepared_image.ts";
import { readScale, scaleKey } from "./processor_config.ts";

type Facts = Extract<VisionFacts, { kind: "deepseek_vl2" }>;

/** Images of a prompt from which on none is seen closer. */
const MANY_IMAGES = 3;

/** @throws {CheckpointError | UnsupportedError} naming the field, or the token that is missing. */
export function deepseekProcessor(
  { config, vocabulary }: ProcessorFiles,
  facts: Facts,
): ImageProcessor {
  config.only("processor_class", ["DeepseekVLV2Processor", "DeepseekVLChatProcessor"]);
  config.only("normalize", [true]);
  const scale = readScale(config, 1 / 255);
  const repeated = config.pairs("candidate_resolutions");
  if (JSON.stringify(repeated) !== JSON.stringify(facts.resolutions)) {
    throw config.error("candidate_resolutions", "config.json has others");
  }
  const patchSide = config.integer("patch_size", { fallback: facts.patchSide });
  if (patchSide !== facts.patchSide) {
    throw config.error("patch_size", `config.json says ${facts.patchSide}, not ${patchSide}`);
  }
  const placeholderText = config.string("image_token", { fallback: "<image>" });
  // config.json has it too; the others are of training, and of the prompt, which a template writes.
  config.skip("downsample_ratio", "add_special_token", "ignore_id", "mask_prompt", "pad_token");
  config.skip("sft_format");
  config.finish();
  const placeholder = vocabulary.id(placeholderText);
  if (placeholder === undefined) {
    throw new CheckpointError("tokenizer.json", `it has no token ${placeholderText}`);
  }
  const { rowSide } = facts;
  const setting = { facts, scale, placeholder: placeholderText };
  return {
    placeholder,
    placeholderText,
    fewestTokens: 2 * rowSide * (rowSide + 1) + 1,
    beginsChats: false,
    prepare: (size, options) => prepare(size, options, setting),
  };
}

function prepare(
  picture: ImageSize,
  { detail, count }: PrepareOptions,
  {
    facts,
    scale,
    placeholder,
  }: { readonly facts: Facts; readonly scale: PixelScale; readonly placeholder: string },
): PreparedImage {
  const { patchSide, tileSide, rowSide, resolutions } = facts;
  const isSmall = detail === "low" || count >= MANY_IMAGES;
  const size = isSmall
    ? { width: tileSide, height: tileSide }
    : bestResolution(picture, resolutions);
  const [across, down] = [size.width / tileSide, size.height / tileSide];
  const tokens = rowSide * (rowSide + 1) + 1 + down * rowSide * (across * rowSide + 1);
  return {
    key: `${across} x ${down} tiles ${scaleKey(scale)}`,
    text: placeholder.repeat(tokens),
    tokens,
    recipe: { view: { kind: "padded", tileSide, size }, scale, layout: { patchSide } },
    join: (tiles) => joinViews(tiles, { rowSide, across, down }),
  };
}

/** The whole view line by line, a mark, then the tiles as one picture line by line. */
function joinViews(
  tiles: readonly ImageRows[],
  { rowSide, across, down }: Readonly<Record<"rowSide" | "across" | "down", number>>,
): ImageRows {
  const [whole, ...local] = tiles as [ImageRows, ...ImageRows[]];
  // Behind a tile's own rows.
  const [newline, separator] = whole.slice(rowSide ** 2) as [Float32Array, Float32Array];
  const out: Float32Array[] = [];
  const line = (tile: ImageRows, y: number) => {
    for (let x = 0; x < rowSide; x++) out.push(tile[y * rowSide + x]!);
  };
  for (let y = 0; y < rowSide; y++) {
    line(whole, y);
    out.push(newline);
  }
  out.push(separator);
  for (let y = 0; y < down * rowSide; y++) {
    const first = Math.floor(y / rowSide) * across;
    for (let tile = 0; tile < across; tile++) line(local[first + tile]!, y % rowSide);
    out.push(newline);
  }
  return out;
}
