/**
 * What a program gives as an image, as a data URL.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../errors.ts";
import { pngFile } from "./png_file.ts";
import { toBase64 } from "./to_base64.ts";

/**
 * @param path Of the image, for messages.
 * @throws {InvalidRequestError | UnsupportedError} as a rejection, naming `path`.
 */
export async function dataUrlOf(image: unknown, path: string): Promise<string> {
  // What kind it is, the bytes say.
  return `data:image/png;base64,${toBase64(await fileOf(image, path))}`;
}

async function fileOf(image: unknown, path: string): Promise<Uint8Array> {
  if (image instanceof Uint8Array) return image;
  if (image instanceof Blob) return new Uint8Array(await image.arrayBuffer());
  const { width, height, data } = (image ?? {}) as Partial<ImageLike>;
  if (data instanceof Uint8ClampedArray && data.length === width! * height! * 4) {
    return pngFile({ width: width!, height: height!, rgba: data });
  }
  if (Object.prototype.toString.call(image) === "[object ImageBitmap]") {
    const reason = "a chat takes no drawings; give its file, its pixels, or images of generate()";
    throw new UnsupportedError(`${path}, an ImageBitmap`, reason, { field: path });
  }
  const known = "a URL, a Uint8Array, a Blob or an ImageData";
  throw new InvalidRequestError(`Cannot read ${path}: it is not ${known}`, path);
}

interface ImageLike {
  readonly width: number;
  readonly height: number;
  readonly data: unknown;
}
