import { describe, expect, test } from "vitest";
import { onWhite } from "../../src/images/alpha.ts";
import { openImage } from "../../src/images/decode_image.ts";
import { sharpDecoder } from "../../src/node/media/sharp_decoder.ts";
import {
  ALPHA_GIF,
  ALPHA_SIZE,
  ALPHA_WEBP,
  alphaPixel,
  alphaValues,
  seenOf,
} from "../support/images/alpha_pictures.ts";
import { hasSharp, sharpNote } from "../support/images/has_sharp.ts";
import { chunksOf, joinPng, type PngKind, writePng } from "../support/images/write_png.ts";

const ALPHAS = ["drop", "white"] as const;
const { width, height } = ALPHA_SIZE;

const pixelsOf = async (file: Uint8Array, alpha: "drop" | "white") =>
  Array.from((await openImage(file, sharpDecoder, alpha).decode()).rgb);

/** The picture in colour and alpha; of 16 bits the lower eight tell nothing. */
const colours = (bitDepth: 8 | 16, interlaced = false) =>
  writePng({
    ...{ colorType: 6, bitDepth, interlaced, width, height },
    sample: (x, y, c) => {
      const value = alphaPixel(x, y)[c]!;
      return bitDepth === 8 ? value : value * 256 + ((x * 77 + y) % 256);
    },
  });

/** A file with a chunk of transparency in front of its rows. */
function withTransparency(file: Uint8Array, transparency: readonly number[]): Uint8Array {
  const chunks = chunksOf(file);
  const at = chunks.findIndex(([type]) => type === "IDAT");
  const chunk = ["tRNS", Uint8Array.from(transparency)] as const;
  return joinPng([...chunks.slice(0, at), chunk, ...chunks.slice(at)]);
}

test("white is what is behind a colour, as much of it as alpha leaves, rounded", () => {
  const seen = [
    [100, 255, 100],
    [100, 0, 255],
    [0, 0, 255],
    [0, 128, 127],
    [100, 128, 177],
    [255, 7, 255],
    [10, 254, 11],
  ] as const;
  for (const [value, alpha, want] of seen) expect(onWhite(value, alpha)).toBe(want);
});

describe.each(ALPHAS)("alpha: %s", (alpha) => {
  test.each([
    ["8 bits", colours(8)],
    ["8 bits, interlaced", colours(8, true)],
    ["16 bits", colours(16)],
  ])("a PNG of %s", async (_, file) => {
    expect(await pixelsOf(file, alpha)).toEqual(seenOf(alphaValues(), alpha));
  });

  test("pixels that were decoded elsewhere", async () => {
    const image = { ...ALPHA_SIZE, rgba: alphaValues() };
    const { rgb } = await openImage(image, undefined, alpha).decode();
    expect(Array.from(rgb)).toEqual(seenOf(alphaValues(), alpha));
  });

  test("a PNG of gray and alpha", async () => {
    const file = writePng({
      ...{ colorType: 4, bitDepth: 8, width: 3, height: 1 },
      sample: (x, _, c) => (c === 0 ? 60 : [0, 128, 255][x]!),
    });
    const want = alpha === "drop" ? [60, 60, 60] : [255, onWhite(60, 128), 60];
    expect(await pixelsOf(file, alpha)).toEqual(want.flatMap((value) => [value, value, value]));
  });

  const gray: PngKind = { colorType: 0, bitDepth: 4 };
  test("a PNG whose palette, or one of whose colours, is transparent", async () => {
    const on = (value: number, opacity: number) =>
      alpha === "drop" ? value : onWhite(value, opacity);
    const palette = [10, 20, 30, 40, 50, 60, 70, 80, 90];
    const size = { width: 3, height: 1 };
    const indexed = writePng({ ...size, colorType: 3, bitDepth: 2, palette, sample: (x) => x });
    // The last entry has no alpha of its own.
    expect(await pixelsOf(withTransparency(indexed, [0, 100]), alpha)).toEqual([
      ...[10, 20, 30].map((value) => on(value, 0)),
      ...[40, 50, 60].map((value) => on(value, 100)),
      ...[70, 80, 90],
    ]);
    const shades = writePng({ ...size, ...gray, sample: (x) => 5 * x });
    const seen = [0, on(85, 0), 170].flatMap((value) => [value, value, value]);
    expect(await pixelsOf(withTransparency(shades, [0, 5]), alpha)).toEqual(seen);
    // All 16 bits of all three samples count.
    const deep = writePng({
      ...{ ...size, colorType: 2, bitDepth: 16 },
      sample: (x, _, c) => 0x1234 + (c === 2 ? x : 0),
    });
    const key = [0x12, 0x34, 0x12, 0x34, 0x12, 0x35];
    const middle = on(0x12, 0);
    expect(await pixelsOf(withTransparency(deep, key), alpha)).toEqual([
      ...[0x12, 0x12, 0x12],
      ...[middle, middle, middle],
      ...[0x12, 0x12, 0x12],
    ]);
  });

  test.skipIf(!hasSharp)(`sharp and the own decoder see one picture${sharpNote}`, async () => {
    const own = await pixelsOf(colours(8), alpha);
    expect(await pixelsOf(ALPHA_WEBP, alpha)).toEqual(own);
    const gif = await pixelsOf(ALPHA_GIF, alpha);
    const hidden = (height / 2) * width * 3;
    expect(new Set(gif.slice(0, hidden))).toEqual(new Set([alpha === "drop" ? 0 : 255]));
    expect(gif.slice(hidden, hidden + 6)).toEqual([0, 129, 90, 21, 129, 111]);
  });
});

describe("transparency that is malformed", () => {
  const size = { width: 2, height: 1 };
  const rgb = writePng({ ...size, colorType: 2, bitDepth: 8, sample: () => 9 });
  const palette = [1, 2, 3, 4, 5, 6];
  const indexed = writePng({ ...size, colorType: 3, bitDepth: 1, palette, sample: () => 1 });
  const both = writePng({ ...size, colorType: 6, bitDepth: 8, sample: () => 9 });
  const broken = withTransparency(rgb, [0, 9, 0, 9, 0, 9]);
  broken[broken.findIndex((_, i) => broken.subarray(i, i + 4).join() === "116,82,78,83") + 5]! ^= 1;

  test.each([
    ["of a wrong length", withTransparency(rgb, [0, 9]), /its transparency has 2 bytes/],
    ["of more than the palette", withTransparency(indexed, [1, 2, 3]), /transparency has 3 bytes/],
    ["beside alpha", withTransparency(both, [0, 9, 0, 9, 0, 9]), /its transparency has 6 bytes/],
    ["with a wrong checksum", broken, /the checksum of its chunk "tRNS" is wrong/],
  ])("%s is refused where it is looked at, and only there", async (_, file, error) => {
    await expect(pixelsOf(file, "white")).rejects.toThrow(error);
    expect(await pixelsOf(file, "drop")).toHaveLength(6);
  });
});

test("pixels that are not as many as their size says are refused", () => {
  const rgba = new Uint8Array(12);
  const open = (size: { width: number; height: number }) => () => openImage({ ...size, rgba });
  expect(open({ width: 2, height: 2 })).toThrow("2 x 2 pixels are not 12 values");
  expect(open({ width: 0, height: 3 })).toThrow("it is 0 x 3 pixels large");
  expect(open({ width: 2 ** 16, height: 1 })).toThrow("a side of 65536 pixels");
});
