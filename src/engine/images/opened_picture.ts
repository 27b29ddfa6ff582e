/**
 * An image as the thread has it that works at it.
 *
 * @module
 */
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

export async function openPicture(
  given: SeenImage,
  alpha: ImageAlpha,
  { decode, readDrawing }: ImageTools,
): Promise<OpenedPicture> {
  let image: ImageSource | undefined = isDrawing(given) ? await readDrawing!(given) : given;
  const hash = await hashOfImage(image);
  const tiles: (Pixels | undefined)[] = [];
  let used: PictureRecipe;
  return {
    hash,
    async decode(recipe) {
      used = recipe;
      const pixels = await openImage(image!, decode, alpha).decode();
      image = undefined;
      for (const tile of await tilesOf(pixels, recipe)) tiles.push(tile);
      return tiles.length;
    },
    async picture(index) {
      const picture = await patchesOf(tiles[index]!, used);
      tiles[index] = undefined;
      return picture;
    },
  };
}

const isDrawing = (image: SeenImage): image is ImageDrawing =>
  !(image instanceof Uint8Array) && !("rgba" in image);
