/**
 * A picture as Idefics3 and SmolVLM see it: tiles of one size, row by row, and behind them the whole
 * picture as one more tile.
 *
 * Source: Laurençon et al., "Building and better understanding vision-language models" (2024).
 *
 * @module
 */
import { turns } from "../turns.ts";
import { cut, type ImageSize, type Pixels } from "./pixels.ts";
import { resample } from "./resample.ts";

/** What preprocessor_config.json says. */
export interface TilingConfig {
  /** The longer side that every picture is brought to first. */
  readonly longestEdge: number;
  /** Pixels of a tile's side. */
  readonly tileSide: number;
  /** Whether pictures are cut into tiles. */
  readonly splits: boolean;
}

/** Rows and columns of a picture's tiles, both 0 where it is one tile alone. */
export interface TileGrid {
  readonly rows: number;
  readonly columns: number;
}

export interface TiledPicture extends TileGrid {
  /** Each `tileSide` large, in the order of the prompt. */
  readonly tiles: readonly Pixels[];
}

/** The sizes that a picture goes through, before anything is computed. */
export function tileGrid(size: ImageSize, config: TilingConfig): TileGrid {
  if (!config.splits) return { rows: 0, columns: 0 };
  const { width, height } = wholeTiles(toLongestEdge(size, config.longestEdge), config.tileSide);
  const [rows, columns] = [height / config.tileSide, width / config.tileSide];
  return rows * columns > 1 ? { rows, columns } : { rows: 0, columns: 0 };
}

/** Tiles of a grid, the whole picture's among them. */
export const tileCount = ({ rows, columns }: TileGrid): number => rows * columns + 1;

/** In slices, between which other work has its turns. */
export async function tilePicture(picture: Pixels, config: TilingConfig): Promise<TiledPicture> {
  const { tileSide, longestEdge, splits } = config;
  const grid = tileGrid(picture, config);
  const resized = await resample(picture, toLongestEdge(picture, longestEdge), "lanczos");
  const whole = { width: tileSide, height: tileSide };
  if (!splits) return { ...grid, tiles: [await resample(resized, whole, "lanczos")] };
  const split = await resample(resized, wholeTiles(resized, tileSide), "lanczos");
  const tiles: Pixels[] = [];
  for (let row = 0; row < grid.rows; row++) {
    for (let column = 0; column < grid.columns; column++) {
      const size = { width: tileSide, height: tileSide };
      tiles.push(cut(split, size, { left: column * tileSide, top: row * tileSide }));
      if (turns.isDue) await turns.take();
    }
  }
  return { ...grid, tiles: [...tiles, await resample(split, whole, "lanczos")] };
}

/** Brings the longer side to `edge`, the other one to an even number of pixels. */
function toLongestEdge({ width, height }: ImageSize, edge: number): ImageSize {
  const aspect = width / height;
  const other = Math.trunc(width >= height ? edge / aspect : edge * aspect);
  const even = Math.max(other + (other % 2), 1);
  return width >= height ? { width: edge, height: even } : { width: even, height: edge };
}

/** Brings both sides to multiples of `side`, the longer one first. */
function wholeTiles({ width, height }: ImageSize, side: number): ImageSize {
  const up = (length: number) => Math.max(Math.ceil(length / side), 1) * side;
  const aspect = width / height;
  if (width >= height) return { width: up(width), height: up(Math.trunc(up(width) / aspect)) };
  return { width: up(Math.trunc(up(height) * aspect)), height: up(height) };
}
