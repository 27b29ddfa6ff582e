/**
 * Decodes JPEG, WebP and GIF by what the browser has.
 *
 * A canvas in two dimensions has multiplied colours by alpha, so that those that alpha hides are lost.
 * A texture takes them as they are.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import type { ImageDrawing } from "../image_input.ts";
import type { CodedImage, DecodedImage } from "../images/coded_image.ts";

/** As much of WebCodecs as is called. */
interface Frame {
  readonly codedWidth: number;
  readonly codedHeight: number;
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
const AS_IT_IS = { colorSpaceConversion: "none", premultiplyAlpha: "none" } as const;
/** Pixels of a side of what is one texture: every WebGL 2 has twice that. */
const TEXTURE_SIDE = 1024;

/** For `decodeImage` of the engine's options. */
export async function browserDecoder(image: CodedImage): Promise<DecodedImage> {
  const { ImageDecoder } = globalThis as { readonly ImageDecoder?: DecoderClass };
  try {
    // JPEGs have no alpha, and a canvas turns them upright; of a WebP a decoder's frame has other colours
    // than the file.
    if (image.kind !== "GIF" || ImageDecoder === undefined) return await byBitmap(image);
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

async function byBitmap({ bytes, kind }: CodedImage): Promise<DecodedImage> {
  const blob = new Blob([bytes as Uint8Array<ArrayBuffer>], { type: TYPES[kind] });
  const bitmap = await createImageBitmap(blob, AS_IT_IS);
  try {
    const drawn = drawnPixels(bitmap);
    if (isOpaque(drawn.rgba)) return drawn;
    return await texturePixels(bitmap);
  } finally {
    bitmap.close();
  }
}

/** Colours of an `ImageBitmap` as a canvas has them: black where nothing of them is seen. */
export async function readDrawing(drawing: ImageDrawing): Promise<DecodedImage> {
  return drawnPixels(drawing as ImageBitmap);
}

function drawnPixels(bitmap: ImageBitmap): DecodedImage {
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height);
  // A canvas that is new has no other context, and so it has this one.
  const context = canvas.getContext("2d", { willReadFrequently: true })!;
  context.drawImage(bitmap, 0, 0);
  return { width, height, rgba: context.getImageData(0, 0, width, height).data };
}

function isOpaque(rgba: Uint8Array | Uint8ClampedArray): boolean {
  for (let at = 3; at < rgba.length; at += 4) if (rgba[at] !== 255) return false;
  return true;
}

/** Colours as the bitmap has them, piece by piece. */
async function texturePixels(bitmap: ImageBitmap): Promise<DecodedImage> {
  const { width, height } = bitmap;
  const gl = new OffscreenCanvas(1, 1).getContext("webgl2");
  if (gl === null) throw new Error("Cannot read its alpha: the browser has no WebGL 2");
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  gl.bindFramebuffer(gl.FRAMEBUFFER, gl.createFramebuffer());
  const rgba = new Uint8Array(width * height * 4);
  try {
    for (let y = 0; y < height; y += TEXTURE_SIDE) {
      for (let x = 0; x < width; x += TEXTURE_SIDE) {
        const size = [
          Math.min(width - x, TEXTURE_SIDE),
          Math.min(height - y, TEXTURE_SIDE),
        ] as const;
        const piece = await createImageBitmap(bitmap, x, y, size[0], size[1], AS_IT_IS);
        const values = readTexture(gl, piece);
        piece.close();
        for (let row = 0; row < size[1]; row++) {
          const from = values.subarray(row * size[0] * 4, (row + 1) * size[0] * 4);
          rgba.set(from, ((y + row) * width + x) * 4);
        }
      }
    }
  } finally {
    gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
  return { width, height, rgba };
}

function readTexture(gl: WebGL2RenderingContext, piece: ImageBitmap): Uint8Array {
  const { width, height } = piece;
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, piece);
  const texture = gl.getParameter(gl.TEXTURE_BINDING_2D) as WebGLTexture;
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
  const values = new Uint8Array(width * height * 4);
  gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, values);
  const problem = gl.getError();
  if (problem !== gl.NO_ERROR) throw new Error(`Cannot read a texture: WebGL says ${problem}`);
  return values;
}
