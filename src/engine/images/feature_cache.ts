/**
 * Rows of images that were seen lately, by what their files hold.
 *
 * @module
 */

import type { ImageSource } from "../../images/decode_image.ts";

/** Rows of one image. */
export type ImageRows = readonly Float32Array[];

export class FeatureCache {
  readonly #maxBytes: number;
  /** The one that was used longest ago comes first. */
  readonly #images = new Map<string, ImageRows>();
  #bytes = 0;

  /** @param maxBytes Of all rows together. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The rows of an image, which count as used now. */
  find(key: string): ImageRows | undefined {
    const rows = this.#images.get(key);
    if (rows === undefined) return undefined;
    this.#images.delete(key);
    this.#images.set(key, rows);
    return rows;
  }

  /** Keeps rows that it has not, and forgets others where there are too many. */
  add(key: string, rows: ImageRows): void {
    this.#images.set(key, rows);
    this.#bytes += bytesOf(rows);
    for (const [oldest, old] of this.#images) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#images.delete(oldest);
      this.#bytes -= bytesOf(old);
    }
  }
}

const bytesOf = (rows: ImageRows): number => rows.reduce((sum, row) => sum + row.byteLength, 0);

/** SHA-256 of a file's bytes, or of pixels with their size, in hexadecimal digits; what it is of is in front. */
export async function hashOfImage(image: ImageSource): Promise<string> {
  const isFile = image instanceof Uint8Array;
  const what = isFile ? "file" : `${image.width} x ${image.height} pixels`;
  const bytes = (isFile ? image : image.rgba) as Uint8Array<ArrayBuffer>;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const hex = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0"));
  return `${what} ${hex.join("")}`;
}
