/**
 * Models of the exactness matrix that read images, and requests with images for them: their files are
 * beside the project.
 *
 * @module
 */
import type { Engine } from "../../../src/engine/engine.ts";
import { openImage } from "../../../src/images/decode_image.ts";
import { folderSource } from "../checkpoints/folder_source.ts";
import {
  openVisionEngine,
  picture,
  type VisionModel,
  visionFolder,
} from "../engines/vision_engine.ts";
import { writePng } from "../images/write_png.ts";
import { type ExactModel, LONGEST, type Probe, SHORT, TOKENS } from "./models.ts";

/** How a prompt spells the place of an image, and pictures that become few rows. */
const FAMILIES: Readonly<
  Record<VisionModel, { readonly place: string; readonly small: string; readonly large: string }>
> = {
  "mini-smolvlm": { place: "<image>", small: "wide.webp", large: "photo.png" },
  "mini-llava": { place: "<image>", small: "photo.png", large: "tall.png" },
  "mini-qwen2.5-vl": {
    place: "<|vision_start|><|image_pad|><|vision_end|>",
    small: "tiny.png",
    large: "photo.png",
  },
  "mini-deepseek-vl2": { place: "<image>", small: "tiny.png", large: "rgba.png" },
};

/** A picture of the same size whose colours are the opposite ones. */
export async function negativeOf(name: string): Promise<Uint8Array<ArrayBuffer>> {
  const { width, height, rgb } = await openImage(picture(name)).decode();
  const sample = (x: number, y: number, c: number) => 255 - rgb[(y * width + x) * 3 + c]!;
  return writePng({ colorType: 2, bitDepth: 8, width, height, sample });
}

const WORDS = "what is in these pictures, and where? ";

/** A prompt of images and text that is as many tokens long: each character is one. */
async function promptOf(
  engine: Engine,
  place: string,
  images: readonly Uint8Array[],
  length: number,
) {
  const bare = place.repeat(images.length);
  const tokens = await engine.tokenize({ prompt: bare, images });
  const left = length - tokens.length;
  if (left < 1) throw new Error(`${tokens.length} tokens of images leave none of ${length}`);
  const text = WORDS.repeat(Math.ceil(left / WORDS.length)).slice(0, left);
  const between = Math.floor(left / 2);
  return images.length < 2
    ? { prompt: bare + text, images }
    : {
        prompt: `${place}${text.slice(0, between)}${place.repeat(images.length - 1)}${text.slice(between)}`,
        images,
      };
}

async function probesOf(model: VisionModel, engine: Engine): Promise<readonly Probe[]> {
  const { place, small, large } = FAMILIES[model];
  const plain = { ignoreEos: true, maxNewTokens: TOKENS };
  const write = (length: number, ...images: Uint8Array[]) =>
    promptOf(engine, place, images, length);
  const negative = await negativeOf(small);
  // On the slow driver the longest prompt has room for a small one.
  const second = picture(LONGEST < 200 ? small : large);
  return [
    {
      requestId: "greedy",
      ...(await write(SHORT, picture(small))),
      sampling: { ...plain, temperature: 0 },
      logprobs: { topCount: 3 },
    },
    {
      requestId: "seeded",
      ...(await write(LONGEST, second)),
      sampling: { ...plain, temperature: 1, topP: 0.95, topK: 50, seed: 5 },
      logprobs: { topCount: 1, text: true },
    },
    {
      requestId: "adjusted",
      ...(await write(SHORT - 2, negative)),
      sampling: { ...plain, temperature: 0.9, minP: 0.02, seed: 6, repetitionPenalty: 1.2 },
      logprobs: { promptStart: 5, topCount: 2, tokenIds: [7, 9] },
    },
    {
      requestId: "the same of another picture",
      ...(await write(SHORT, negative)),
      sampling: { ...plain, temperature: 0 },
      logprobs: { topCount: 3 },
    },
    {
      requestId: "two pictures",
      ...(await write(2 * SHORT, picture(small), negative)),
      sampling: { ...plain, temperature: 0 },
      logprobs: {},
    },
    { requestId: "bare", prompt: "Hello", sampling: { ...plain, temperature: 0 } },
  ];
}

/** A model of `../shared/data`, as one of the matrix. */
export function visionExactModel(model: VisionModel): ExactModel {
  return {
    name: `${model}, with images`,
    draftModel: () => folderSource(visionFolder(model)),
    open: async (options) => {
      const given = { contextLength: 2048, cacheDtype: "f32", ...options } as const;
      return (await openVisionEngine(given, model)) as never;
    },
    // Ids of bytes.
    vocabularySize: 250,
    oneForm: true,
    probes: (engine) => probesOf(model, engine),
    // Its positions have parts, which no step finds for drafts that it makes.
    noneMade: model === "mini-qwen2.5-vl",
  };
}
