/**
 * Decodes JPEG, WebP and GIF by what the browser has.
 *
 * A canvas has multiplied colours by alpha, so that those that a WebP hides are lost. A GIF's pixels are
 * there or they are not.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import type { CodedImage, DecodedImage } from "../images/coded_image.ts";

/** As much of WebCodecs as is called. */
interface Frame {
  readonly displayWidth: number;
  readonly displayHeight: number;
  readonly codedWidth: number;
  readonly codedHeight: number;
  readonly rotation?: number;
  allocationSize(options: { readonly format: "RGBA" }): number;
  copyTo(into: Uint8Array, options: { readonly format: "RGBA" }): Promise<unknown>;
  close(): void;
}

interface Decoder {
  decode(options: { readonly frameIndex: number }): Promise<{ readonly image: Frame }>;
  close(): void;
}

type DecoderClass = new (options: {
  readonly data: Uint8Array;
  readonly type: string;
  readonly colorSpaceConversion: "none";
}) => Decoder;

const TYPES = { JPEG: "image/jpeg", GIF: "image/gif", WebP: "image/webp" } as const;

/** For `decodeImage` of the engine's options. */
export async function browserDecoder(image: CodedImage): Promise<DecodedImage> {
  const { ImageDecoder } = globalThis as { readonly ImageDecoder?: DecoderClass };
  try {
    // JPEGs have no alpha, and a canvas turns them upright; of a WebP a decoder's frame has other colours
    // than the file.
    if (image.kind !== "GIF" || ImageDecoder === undefined) return await byCanvas(image);
    return await byDecoder(image, ImageDecoder);
  } catch (cause) {
    const problem = `the browser cannot decode the ${image.kind} (${(cause as Error).message})`;
    throw new InvalidRequestError(`Cannot read the image: ${problem}`, undefined, { cause });
  }
}

async function byDecoder(image: CodedImage, ImageDecoder: DecoderClass): Promise<DecodedImage> {
  const type = TYPES[image.kind];
  const decoder = new ImageDecoder({ data: image.bytes, type, colorSpaceConversion: "none" });
  try {
    const { image: frame } = await decoder.decode({ frameIndex: 0 });
    try {
      const { codedWidth: width, codedHeight: height } = frame;
      // What lies on its side, a canvas turns.
      if (width !== image.width || (frame.rotation ?? 0) !== 0) return await byCanvas(image);
      const rgba = new Uint8Array(frame.allocationSize({ format: "RGBA" }));
      await frame.copyTo(rgba, { format: "RGBA" });
      return { width, height, rgba };
    } finally {
      frame.close();
    }
  } finally {
    decoder.close();
  }
}

async function byCanvas({ bytes, kind }: CodedImage): Promise<DecodedImage> {
  const blob = new Blob([bytes as Uint8Array<ArrayBuffer>], { type: TYPES[kind] });
  const options = { colorSpaceConversion: "none", premultiplyAlpha: "none" } as const;
  const bitmap = await createImageBitmap(blob, options);
  const { width, height } = bitmap;
  try {
    const canvas = new OffscreenCanvas(width, height);
    // A canvas that is new has no other context, and so it has this one.
    const context = canvas.getContext("2d", { willReadFrequently: true })!;
    context.drawImage(bitmap, 0, 0);
    return { width, height, rgba: context.getImageData(0, 0, width, height).data };
  } finally {
    bitmap.close();
  }
}
