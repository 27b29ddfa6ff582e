/**
 * How LLaVA-1.5 prepares images: the middle of each, in a square of one size.
 *
 * @module
 */
import { toShortestEdge } from "../../images/central_square.ts";
import type { VisionFacts } from "../../models/model.ts";
import type { ImageProcessor, ProcessorFiles } from "./prepared_image.ts";
import { BICUBIC, readPreprocessor, requireSide, scaleKey } from "./processor_config.ts";

/** Times the side of the square that the shorter side may be brought to. */
const MOST_CUT = 4;

/** @throws {CheckpointError | UnsupportedError} naming the field, or the token that is missing. */
export function llavaProcessor(
  { config, vocabulary }: ProcessorFiles,
  facts: Extract<VisionFacts, { kind: "llava" }>,
): ImageProcessor {
  const { side, patchSide, tokens, placeholder } = facts;
  const type = "CLIPImageProcessor";
  const scale = readPreprocessor(config, { type, resample: BICUBIC });
  config.only("do_center_crop", [true]);
  requireSide(config, "crop_size", { side, names: ["height", "width"] });
  const size = config.section("size");
  const shortest = size.integer("shortest_edge", { min: side, max: MOST_CUT * side });
  config.finish();
  const placeholderText = vocabulary.text(placeholder);
  const view = { kind: "square", side, shortest } as const;
  const recipe = { view, scale, layout: { patchSide } };
  return {
    placeholder,
    placeholderText,
    fewestTokens: tokens,
    beginsChats: true,
    prepare(picture) {
      // Refuses a picture that would become too long.
      toShortestEdge(picture, shortest);
      return {
        key: `square ${scaleKey(scale)}`,
        text: placeholderText.repeat(tokens),
        tokens,
        recipe,
        join: ([rows]) => rows!,
      };
    },
  };
}
