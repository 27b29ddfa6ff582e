/**
 * Pictures made larger and smaller, to the bits of Pillow's filters: what the models' own processors
 * use.
 *
 * Columns first, then rows; each pass rounds to 8 bits. Weights have 22 bits behind the point. A
 * side that stays as it is has no pass.
 *
 * @module
 */
import { turns } from "../turns.ts";
import type { ImageSize, Pixels } from "./pixels.ts";

interface Filter {
  /** Source pixels on each side of a target pixel, of a picture that grows. */
  readonly support: number;
  /** The weight of a source pixel so far away. */
  weight(distance: number): number;
}

const LOBES = 3;
/** Of the cubic that is as steep at its ends as Catmull and Rom's. */
const SLOPE = -0.5;

const FILTERS = {
  lanczos: { support: LOBES, weight: lanczos },
  bicubic: { support: 2, weight: bicubic },
} satisfies Readonly<Record<string, Filter>>;

export type FilterName = keyof typeof FILTERS;

const ONE = 2 ** 22;

/** Source pixels of one target pixel: the first, and a weight for each. */
interface Taps {
  readonly first: number;
  readonly weights: Float64Array;
}

/** In slices, between which other work has its turns. */
export async function resample(
  picture: Pixels,
  size: ImageSize,
  name: FilterName,
): Promise<Pixels> {
  const filter = FILTERS[name];
  const isWide = size.width === picture.width;
  const wide = isWide ? picture : await resampleColumns(picture, size.width, filter);
  return size.height === wide.height ? wide : resampleRows(wide, size.height, filter);
}

async function resampleColumns(
  { width, height, rgb }: Pixels,
  wanted: number,
  filter: Filter,
): Promise<Pixels> {
  const taps = Array.from({ length: wanted }, (_, i) =>
    tapsOf(filter, i, { length: width, wanted }),
  );
  const out = new Uint8Array(wanted * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < wanted; x++) {
      const { first, weights } = taps[x]!;
      let red = 0;
      let green = 0;
      let blue = 0;
      let from = (y * width + first) * 3;
      for (let t = 0; t < weights.length; t++) {
        const weight = weights[t]!;
        red += weight * rgb[from]!;
        green += weight * rgb[from + 1]!;
        blue += weight * rgb[from + 2]!;
        from += 3;
      }
      const to = (y * wanted + x) * 3;
      out[to] = toByte(red);
      out[to + 1] = toByte(green);
      out[to + 2] = toByte(blue);
    }
    if (turns.isDue) await turns.take();
  }
  return { width: wanted, height, rgb: out };
}

async function resampleRows(
  { width, height, rgb }: Pixels,
  wanted: number,
  filter: Filter,
): Promise<Pixels> {
  const stride = width * 3;
  const out = new Uint8Array(wanted * stride);
  const sums = new Float64Array(stride);
  for (let y = 0; y < wanted; y++) {
    const { first, weights } = tapsOf(filter, y, { length: height, wanted });
    sums.fill(0);
    for (let t = 0; t < weights.length; t++) {
      const weight = weights[t]!;
      const from = (first + t) * stride;
      for (let i = 0; i < stride; i++) sums[i]! += weight * rgb[from + i]!;
      if (turns.isDue) await turns.take();
    }
    for (let i = 0; i < stride; i++) out[y * stride + i] = toByte(sums[i]!);
  }
  return { width, height: wanted, rgb: out };
}

/** Rounds a sum of weighted bytes, and clips it. */
function toByte(sum: number): number {
  return Math.min(Math.max(Math.floor((sum + ONE / 2) / ONE), 0), 255);
}

function tapsOf(
  filter: Filter,
  index: number,
  { length, wanted }: { readonly length: number; readonly wanted: number },
): Taps {
  const scale = length / wanted;
  const stretch = Math.max(scale, 1);
  const support = filter.support * stretch;
  const center = (index + 0.5) * scale;
  const first = Math.max(Math.trunc(center - support + 0.5), 0);
  const end = Math.min(Math.trunc(center + support + 0.5), length);
  const weights = new Float64Array(end - first);
  let sum = 0;
  for (let t = 0; t < weights.length; t++) {
    weights[t] = filter.weight((first + t - center + 0.5) / stretch);
    sum += weights[t]!;
  }
  for (let t = 0; t < weights.length; t++) {
    const weight = (weights[t]! / sum) * ONE;
    weights[t] = Math.trunc(weight + (weight < 0 ? -0.5 : 0.5));
  }
  return { first, weights };
}

function lanczos(x: number): number {
  return Math.abs(x) < LOBES ? sinc(x) * sinc(x / LOBES) : 0;
}

function bicubic(x: number): number {
  const far = Math.abs(x);
  if (far < 1) return ((SLOPE + 2) * far - (SLOPE + 3)) * far * far + 1;
  return far < 2 ? (((far - 5) * far + 8) * far - 4) * SLOPE : 0;
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);
}
