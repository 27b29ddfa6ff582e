/**
 * What becomes of a picture before a vision tower sees it: plain data, so that another thread can do it.
 *
 * @module
 */
import { centralSquare } from "./central_square.ts";
import { type TilingConfig, tilePicture } from "./image_tiles.ts";
import { paddedTiles } from "./padded_tiles.ts";
import type { PatchRecipe } from "./patches.ts";
import type { ImageSize, Pixels } from "./pixels.ts";
import { resample } from "./resample.ts";

/** What is shown of a picture: one for each way of seeing. */
export type PictureView =
  /** Tiles, and the whole as one more. */
  | { readonly kind: "tiles"; readonly tiling: TilingConfig }
  /** Its middle. */
  | { readonly kind: "square"; readonly side: number; readonly shortest: number }
  /** All of it, in another size. */
  | { readonly kind: "whole"; readonly size: ImageSize }
  /** The whole in a tile, and tiles of a size that it is padded to. */
  | { readonly kind: "padded"; readonly tileSide: number; readonly size: ImageSize };

export interface PictureRecipe extends PatchRecipe {
  readonly view: PictureView;
}

/** What is shown of a picture, piece by piece; in slices, between which other work has its turns. */
export async function tilesOf(
  picture: Pixels,
  { view }: PictureRecipe,
): Promise<readonly Pixels[]> {
  switch (view.kind) {
    case "tiles":
      return (await tilePicture(picture, view.tiling)).tiles;
    case "square":
      return [await centralSquare(picture, view)];
    case "whole":
      return [await resample(picture, view.size, "bicubic")];
    case "padded":
      return paddedTiles(picture, view);
    default:
      return view satisfies never;
  }
}
