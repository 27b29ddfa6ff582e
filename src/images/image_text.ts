/**
 * What stands in a prompt of Idefics3 and SmolVLM in place of an image.
 *
 * @module
 */
import type { TileGrid } from "./image_tiles.ts";

const FRAME = "<fake_token_around_image>";
const WHOLE = "<global-img>";

/** Marks of a tile's place, both counted from 1. */
const placeOf = (row: number, column: number): string => `<row_${row}_col_${column}>`;

/**
 * @param options `placeholder`: stands once for each row of a tile; `tileTokens`: rows of a tile.
 */
export function imageText(
  { rows, columns }: TileGrid,
  { placeholder, tileTokens }: { readonly placeholder: string; readonly tileTokens: number },
): string {
  const tile = placeholder.repeat(tileTokens);
  let text = "";
  for (let row = 1; row <= rows; row++) {
    for (let column = 1; column <= columns; column++) {
      text += `${FRAME}${placeOf(row, column)}${tile}`;
    }
    text += "\n";
  }
  if (rows > 0) text += "\n";
  return `${text}${FRAME}${WHOLE}${tile}${FRAME}`;
}

/** The special tokens of images of up to so many rows and columns, beside the placeholder. */
export function imageMarks({ rows, columns }: TileGrid): readonly string[] {
  const places = Array.from({ length: rows * columns }, (_, i) =>
    placeOf(1 + Math.floor(i / columns), 1 + (i % columns)),
  );
  return [FRAME, WHOLE, ...places];
}
