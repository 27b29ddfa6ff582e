/**
 * Rows of a PNG as they come out of its zlib stream, to pixels: filters undone, samples brought to
 * 8 bits of red, green and blue, on white where the picture is to lie on it.
 *
 * @module
 */
import { onWhite } from "./alpha.ts";
import { type Pixels, refuseImage } from "./pixels.ts";
import type { PngFile, PngHeader } from "./png_chunks.ts";

/** Rows that come one after the other: pixels from a corner on, some steps apart. */
interface Pass {
  readonly x: number;
  readonly y: number;
  readonly dx: number;
  readonly dy: number;
}

const WHOLE: readonly Pass[] = [{ x: 0, y: 0, dx: 1, dy: 1 }];
const ADAM7: readonly Pass[] = [
  { x: 0, y: 0, dx: 8, dy: 8 },
  { x: 4, y: 0, dx: 8, dy: 8 },
  { x: 0, y: 4, dx: 4, dy: 8 },
  { x: 2, y: 0, dx: 4, dy: 4 },
  { x: 0, y: 2, dx: 2, dy: 4 },
  { x: 1, y: 0, dx: 2, dy: 2 },
  { x: 0, y: 1, dx: 1, dy: 2 },
];

const OPAQUE = 255;

const columnsOf = ({ x, dx }: Pass, { width }: PngHeader) => Math.ceil((width - x) / dx);
const rowsOf = ({ y, dy }: Pass, { height }: PngHeader) => Math.ceil((height - y) / dy);

export class PngRows {
  readonly pixels: Pixels;
  readonly #file: PngFile;
  readonly #passes: readonly Pass[];
  /** Of a pixel, at least 1: what a filter looks back by. */
  readonly #pixelBytes: number;
  #pass = 0;
  #row = 0;
  /** The row that is being filled, behind its filter, and the one above. */
  #current: Uint8Array;
  #above: Uint8Array;
  #filled = 0;

