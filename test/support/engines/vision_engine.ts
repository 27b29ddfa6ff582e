/**
 * The real engine on a small checkpoint that reads images, and pictures for it: files beside the
 * project, so tests of them skip where those are absent.
 *
 * @module
 */
import { join } from "node:path";
import { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import type { PromptLogprobs } from "../../../src/logprobs.ts";
import { sharedBytes } from "../../text/shared_data.ts";
import { folderSource, SHARED_MODELS } from "../checkpoints/folder_source.ts";
import { device } from "../devices/gpu.ts";

/** Its folder; undefined where it is absent. */
export const VISION_MODEL: string | undefined =
  SHARED_MODELS && join(SHARED_MODELS, "../vision/models/mini-smolvlm");

export function openVisionEngine(options: Partial<LoadOptions> = {}): Promise<Engine> {
  const given = { device, maxTotalTokens: 2048, triesInvariance: false, ...options };
  return Engine.load(folderSource(VISION_MODEL!), given);
}

/** The PNG file of a picture. */
export function picture(name: string): Uint8Array<ArrayBuffer> {
  const decoded = `images/decoded/${name.replace(".", "_")}.png`;
  return sharedBytes(`vision/${name.endsWith(".png") ? `images/${name}` : decoded}`);
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
export async function see(engine: Engine, request: GenerationRequest): Promise<VisionAnswer> {
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
