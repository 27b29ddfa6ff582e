/**
 * What an image service in another thread is asked, and what it answers: plain data, one question at
 * a time.
 *
 * @module
 */
import type { ImageAlpha } from "../../images/alpha.ts";
import type { TowerPicture } from "../../images/patches.ts";
import type { PictureRecipe } from "../../images/picture_recipe.ts";
import type { ErrorData } from "../remote/error_data.ts";
import type { SeenImage } from "./image_service.ts";

export type ImageQuestion =
  /** Keeps an image, in place of the last one. */
  | { readonly type: "open"; readonly image: SeenImage; readonly alpha: ImageAlpha }
  /** Decodes it, and keeps what the tower is shown. */
  | { readonly type: "decode"; readonly recipe: PictureRecipe }
  | { readonly type: "picture"; readonly index: number };

/** Only questions are answered. */
export type ImageCall = ImageQuestion | { readonly type: "close" };

export type ImageAnswer =
  | { readonly type: "opened"; readonly hash: string }
  | { readonly type: "decoded"; readonly pictures: number }
  | { readonly type: "picture"; readonly picture: TowerPicture }
  | { readonly type: "failed"; readonly error: ErrorData };
