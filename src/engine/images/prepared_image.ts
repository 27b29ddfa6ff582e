/**
 * How a model's images are prepared: what is decided of each, and what then becomes of it.
 *
 * @module
 */

import type { ImageDetail } from "../../chat_message.ts";
import type { ConfigReader } from "../../checkpoint/config.ts";
import type { PatchGrid } from "../../images/patches.ts";
import type { PictureRecipe } from "../../images/picture_recipe.ts";
import type { ImageSize } from "../../images/pixels.ts";
import type { Tokenizer } from "../../text/tokenizer.ts";
import type { ImageRows } from "./feature_cache.ts";

export interface ImageProcessor {
  /** The token in whose place each row of an image stands, and how a prompt spells it. */
  readonly placeholder: number;
  readonly placeholderText: string;
  /** Rows that every image becomes at least. */
  readonly fewestTokens: number;
  /** Whether what the tokenizer begins texts with stands in front of conversations too. */
  readonly beginsChats: boolean;
  /**
   * Decides what becomes of an image, before any pixel of it is there.
   *
   * @throws {InvalidRequestError} when its size is none that the model can see.
   */
  prepare(size: ImageSize, asked: PrepareOptions): PreparedImage;
}

export interface PrepareOptions {
  /** Default: as the processor has it. */
  readonly detail?: ImageDetail | undefined;
  /** Images of the prompt. */
  readonly count: number;
}

export interface PreparedImage {
  /** What beside the image's file decides its rows. */
  readonly key: string;
  /** What stands in its place in the prompt. */
  readonly text: string;
  /** Rows that it becomes. */
  readonly tokens: number;
  /** How they lie, where they have positions of their own. */
  readonly grid?: PatchGrid;
  /** What the tower is shown of its pixels, one piece after the other. */
  readonly recipe: PictureRecipe;
  /** The image's rows, of those of each piece. */
  join(tiles: readonly ImageRows[]): ImageRows;
}

/** What says how a processor prepares images. */
export interface ProcessorFiles {
  /** Of preprocessor_config.json, or processor_config.json. */
  readonly config: ConfigReader;
  readonly vocabulary: Tokenizer["vocabulary"];
}
