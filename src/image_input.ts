/**
 * In what forms programs and pages give images: as platforms have them, in words that need none of
 * their types.
 *
 * @module
 */

/** A file that is not read yet: a `Blob` or a `File`. */
export interface ImageBlob {
  readonly size: number;
  arrayBuffer(): Promise<ArrayBuffer>;
}

/** An `ImageData`: 8 bits a channel, in sRGB. */
export interface ImagePixels {
  readonly width: number;
  readonly height: number;
  /** `[height, width, 4]`: red, green, blue, alpha, of which the colours are not multiplied by alpha */
  readonly data: Uint8ClampedArray;
}

/** An `ImageBitmap`. */
export interface ImageDrawing {
  readonly width: number;
  readonly height: number;
  close(): void;
}

/** The bytes of a file (PNG; where it is decoded elsewhere JPEG, WebP and GIF), or a picture. */
export type ImageInput = Uint8Array | ImageBlob | ImagePixels | ImageDrawing;
