/**
 * Rows of images that were seen lately, by what their files hold.
 *
 * @module
 */
import type { ImageSource } from "../../images/decode_image.ts";
import type { TowerPicture } from "../../images/patches.ts";

/** Rows of one image. */
export type ImageRows = readonly Float32Array[];

/** An image whose rows are there. */
export interface ImageFeatures {
  /** What the tower was shown of it, by a hash: the same wherever the same model is. */
  readonly name: string;
  readonly rows: ImageRows;
}

export class FeatureCache {
  readonly #maxBytes: number;
  /** The one that was used longest ago comes first. */
  readonly #images = new Map<string, ImageFeatures>();
  #bytes = 0;

  /** @param maxBytes Of all rows together. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** An image, which counts as used now. */
  find(key: string): ImageFeatures | undefined {
    const image = this.#images.get(key);
    if (image === undefined) return undefined;
    this.#images.delete(key);
    this.#images.set(key, image);
    return image;
  }

  /** Keeps an image that it has not, and forgets others where there are too many. */
  add(key: string, image: ImageFeatures): void {
    if (bytesOf(image) > this.#maxBytes) return;
    this.#images.set(key, image);
    this.#bytes += bytesOf(image);
    for (const [oldest, old] of this.#images) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#images.delete(oldest);
      this.#bytes -= bytesOf(old);
    }
  }
}

export const bytesOf = ({ rows }: ImageFeatures): number =>
  rows.reduce((sum, row) => sum + row.byteLength, 0);

/** SHA-256 of a file's bytes, or of pixels with their size, in hexadecimal digits; what it is of is in front. */
export async function hashOfImage(image: ImageSource): Promise<string> {
  const isFile = image instanceof Uint8Array;
  const what = isFile ? "file" : `${image.width} x ${image.height} pixels`;
  return `${what} ${await hashOfBytes(isFile ? image : image.rgba)}`;
}

/** A name of what the tower is shown, the same wherever the same model is. */
export async function nameOfPicture({ patches, grid }: TowerPicture): Promise<string> {
  const bytes = new Uint8Array(patches.buffer, patches.byteOffset, patches.byteLength);
  return `${grid.rows} x ${grid.columns} ${await hashOfBytes(bytes)}`;
}

/** The name of an image by those of its pictures; `key` says what is made of them. */
export function nameOfImage(key: string, pictures: readonly string[]): Promise<string> {
  return hashOfBytes(new TextEncoder().encode([key, ...pictures].join()));
}

/** SHA-256 in hexadecimal digits. */
async function hashOfBytes(bytes: Uint8Array | Uint8ClampedArray): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
