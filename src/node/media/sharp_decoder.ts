/**
 * Decodes JPEG, WebP and GIF by the package sharp, where it is installed beside this one: it brings
 * libvips, whose license is not this package's, and so is not installed with it.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { CodedImage, DecodedImage } from "../../images/coded_image.ts";
import { MAX_IMAGE_PIXELS } from "../../images/pixels.ts";

/** As much of the package as is called. */
interface SharpPipeline {
  autoOrient(): SharpPipeline;
  toColourspace(space: "srgb"): SharpPipeline;
  ensureAlpha(): SharpPipeline;
  raw(options: { readonly depth: "uchar" }): SharpPipeline;
  toBuffer(options: { readonly resolveWithObject: true }): Promise<{
    readonly data: Uint8Array;
    readonly info: { readonly width: number; readonly height: number; readonly channels: number };
  }>;
}

type Sharp = (
  bytes: Uint8Array,
  options: {
    readonly pages: number;
    readonly limitInputPixels: number;
    readonly failOn: "error";
  },
) => SharpPipeline;

/** A name that bundlers leave alone. */
const PACKAGE = "sharp";
let loaded: Promise<Sharp> | undefined;

/**
 * For `decodeImage` of the engine's options.
 *
 * @throws {UnsupportedError} as a rejection, saying what to install, where sharp is absent.
 */
export async function sharpDecoder({ bytes, kind }: CodedImage): Promise<DecodedImage> {
  loaded ??= loadSharp();
  const sharp = await loaded.catch((cause: unknown) => {
    loaded = undefined;
    const reason = `it takes the package sharp, which is not installed: npm install ${PACKAGE}`;
    throw new UnsupportedError(`images of the kind ${kind}`, reason, { field: "images", cause });
  });
  const options = { pages: 1, limitInputPixels: MAX_IMAGE_PIXELS, failOn: "error" } as const;
  try {
    const { data, info } = await sharp(bytes, options)
      .autoOrient()
      .toColourspace("srgb")
      .ensureAlpha()
      .raw({ depth: "uchar" })
      .toBuffer({ resolveWithObject: true });
    return { width: info.width, height: info.height, rgba: data };
  } catch (cause) {
    const problem = (cause as Error).message.split("\n", 1)[0]!;
    const message = `Cannot read the image: sharp cannot decode the ${kind} (${problem})`;
    throw new InvalidRequestError(message, undefined, { cause });
  }
}

async function loadSharp(): Promise<Sharp> {
  const name: string = PACKAGE;
  const { default: sharp } = (await import(name)) as { readonly default: Sharp };
  return sharp;
}