  constructor(file: PngFile) {
    const { header } = file;
    const { width, height, bitDepth, samples, interlaced } = header;
    this.#file = file;
    this.pixels = { width, height, rgb: new Uint8Array(width * height * 3) };
    this.#passes = (interlaced ? ADAM7 : WHOLE).filter(
      (pass) => columnsOf(pass, header) > 0 && rowsOf(pass, header) > 0,
    );
    this.#pixelBytes = Math.max((bitDepth * samples) >> 3, 1);
    this.#current = new Uint8Array(0);
    this.#above = this.#current;
    this.#beginPass();
  }

  /** Whether every pixel is there. */
  get isDone(): boolean {
    return this.#pass === this.#passes.length;
  }

  /** Takes bytes up to the end of a row. @returns How many. */
  take(bytes: Uint8Array): number {
    const row = this.#current;
    const count = Math.min(row.length - this.#filled, bytes.length);
    row.set(bytes.subarray(0, count), this.#filled);
    this.#filled += count;
    if (this.#filled === row.length) this.#finishRow();
    return count;
  }

  #beginPass(): void {
    if (this.isDone) return;
    const { bitDepth, samples } = this.#file.header;
    const columns = columnsOf(this.#passes[this.#pass]!, this.#file.header);
    const length = 1 + Math.ceil((columns * bitDepth * samples) / 8);
    this.#current = new Uint8Array(length);
    this.#above = new Uint8Array(length);
    this.#row = 0;
    this.#filled = 0;
  }

  #finishRow(): void {
    const pass = this.#passes[this.#pass]!;
    unfilter(this.#current, this.#above, this.#pixelBytes);
    this.#store(pass);
    [this.#current, this.#above] = [this.#above, this.#current];
    this.#filled = 0;
    this.#row += 1;
    if (this.#row < rowsOf(pass, this.#file.header)) return;
    this.#pass += 1;
    this.#beginPass();
  }

  #store({ x, y, dx, dy }: Pass): void {
    const { header, palette } = this.#file;
    const { width, bitDepth, samples, color } = header;
    const { rgb } = this.pixels;
    const row = this.#current;
    const sample = sampleReader(row, bitDepth);
    const alpha = this.#file.alpha === "white" ? alphaReader(row, this.#file) : undefined;
    const columns = Math.ceil((width - x) / dx);
    const scale = color === "palette" || bitDepth > 8 ? 1 : 255 / (2 ** bitDepth - 1);
    let at = ((y + this.#row * dy) * width + x) * 3;
    for (let column = 0; column < columns; column++, at += dx * 3) {
      const first = column * samples;
      const value = sample(first);
      if (color === "palette") {
        if (3 * value >= palette.length) refuseImage(`its palette has no colour ${value}`);
        rgb.set(palette.subarray(3 * value, 3 * value + 3), at);
      } else if (color === "gray") {
        rgb.fill(value * scale, at, at + 3);
      } else {
        rgb[at] = value;
        rgb[at + 1] = sample(first + 1);
        rgb[at + 2] = sample(first + 2);
      }
      const opacity = alpha?.(column) ?? OPAQUE;
      if (opacity === OPAQUE) continue;
      for (let c = at; c < at + 3; c++) rgb[c] = onWhite(rgb[c]!, opacity);
    }
  }
}

/** Samples of a row behind its filter; of 16 bits the higher 8. */
function sampleReader(row: Uint8Array, bitDepth: number): (index: number) => number {
  if (bitDepth === 8) return (index) => row[1 + index]!;
  if (bitDepth === 16) return (index) => row[1 + 2 * index]!;
  const perByte = 8 / bitDepth;
  const mask = 2 ** bitDepth - 1;
  return (index) => {
    const shift = 8 - bitDepth * (1 + (index % perByte));
    return (row[1 + Math.floor(index / perByte)]! >> shift) & mask;
  };
}

/** How opaque each pixel of a row is; undefined where all are. */
function alphaReader(
  row: Uint8Array,
  { header, transparency }: PngFile,
): ((column: number) => number) | undefined {
  const { bitDepth, samples, color } = header;
  const sample = sampleReader(row, bitDepth);
  if (samples % 2 === 0) return (column) => sample(column * samples + samples - 1);
  if (transparency.length === 0) return undefined;
  if (color === "palette") return (column) => transparency[sample(column)] ?? OPAQUE;
  const whole = bitDepth === 16 ? (index: number) => wholeSample(row, index) : sample;
  const clear = Array.from({ length: samples }, (_, c) => {
    return ((transparency[2 * c]! << 8) | transparency[2 * c + 1]!) & (2 ** bitDepth - 1);
  });
  return (column) => {
    const isClear = clear.every((value, c) => whole(column * samples + c) === value);
    return isClear ? 0 : OPAQUE;
  };
}

const wholeSample = (row: Uint8Array, index: number): number =>
  (row[1 + 2 * index]! << 8) | row[2 + 2 * index]!;

/** Undoes the filter that a row's first byte names. */
function unfilter(row: Uint8Array, above: Uint8Array, distance: number): void {
  const [filter] = row;
  const second = Math.min(1 + distance, row.length);
  switch (filter) {
    case 0:
      return;
    case 1:
      for (let i = second; i < row.length; i++) row[i]! += row[i - distance]!;
      return;
    case 2:
      for (let i = 1; i < row.length; i++) row[i]! += above[i]!;
      return;
    case 3:
      for (let i = 1; i < second; i++) row[i]! += above[i]! >> 1;
      for (let i = second; i < row.length; i++) row[i]! += (row[i - distance]! + above[i]!) >> 1;
      return;
    case 4:
      // The first pixel has no neighbour but the one above.
      for (let i = 1; i < second; i++) row[i]! += above[i]!;
      for (let i = second; i < row.length; i++) {
        row[i]! += paeth(row[i - distance]!, above[i]!, above[i - distance]!);
      }
      return;
    default:
      refuseImage(`filter ${filter} is unknown`);
  }
}

/** Of the three neighbours the one that is nearest to left + up - upLeft. */
function paeth(left: number, up: number, upLeft: number): number {
  const fromLeft = Math.abs(up - upLeft);
  const fromUp = Math.abs(left - upLeft);
  const fromUpLeft = Math.abs(left + up - 2 * upLeft);
  if (fromLeft <= fromUp && fromLeft <= fromUpLeft) return left;
  return fromUp <= fromUpLeft ? up : upLeft;
}
