/**
 * The prompts of the golden data about images, as requests.
 *
 * @module
 */
import type { ChatMessage, GenerationRequest } from "../../../src/generation.ts";
import { sharedJson } from "../../text/shared_data.ts";
import { picture, type VisionModel } from "../engines/vision_engine.ts";

export interface VisionCase {
  readonly name: string;
  readonly messages: readonly {
    readonly role: string;
    readonly content: string | readonly ({ type: "text"; text: string } | { type: "image_url" })[];
  }[];
  readonly images: readonly string[];
  readonly prompt: string;
  readonly input_ids: readonly number[];
  readonly image_token_id: number;
  readonly input_logprobs: readonly (number | null)[];
  readonly greedy: { readonly ids: readonly number[]; readonly margin: readonly number[] };
}

/** Those with keys and values in f32 that an engine without options of its own answers alike. */
export function visionCases(model: VisionModel): readonly VisionCase[] {
  // Alpha is dropped, and a processor is as its files have it.
  return allCases(model).filter(({ name }) => name !== "rgba_white" && name !== "max_pixels");
}

/** That of a picture that lies on white. */
export const whiteCase = (model: VisionModel): VisionCase =>
  allCases(model).find(({ name }) => name === "rgba_white")!;

const allCases = (model: VisionModel) =>
  sharedJson<{ cases: readonly VisionCase[] }>(`vision/golden/${model}.w.f32kv.json`).cases;

export function visionRequest({ name, messages, images }: VisionCase): GenerationRequest {
  return {
    messages: messages.map(({ role, content }) => ({
      role,
      content: partsOf(content, name === "nosplit"),
    })),
    images: images.map(picture),
    sampling: { temperature: 0, maxNewTokens: 16, ignoreEos: true },
    logprobs: { promptStart: 0 },
  };
}

function partsOf(
  content: VisionCase["messages"][number]["content"],
  isWhole: boolean,
): ChatMessage["content"] {
  if (typeof content === "string") return content;
  return content.map((part) => {
    if (part.type === "text") return part;
    return isWhole ? { type: "image", detail: "low" } : { type: "image" };
  });
}
