/**
 * From the files of images to rows of the text model, one image after the other: however many
 * requests have some, the pixels of one are in memory.
 *
 * @module
 */
import type { ImageDetail } from "../../chat_message.ts";
import { DeviceError, InvalidRequestError, UnsupportedError, WorkerError } from "../../errors.ts";
import type { ImageInput } from "../../image_input.ts";
import { sizeOfImage } from "../../images/decode_image.ts";
import type { TowerPicture } from "../../images/patches.ts";
import { type ImageSize, requireSize } from "../../images/pixels.ts";
import type { VisionRunner } from "../../models/vision/vision_runner.ts";
import { ClientTurns } from "../text/client_turns.ts";
import {
  FeatureCache,
  type ImageFeatures,
  type ImageRows,
  nameOfImage,
  nameOfPicture,
} from "./feature_cache.ts";
import { HeldRows } from "./held_rows.ts";
import { readInputs } from "./image_inputs.ts";
import type { ImageReading, ImageService, SeenImage } from "./image_service.ts";
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
  readonly image: SeenImage;
}

/** Devices that one image may lose. */
const MOST_LOSSES = 2;

export interface ImageReaderParts {
  readonly processor: ImageProcessor;
  readonly device: VisionDevice;
  /** Decodes what the reader's processor sees. */
  readonly service: ImageService;
  /** Bytes of rows that are kept for later requests. */
  readonly cacheBytes: number;
}

/** Whose images are read. */
export interface ImageRequest {
  /** Asked before each image, and before the tower is shown each part of one. */
  readonly isWanted: () => boolean;
  readonly client?: string | undefined;
  readonly cacheSalt?: string | undefined;
}

/** One image of a client. */
interface ImageTurn {
  readonly client: string | undefined;
  readonly read: () => Promise<void>;
}

export class ImageReader {
  readonly processor: ImageProcessor;
  readonly #device: VisionDevice;
  readonly #service: ImageService;
  readonly #cache: FeatureCache;
  /** Rows that requests hold, kept or not. */
  readonly held = new HeldRows();
  /** Images that wait until one is read. */
  readonly #waiting = new ClientTurns<ImageTurn>();
  #isReading = false;

  constructor({ processor, device, service, cacheBytes }: ImageReaderParts) {
    this.processor = processor;
    this.#device = device;
    this.#service = service;
    this.#cache = new FeatureCache(cacheBytes);
  }

  /**
   * What is seen of images; the bytes of blobs are read.
   *
   * @throws {InvalidRequestError | UnsupportedError} as a rejection, naming the image.
   */
  look(images: readonly ImageInput[]): Promise<readonly SeenImage[]> {
    return readInputs(images, this.#service);
  }

  /**
   * @param details Of images, by their numbers. Default: as the processor has it.
   * @throws {InvalidRequestError} naming the image that cannot be read.
   */
  place(
    images: readonly SeenImage[],
    details: readonly (ImageDetail | undefined)[],
  ): readonly PlacedImage[] {
    const { length: count } = images;
    return images.map((image, index) => {
      try {
        const size = sizeOfSeen(image, this.#service.readsAll);
        const prepared = this.processor.prepare(size, { detail: details[index], count });
        return { prepared, image };
      } catch (error) {
        throw namedError(error, index);
      }
    });
  }

  /**
   * The features of all images, in their order.
   *
   * Images of several clients are read in turns.
   *
   * @returns What there is when they are wanted no more.
   * @throws {InvalidRequestError} as a rejection, naming the image that cannot be read.
   * @throws {DeviceError} as a rejection, when the device is lost and cannot be replaced, or is lost by
   * an image.
   */
  async rows(
    images: readonly PlacedImage[],
    request: ImageRequest,
  ): Promise<readonly ImageFeatures[]> {
    const all: ImageFeatures[] = [];
    for (const [index, image] of images.entries()) {
      const one = await this.#inTurn(request.client, async () =>
        request.isWanted() ? this.#see(image, index, request) : undefined,
      );
      if (one !== undefined) all.push(one);
    }
    return all;
  }

  #inTurn<T>(client: string | undefined, read: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.add({ client, read: () => read().then(resolve, reject) });
      void this.#readAll();
    });
  }

  /** Reads what waits, one after the other. Each one's failure is its own. */
  async #readAll(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    for (let turn = this.#waiting.next(); turn !== undefined; turn = this.#waiting.next()) {
      this.#waiting.delete(turn);
      await turn.read();
    }
    this.#isReading = false;
  }

  async #see(
    { image, prepared }: PlacedImage,
    index: number,
    { isWanted, cacheSalt }: ImageRequest,
  ): Promise<ImageFeatures | undefined> {
    let reading: ImageReading | undefined;
    try {
      reading = await this.#service.open(image);
      // Whether an image was seen before is told by time: to requests of one salt alone.
      const key = `${JSON.stringify(cacheSalt ?? null)} ${prepared.key} ${reading.hash}`;
      const known = this.#cache.find(key);
      if (known !== undefined) return known;
      const tiles: ImageRows[] = [];
      const names: string[] = [];
      for await (const picture of reading.pictures(prepared.recipe)) {
        names.push(await nameOfPicture(picture));
        if (!isWanted()) return undefined;
        tiles.push(await this.#run(picture, index));
      }
      const name = await nameOfImage(prepared.key, names);
      const features = { name, rows: prepared.join(tiles) };
      this.#cache.add(key, features);
      return features;
    } catch (error) {
      throw namedError(error, index);
    } finally {
      reading?.close();
    }
  }

  /** What is awaited of images fails. */
  close(): void {
    this.#service.close();
  }

  async #run(picture: TowerPicture, index: number): Promise<ImageRows> {
    for (let losses = 0; ; losses++) {
      try {
        const rows = await this.#device.runner().run(picture);
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

function sizeOfSeen(image: SeenImage, readsAll: boolean): ImageSize {
  if (image instanceof Uint8Array || "rgba" in image) return sizeOfImage(image, readsAll);
  const { width, height } = image;
  requireSize({ width, height });
  return { width, height };
}

/** The error of an image, with its number. */
function namedError(error: unknown, index: number): unknown {
  if (error instanceof UnsupportedError) {
    const message = error.message.replace("images of", `images[${index}], of`);
    return new InvalidRequestError(message, "images", { cause: error });
  }
  const isOfImage = error instanceof InvalidRequestError || error instanceof WorkerError;
  if (!isOfImage) return error;
  const message = error.message.replace("Cannot read the image", `Cannot read images[${index}]`);
  if (error instanceof WorkerError) return new WorkerError(message, { cause: error });
  return new InvalidRequestError(message, "images", { cause: error });
}
