/**
 * Images decoded in this thread, in slices between which other work has its turns.
 *
 * @module
 */
import type { TowerPicture } from "../../images/patches.ts";
import type { PictureRecipe } from "../../images/picture_recipe.ts";
import type { CreateImageService } from "./image_service.ts";
import { type OpenedPicture, openPicture } from "./opened_picture.ts";

/** What decoders of a platform do at once, it waits for, and nothing bounds the time of an image. */
export const localImageService: CreateImageService = ({ alpha, decode }) => ({
  readsAll: decode !== undefined,
  readsDrawings: false,
  async open(image) {
    const opened = await openPicture(image, alpha, { decode });
    return {
      hash: opened.hash,
      pictures: (recipe) => picturesOf(opened, recipe),
      close: () => {},
    };
  },
  close: () => {},
});

async function* picturesOf(
  opened: OpenedPicture,
  recipe: PictureRecipe,
): AsyncGenerator<TowerPicture, void> {
  const count = await opened.decode(recipe);
  for (let i = 0; i < count; i++) yield await opened.picture(i);
}
