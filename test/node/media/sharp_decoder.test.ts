import { describe, expect, test } from "vitest";
import { openImage } from "../../../src/images/decode_image.ts";
import type { Pixels } from "../../../src/images/pixels.ts";
import { sharpDecoder } from "../../../src/node/media/sharp_decoder.ts";
import { hasSharp, sharpNote } from "../../support/images/has_sharp.ts";
import { hasSharedData, sharedBytes } from "../../text/shared_data.ts";

const decodedOf = (name: string): Promise<Pixels> =>
  openImage(sharedBytes(`vision/images/decoded/${name.replace(".", "_")}.png`)).decode();

describe.skipIf(!hasSharp || !hasSharedData)(`JPEG, WebP and GIF${sharpNote}`, () => {
  test.each([
    ["lossless.webp", 0],
    ["anim.gif", 0],
    // Decoders round chroma differently.
    ["gray.jpg", 1],
    ["exif.jpg", 3],
    ["square.jpg", 3],
    ["big.jpg", 3],
    ["wide.webp", 3],
  ])("%s has the pixels of the reference, but for %i of 255", async (name, most) => {
    const { width, height, rgb } = await openImage(
      sharedBytes(`vision/images/${name}`),
      sharpDecoder,
    ).decode();
    const want = await decodedOf(name);
    expect([width, height]).toEqual([want.width, want.height]);
    const off = rgb.map((value, i) => Math.abs(value - want.rgb[i]!));
    const mean = off.reduce((sum, value) => sum + value, 0) / off.length;
    expect(mean).toBeLessThanOrEqual(most / 2);
    const far = off.filter((value) => value > most).length;
    expect(far / off.length).toBeLessThanOrEqual(0.01);
  });

  test("a file that is cut off is refused", async () => {
    const bytes = sharedBytes("vision/images/square.jpg").subarray(0, 700);
    await expect(openImage(bytes, sharpDecoder).decode()).rejects.toThrow(
      /^Cannot read the image: sharp cannot decode the JPEG \(/,
    );
  });
});

test.skipIf(hasSharp)("without sharp an error says what to install", async () => {
  const bytes = Uint8Array.of(0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0, 2, 0, 2, 1, 1, 0x11, 0);
  await expect(openImage(bytes, sharpDecoder).decode()).rejects.toThrow(
    "Cannot use images of the kind JPEG: it takes the package sharp, which is not installed: npm install sharp",
  );
});
