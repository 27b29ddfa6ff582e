/**
 * Finds how a model's images are prepared, as the files of its processor say.
 *
 * @module
 */
import { ConfigReader } from "../../checkpoint/config.ts";
import { readJson } from "../../checkpoint/json_file.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import type { VisionFacts } from "../../models/model.ts";
import type { Tokenizer } from "../../text/tokenizer.ts";
import { deepseekProcessor } from "./deepseek_processor.ts";
import { idefics3Processor } from "./idefics3_processor.ts";
import { llavaProcessor } from "./llava_processor.ts";
import type { ImageProcessor } from "./prepared_image.ts";
import { qwenProcessor } from "./qwen_processor.ts";

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
  const isWhole = vision.kind === "deepseek_vl2";
  const file = isWhole ? "processor_config.json" : "preprocessor_config.json";
  const config = new ConfigReader(await readJson(source, file), { file });
  const files = { config, vocabulary };
  switch (vision.kind) {
    case "idefics3":
      return idefics3Processor(files, vision);
    case "llava":
      return llavaProcessor(files, vision);
    case "qwen2_5_vl":
      return qwenProcessor(files, vision);
    case "deepseek_vl2":
      return deepseekProcessor(files, vision);
    default:
      return vision satisfies never;
  }
}
