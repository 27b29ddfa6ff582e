/**
 * The real engine on small checkpoints that read images, and pictures for them: files beside the
 * project, so tests of them skip where those are absent.
 *
 * @module
 */
import { join } from "node:path";
import { Engine } from "../../../src/engine/engine.ts";
import { loadImageProcessor } from "../../../src/engine/images/image_processor.ts";
import type { ImageProcessor } from "../../../src/engine/images/prepared_image.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { loadText } from "../../../src/engine/load/text_model.ts";
import type { GenerationEngine, GenerationRequest } from "../../../src/generation.ts";
import { openImage } from "../../../src/images/decode_image.ts";
import type { Pixels } from "../../../src/images/pixels.ts";
import type { PromptLogprobs } from "../../../src/logprobs.ts";
import type { ModelDefinition } from "../../../src/models/model.ts";
import { sharedBytes } from "../../text/shared_data.ts";
import { folderSource, SHARED_MODELS } from "../checkpoints/folder_source.ts";
import { device } from "../devices/gpu.ts";

export const VISION_MODELS = [
  "mini-smolvlm",
  "mini-llava",
  "mini-qwen2.5-vl",
  "mini-deepseek-vl2",
] as const;
export type VisionModel = (typeof VISION_MODELS)[number];

/** The folder of a model. */
export const visionFolder = (model: VisionModel): string =>
  join(SHARED_MODELS!, "../vision/models", model);

/** The first of them; undefined where they are absent. */
export const VISION_MODEL: string | undefined = SHARED_MODELS && visionFolder("mini-smolvlm");

export function openVisionEngine(
  options: Partial<LoadOptions> = {},
  model: VisionModel = "mini-smolvlm",
): Promise<Engine> {
  const given = { device, maxTotalTokens: 2048, triesInvariance: false, ...options };
  return Engine.load(folderSource(visionFolder(model)), given);
}

/** How a model's images are prepared. */
export async function visionProcessor(
  model: VisionModel,
  definition: Pick<ModelDefinition, "vision">,
): Promise<ImageProcessor> {
  const source = folderSource(visionFolder(model));
  const { tokenizer } = await loadText(source);
  return (await loadImageProcessor(source, definition, tokenizer))!;
}

/** The PNG file of a picture. */
export function picture(name: string): Uint8Array<ArrayBuffer> {
  const decoded = `images/decoded/${name.replace(".", "_")}.png`;
  return sharedBytes(`vision/${name.endsWith(".png") ? `images/${name}` : decoded}`);
}

/** The pixels of a file beside the pictures. */
export function pixelsIn(path: string): Promise<Pixels> {
  return openImage(sharedBytes(`vision/${path}`)).decode();
}

export interface VisionAnswer {
  readonly prompt: readonly PromptLogprobs[];
  readonly tokens: readonly number[];
  /** Of each of them. */
  readonly logprobs: readonly (number | null)[];
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/** The whole answer to one request. */
export async function see(
  engine: Pick<GenerationEngine, "generate">,
  request: GenerationRequest,
): Promise<VisionAnswer> {
  const prompt: PromptLogprobs[] = [];
  const tokens: number[] = [];
  const logprobs: (number | null)[] = [];
  let [promptTokens, cachedTokens] = [0, 0];
  for await (const chunk of engine.generate(request)) {
    prompt.push(...(chunk.promptLogprobs ?? []));
    logprobs.push(...(chunk.logprobs ?? []).map(({ logprob }) => logprob));
    tokens.push(...chunk.tokens);
    ({ promptTokens, cachedTokens } = chunk);
  }
  return { prompt, tokens, logprobs, promptTokens, cachedTokens };
}
