/**
 * The rows of images that requests hold, from when they are read until the request has ended.
 *
 * @module
 */
import { CapacityError } from "../../errors.ts";
import { bytesOf, type ImageFeatures } from "./feature_cache.ts";

/** Of all requests together, unless one alone takes more. */
export const MAX_IMAGE_ROW_BYTES = 2 ** 30;

export class HeldRows {
  readonly #limit: number;
  /** How many times each image is held: its rows are there once. */
  readonly #holders = new Map<ImageFeatures, number>();
  #bytes = 0;

  constructor(limit = MAX_IMAGE_ROW_BYTES) {
    this.#limit = limit;
  }

  /**
   * @returns Gives them back; once.
   * @throws {CapacityError} when others hold too many.
   */
  hold(images: readonly ImageFeatures[]): () => void {
    const more = [...new Set(images)]
      .filter((image) => !this.#holders.has(image))
      .reduce((sum, image) => sum + bytesOf(image), 0);
    if (this.#bytes > 0 && this.#bytes + more > this.#limit) {
      const state = `other requests hold ${this.#bytes} of ${this.#limit} bytes, until they end`;
      throw new CapacityError("memory for rows of images", this.#limit, state);
    }
    this.#bytes += more;
    for (const image of images) this.#holders.set(image, (this.#holders.get(image) ?? 0) + 1);
    return () => {
      for (const image of images) this.#release(image);
    };
  }

  #release(image: ImageFeatures): void {
    const holders = this.#holders.get(image)!;
    if (holders > 1) {
      this.#holders.set(image, holders - 1);
      return;
    }
    this.#holders.delete(image);
    this.#bytes -= bytesOf(image);
  }
}
