/**
 * From the files of images to rows of the text model, one image after the other: however many
 * requests have some, the pixels of one are in memory.
 *
 * @module
 */
import type { ImageDetail } from "../../chat_message.ts";
import { DeviceError, InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { DecodeImage } from "../../images/coded_image.ts";
import { type OpenedImage, openImage } from "../../images/decode_image.ts";
import type { Pixels } from "../../images/pixels.ts";
import type { VisionRunner } from "../../models/vision/vision_runner.ts";
import { FeatureCache, hashOfImage, type ImageRows } from "./feature_cache.ts";
import type { ImageProcessor, PreparedImage } from "./prepared_image.ts";

/** Where the vision tower is. */
export interface VisionDevice {
  /** On the device that is there. */
  runner(): VisionRunner;
  /** Whether something has failed because the device is gone, and another one is to take its place. */
  isLost(): Promise<boolean>;
  /** Resolves when another one has taken its place, or none will. */
  settled(): Promise<void>;
  /** Takes note that it has computed something, or that what loses it is known and left. */
  progressed(): void;
}

/** An image whose place in a prompt is known. */
export interface PlacedImage {
  readonly prepared: PreparedImage;
  readonly bytes: Uint8Array;
  readonly opened: OpenedImage;
}

/** Bytes of rows that are kept for the next turn of a conversation. */
const CACHED_BYTES = 64 * 2 ** 20;
/** Devices that one image may lose. */
const MOST_LOSSES = 2;

export class ImageReader {
  readonly processor: ImageProcessor;
  readonly #device: VisionDevice;
  readonly #decode: DecodeImage | undefined;
  readonly #cache = new FeatureCache(CACHED_BYTES);
  /** Settles when the image that came last is read. */
  #last: Promise<unknown> = Promise.resolve();

  /** @param decode Decodes what is no PNG. Default: PNG alone is decoded. */
  constructor(processor: ImageProcessor, device: VisionDevice, decode?: DecodeImage) {
    this.processor = processor;
    this.#device = device;
    this.#decode = decode;
  }

  /**
   * @param details Of images, by their numbers. Default: as the processor has it.
   * @throws {InvalidRequestError} naming the image that cannot be read.
   */
  place(
    images: readonly Uint8Array[],
    details: readonly (ImageDetail | undefined)[],
  ): readonly PlacedImage[] {
    const { length: count } = images;
    return images.map((bytes, index) => {
      if (!(bytes instanceof Uint8Array)) {
        throw new InvalidRequestError(
          `Cannot read images[${index}]: it is no Uint8Array`,
          "images",
        );
      }
      try {
        const opened = openImage(bytes, this.#decode);
        const prepared = this.processor.prepare(opened, { detail: details[index], count });
        return { prepared, bytes, opened };
      } catch (error) {
        throw namedError(error, index);
      }
    });
  }

  /**
   * The rows of all images, in their order.
   *
   * @param isWanted Asked before each image.
   * @returns What there is when they are wanted no more.
   * @throws {InvalidRequestError} as a rejection, naming the image that cannot be read.
   * @throws {DeviceError} as a rejection, when the device is lost and cannot be replaced, or is lost by
   * an image.
   */
  async rows(images: readonly PlacedImage[], isWanted: () => boolean): Promise<ImageRows> {
    const all: Float32Array[] = [];
    for (const [index, image] of images.entries()) {
      const rows = this.#last.then(() => (isWanted() ? this.#rowsOf(image, index) : []));
      this.#last = rows.catch(() => {});
      for (const row of await rows) all.push(row);
    }
    return all;
  }

  async #rowsOf({ bytes, opened, prepared }: PlacedImage, index: number): Promise<ImageRows> {
    const key = `${prepared.key} ${await hashOfImage(bytes)}`;
    const known = this.#cache.find(key);
    if (known !== undefined) return known;
    const picture = await opened.decode().catch((error: unknown) => {
      throw namedError(error, index);
    });
    const tiles: ImageRows[] = [];
    for (const tile of await prepared.tiles(picture))
      tiles.push(await this.#runTile(prepared, tile, index));
    const rows = prepared.join(tiles);
    this.#cache.add(key, rows);
    return rows;
  }

  async #runTile(prepared: PreparedImage, tile: Pixels, index: number): Promise<ImageRows> {
    const patches = await prepared.patches(tile);
    for (let losses = 0; ; losses++) {
      try {
        const rows = await this.#device.runner().run(patches);
        this.#device.progressed();
        return rows;
      } catch (error) {
        if (!(await this.#device.isLost())) throw error;
        if (losses === MOST_LOSSES) {
          this.#device.progressed();
          const state = `the device was lost ${losses + 1} times while it was computed`;
          throw new DeviceError(`Cannot read images[${index}]: ${state}`, { cause: error });
        }
        await this.#device.settled();
      }
    }
  }
}

/** The error of an image, with its number. */
function namedError(error: unknown, index: number): unknown {
  if (error instanceof UnsupportedError) {
    const message = error.message.replace("images of", `images[${index}], of`);
    return new InvalidRequestError(message, "images", { cause: error });
  }
  if (!(error instanceof InvalidRequestError)) return error;
  const message = error.message.replace("Cannot read the image", `Cannot read images[${index}]`);
  return new InvalidRequestError(message, "images", { cause: error });
}
