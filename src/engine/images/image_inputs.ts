/**
 * Images as programs and pages give them, to what an image service takes.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { ImageBlob, ImageDrawing, ImageInput, ImagePixels } from "../../image_input.ts";
import { MAX_IMAGE_BYTES } from "../../images/pixels.ts";
import type { ImageService, SeenImage } from "./image_service.ts";

/**
 * What is seen of each image; the bytes of blobs are read.
 *
 * @throws {InvalidRequestError | UnsupportedError} as a rejection, naming the image.
 */
export async function readInputs(
  images: readonly ImageInput[],
  { readsDrawings }: Pick<ImageService, "readsDrawings">,
): Promise<readonly SeenImage[]> {
  const seen: SeenImage[] = [];
  for (const [index, image] of images.entries()) {
    if (image instanceof Uint8Array) seen.push(image);
    else if (isBlob(image)) seen.push(await bytesOf(image, index));
    else if (isDrawing(image)) seen.push(drawingOf(image, index, readsDrawings));
    else if (isPixels(image)) seen.push(pixelsOf(image, index));
    else refuse(index, "it is no Uint8Array, Blob, ImageData or ImageBitmap");
  }
  return seen;
}

function refuse(index: number, problem: string, options?: ErrorOptions): never {
  throw new InvalidRequestError(`Cannot read images[${index}]: ${problem}`, "images", options);
}

/** What a platform calls a value, in whichever of its windows and threads it was made. */
const tagOf = (value: unknown): string => Object.prototype.toString.call(value).slice(8, -1);

const isBlob = (image: unknown): image is ImageBlob => /^(Blob|File)$/.test(tagOf(image));

const isDrawing = (image: unknown): image is ImageDrawing => tagOf(image) === "ImageBitmap";

function isPixels(image: unknown): image is ImagePixels {
  return typeof image === "object" && image !== null && "width" in image && "data" in image;
}

async function bytesOf(blob: ImageBlob, index: number): Promise<Uint8Array> {
  if (blob.size > MAX_IMAGE_BYTES) {
    refuse(index, `${blob.size} bytes are more than ${MAX_IMAGE_BYTES}`);
  }
  try {
    return new Uint8Array(await blob.arrayBuffer());
  } catch (cause) {
    return refuse(index, `its bytes cannot be read (${(cause as Error).message})`, { cause });
  }
}

function drawingOf(image: ImageDrawing, index: number, isRead: boolean): ImageDrawing {
  if (isRead) return image;
  const reason = "images are decoded where no canvas is; give its file or its pixels";
  throw new UnsupportedError(`images[${index}], an ImageBitmap`, reason, { field: "images" });
}

function pixelsOf(image: ImagePixels, index: number): SeenImage {
  const { width, height, data } = image;
  const isWhole = [width, height].every((side) => Number.isSafeInteger(side));
  if (!isWhole || !(data instanceof Uint8ClampedArray)) {
    refuse(index, "an ImageData has width, height, and data of 8 bits a channel");
  }
  const { colorSpace = "srgb" } = image as { readonly colorSpace?: unknown };
  if (colorSpace !== "srgb") refuse(index, `its colours are no sRGB, but ${colorSpace}`);
  return { width, height, rgba: data };
}
