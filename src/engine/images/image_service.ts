/**
 * Where images are decoded, resampled and hashed: files in, what a vision tower is shown out.
 *
 * A port, so that the work can be done in another thread.
 *
 * @module
 */
import type { ImageDrawing } from "../../image_input.ts";
import type { ImageAlpha } from "../../images/alpha.ts";
import type { DecodeImage } from "../../images/coded_image.ts";
import type { ImageSource } from "../../images/decode_image.ts";
import type { TowerPicture } from "../../images/patches.ts";
import type { PictureRecipe } from "../../images/picture_recipe.ts";

/** An image whose bytes are read; what is no file is decoded already, or a platform has it. */
export type SeenImage = ImageSource | ImageDrawing;

/** One image on its way to the tower. */
export interface ImageReading {
  /**
   * SHA-256 of what is seen, in hexadecimal digits, with what it is of in front: the bytes of a file,
   * or size and pixels of what was decoded elsewhere.
   */
  readonly hash: string;
  /**
   * What the tower is shown, one after the other.
   *
   * @throws {InvalidRequestError} as a rejection, when the file is malformed or takes too long.
   * @throws {WorkerError} as a rejection, when its thread has ended.
   */
  pictures(recipe: PictureRecipe): AsyncIterable<TowerPicture>;
  /** Forgets it. Only once nothing is awaited of it. */
  close(): void;
}

export interface ImageService {
  /** Whether it decodes more than PNG. */
  readonly readsAll: boolean;
  /** Whether it is given an `ImageBitmap`. */
  readonly readsDrawings: boolean;
  /**
   * Takes an image. To be called when the one before is closed.
   *
   * @throws {InvalidRequestError} as a rejection, when it takes too long.
   * @throws {WorkerError} as a rejection, when its thread has ended.
   */
  open(image: SeenImage): Promise<ImageReading>;
  /** What is awaited fails, and nothing may be asked any more. */
  close(): void;
}

export interface ImageSetting {
  readonly alpha: ImageAlpha;
  /** Decodes what is no PNG, in services that do it in this thread. */
  readonly decode?: DecodeImage | undefined;
}

export type CreateImageService = (setting: ImageSetting) => ImageService;
