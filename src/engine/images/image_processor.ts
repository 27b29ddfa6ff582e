/**
 * Finds how a model's images are prepared, as the files of its processor say.
 *
 * @module
 */
import type { WeightSource } from "../../checkpoint/source.ts";
import type { VisionFacts } from "../../models/model.ts";
import type { Tokenizer } from "../../text/tokenizer.ts";
import { loadDeepseekProcessor } from "./deepseek_processor.ts";
import { loadIdefics3Processor } from "./idefics3_processor.ts";
import { loadLlavaProcessor } from "./llava_processor.ts";
import type { ImageProcessor } from "./prepared_image.ts";
import { loadQwenProcessor } from "./qwen_processor.ts";

/**
 * @returns Undefined where the model reads no images.
 * @throws {CheckpointError | UnsupportedError} naming the field, or the token that is missing.
 */
export async function loadImageProcessor(
  source: WeightSource,
  { vision }: { readonly vision?: VisionFacts | undefined },
  { vocabulary }: Pick<Tokenizer, "vocabulary">,
): Promise<ImageProcessor | undefined> {
  const files = { source, vocabulary };
  switch (vision?.kind) {
    case undefined:
      return undefined;
    case "idefics3":
      return loadIdefics3Processor(files, vision);
    case "llava":
      return loadLlavaProcessor(files, vision);
    case "qwen2_5_vl":
      return loadQwenProcessor(files, vision);
    case "deepseek_vl2":
      return loadDeepseekProcessor(files, vision);
    default:
      return vision satisfies never;
  }
}
