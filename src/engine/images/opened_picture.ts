/**
 * An image as the thread has it that works at it.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { ImageDrawing } from "../../image_input.ts";
import type { DecodedImage, ImageAlpha } from "../../images/alpha.ts";
import type { DecodeImage } from "../../images/coded_image.ts";
import { type ImageSource, openImage } from "../../images/decode_image.ts";
import { patchesOf, type TowerPicture } from "../../images/patches.ts";
import { type PictureRecipe, tilesOf } from "../../images/picture_recipe.ts";
import type { Pixels } from "../../images/pixels.ts";
import { hashOfImage } from "./feature_cache.ts";
import type { SeenImage } from "./image_service.ts";

/** What a thread decodes images with. */
export interface ImageTools {
  /** Decodes what is no PNG. Default: PNG alone is decoded. */
  readonly decode?: DecodeImage | undefined;
  /** The pixels of an `ImageBitmap`. Default: none is read. */
  readonly readDrawing?: ((drawing: ImageDrawing) => Promise<DecodedImage>) | undefined;
}

export interface OpenedPicture {
  readonly hash: string;
  /** @returns How many pictures the tower is shown. */
  decode(recipe: PictureRecipe): Promise<number>;
  /** To be asked for once each, in their order, behind `decode`. */
  picture(index: number): Promise<TowerPicture>;
}

/** @throws {InvalidRequestError} as a rejection, when it is more than can be allocated. */
export async function openPicture(
  given: SeenImage,
  alpha: ImageAlpha,
  { decode, readDrawing }: ImageTools,
): Promise<OpenedPicture> {
  let image: ImageSource | undefined = isDrawing(given)
    ? await inMemory(() => readDrawing!(given))
    : given;
  const hash = await inMemory(() => hashOfImage(image!));
  const tiles: (Pixels | undefined)[] = [];
  let used: PictureRecipe;
  return {
    hash,
    decode: (recipe) =>
      inMemory(async () => {
        used = recipe;
        const pixels = await openImage(image!, decode, alpha).decode();
        image = undefined;
        for (const tile of await tilesOf(pixels, recipe)) tiles.push(tile);
        return tiles.length;
      }),
    picture: (index) =>
      inMemory(async () => {
        const picture = await patchesOf(tiles[index]!, used);
        tiles[index] = undefined;
        return picture;
      }),
  };
}

const isDrawing = (image: SeenImage): image is ImageDrawing =>
  !(image instanceof Uint8Array) && !("rgba" in image);

/** Memory that cannot be had is the image's fault. */
async function inMemory<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    const problem = `it is too large (${cause.message})`;
    throw new InvalidRequestError(`Cannot read the image: ${problem}`, undefined, { cause });
  }
}
