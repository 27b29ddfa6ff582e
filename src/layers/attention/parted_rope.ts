/**
 * Rotation by positions of three parts: each turns some of a head's pairs. What a row turns by is
 * computed for each step, as no table has all combinations.
 *
 * Source: Wang et al., "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any
 * Resolution" (2024).
 *
 * @module
 */
import type { PlacedImage, RopePlaces } from "../batch.ts";
import { inverseFrequencies } from "./rope_scaling.ts";

export interface PartedRopeShape {
  readonly theta: number;
  /** Elements of a head that turn. */
  readonly dim: number;
  /** Pairs that each part turns, one behind the other. */
  readonly parts: readonly [number, number, number];
}

export class PartedRope {
  /** `[maxRows, dim]`: cosine and sine of each pair */
  readonly turns: Float32Array<ArrayBuffer>;
  readonly dim: number;
  readonly #frequencies: ArrayLike<number>;
  /** By pair: which part turns it. */
  readonly #partOf: Uint8Array;
  readonly #place = new Uint32Array(3);

  constructor({ theta, dim, parts }: PartedRopeShape, maxRows: number) {
    this.dim = dim;
    this.#frequencies = inverseFrequencies({ theta, dim, scaling: undefined, positions: 1 });
    this.#partOf = Uint8Array.from(parts.flatMap((pairs, part) => Array(pairs).fill(part)));
    this.turns = new Float32Array(maxRows * dim);
  }

  /** @param places Of the row's sequence. Default: all parts are the position. */
  fill(row: number, position: number, places: RopePlaces | undefined): void {
    const place = this.#place;
    if (places === undefined) place.fill(position);
    else writePlace(places, position, place);
    const start = row * this.dim;
    for (let pair = 0; pair < this.#partOf.length; pair++) {
      // As in the table of positions that are numbers.
      const angle = Math.fround(place[this.#partOf[pair]!]! * this.#frequencies[pair]!);
      this.turns[start + 2 * pair] = Math.cos(angle);
      this.turns[start + 2 * pair + 1] = Math.sin(angle);
    }
  }
}

/** Writes the frame, the row and the column of a position. */
export function writePlace(places: RopePlaces, position: number, into: Uint32Array): void {
  const image = imageAt(places, position);
  if (image === undefined || position >= image.end) {
    into.fill(position + (image?.delta ?? 0));
    return;
  }
  const row = position - image.start;
  into[0] = image.place;
  into[1] = image.place + Math.floor(row / image.columns);
  into[2] = image.place + (row % image.columns);
}

/** Of all images those that rows from `first` on, in front of `end`, have their places by. */
export function placesOf(images: RopePlaces, first: number, end: number): RopePlaces {
  return images.slice(Math.max(0, countUpTo(images, first) - 1), countUpTo(images, end - 1));
}

/** The last image that begins there or in front of it. */
function imageAt(images: RopePlaces, position: number): PlacedImage | undefined {
  return images[countUpTo(images, position) - 1];
}

/** Images that begin there or in front of it. */
function countUpTo(images: RopePlaces, position: number): number {
  let low = 0;
  let high = images.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (images[middle]!.start <= position) low = middle + 1;
    else high = middle;
  }
  return low;
}
