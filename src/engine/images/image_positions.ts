/**
 * Where the tokens and images of a prompt stand, in models whose images lie in rows and columns of
 * one position.
 *
 * A token stands at one place in all three parts. The rows of an image have the place behind the last
 * token as their frame, and from there on a row and a column; the next token stands behind the largest
 * of these. So what is behind an image stands further in front than its number says, generated tokens
 * too.
 *
 * Source: Wang et al., "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any
 * Resolution" (2024).
 *
 * @module
 */
import type { PatchGrid } from "../../images/patches.ts";
import type { RopePlaces } from "../../layers/batch.ts";

/** Finds, row by row, of which image it is. */
export class ImageWalk {
  /** Positions of the images' first rows so far. */
  readonly starts: number[] = [];
  readonly #grids: readonly PatchGrid[];
  #row = 0;

  /** @param grids Of all images; none where rows have no positions of their own. */
  constructor(grids: readonly PatchGrid[]) {
    this.#grids = grids;
  }

  /**
   * The next row of an image, which is at this position of the prompt.
   *
   * @returns Rows and columns of its image, and which row it is; undefined where images have none.
   */
  next(position: number): readonly [number, number, number] | undefined {
    if (this.#grids.length === 0) return undefined;
    if (this.#row === 0) this.starts.push(position);
    const { rows, columns } = this.#grids[this.starts.length - 1]!;
    const row = this.#row;
    this.#row = row + 1 < rows * columns ? row + 1 : 0;
    return [rows, columns, row];
  }
}

/** @param starts Numbers of the images' first rows, ascending. */
export function placeImages(starts: readonly number[], grids: readonly PatchGrid[]): RopePlaces {
  let delta = 0;
  return starts.map((start, i) => {
    const { rows, columns } = grids[i]!;
    const place = start + delta;
    const end = start + rows * columns;
    delta = place + Math.max(rows, columns) - end;
    return { start, end, columns, place, delta };
  });
}
