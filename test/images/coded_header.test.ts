import { describe, expect, it } from "vitest";
import { type CodedKind, readCodedSize } from "../../src/images/coded_header.ts";
import { codedKindOf } from "../../src/images/coded_image.ts";
import { openImage } from "../../src/images/decode_image.ts";
import { hasSharedData, sharedBytes, skipNote } from "../text/shared_data.ts";

const FILES = [
  ["exif.jpg", "JPEG"],
  ["square.jpg", "JPEG"],
  ["gray.jpg", "JPEG"],
  ["big.jpg", "JPEG"],
  ["wide.webp", "WebP"],
  ["lossless.webp", "WebP"],
  ["anim.gif", "GIF"],
] as const;

describe.skipIf(!hasSharedData)(`sizes of files${skipNote}`, () => {
  it.each(FILES)("%s", (name, kind) => {
    const bytes = sharedBytes(`vision/images/${name}`);
    expect(codedKindOf(bytes)).toBe(kind);
    const decoded = `vision/images/decoded/${name.replace(".", "_")}.png`;
    const { width, height } = openImage(sharedBytes(decoded));
    expect(readCodedSize(bytes, kind)).toEqual({ width, height });
  });
});

const be16 = (value: number) => [value >> 8, value & 255];
const le16 = (value: number) => [value & 255, value >> 8];
const le32 = (value: number) => [...le16(value & 0xffff), ...le16(value >>> 16)];
const letters = (text: string) => Array.from(text, (letter) => letter.charCodeAt(0));

/** A directory of one entry, the orientation. */
function exif(orientation: number, isLittle: boolean): number[] {
  const word = isLittle ? le16 : be16;
  const long = (value: number) => (isLittle ? [...word(value), 0, 0] : [0, 0, ...word(value)]);
  const entry = [...word(0x0112), ...word(3), ...long(1), ...word(orientation), 0, 0];
  return [...letters(isLittle ? "II" : "MM"), ...word(42), ...long(8), ...word(1), ...entry];
}

it("other kinds with the name of one at its place are none", () => {
  for (const begin of ['<svg a="', "II*\0\b\0\0\0", "\x89PNG\r\n\x1a\n"]) {
    const bytes = Uint8Array.from(letters(`${begin}WEBPVP8L${" ".repeat(40)}`));
    expect(codedKindOf(bytes), begin).toBeUndefined();
  }
});

/** A directory that is said to begin elsewhere, or to have more entries than there are. */
const brokenExif = (at: number, count = 1) => [
  ...[...letters("II"), ...le16(42), ...le32(at)],
  ...[...le16(count), ...le16(7), ...le16(3), ...le32(1), ...le32(0)],
];

const segment = (marker: number, body: readonly number[]) => [
  ...[0xff, marker],
  ...be16(body.length + 2),
  ...body,
];
const frame = (width: number, height: number, marker = 0xc0) =>
  segment(marker, [8, ...be16(height), ...be16(width), 3]);
const jpeg = (...segments: readonly (readonly number[])[]) => [0xff, 0xd8, ...segments.flat()];
const jpegExif = (orientation: number, isLittle = true) =>
  segment(0xe1, [...letters("Exif\0\0"), ...exif(orientation, isLittle)]);

function webp(...chunks: readonly (readonly [name: string, body: readonly number[]])[]): number[] {
  const all = chunks.flatMap(([name, body]) => [
    ...letters(name),
    ...le32(body.length),
    ...body,
    ...(body.length % 2 === 0 ? [] : [0]),
  ]);
  return [...letters("RIFF"), ...le32(all.length + 4), ...letters("WEBP"), ...all];
}
const canvas = (flags: number) => [flags, 0, 0, 0, 39, 0, 0, 19, 0, 0];

describe("sizes in headers", () => {
  it.each<[string, CodedKind, readonly number[], readonly [number, number]]>([
    ["a JPEG", "JPEG", jpeg(frame(40, 20)), [40, 20]],
    ["progressive", "JPEG", jpeg(segment(0xdb, [1, 2]), frame(40, 20, 0xc2)), [40, 20]],
    ["behind tables", "JPEG", jpeg(segment(0xc4, [9, 9, 9, 9, 9, 9]), frame(40, 20)), [40, 20]],
    ["behind filling bytes", "JPEG", jpeg([0xff, 0xff], frame(40, 20)), [40, 20]],
    ["lying on its side", "JPEG", jpeg(jpegExif(6), frame(40, 20)), [20, 40]],
    ["in the other order of bytes", "JPEG", jpeg(jpegExif(8, false), frame(40, 20)), [20, 40]],
    ["upside down", "JPEG", jpeg(jpegExif(3), frame(40, 20)), [40, 20]],
    ["of an unknown orientation", "JPEG", jpeg(jpegExif(99), frame(40, 20)), [40, 20]],
    [
      "of a directory behind the file",
      "JPEG",
      jpeg(segment(0xe1, [...letters("Exif\0\0"), ...brokenExif(0x7fffff)]), frame(40, 20)),
      [40, 20],
    ],
    [
      "a WebP of entries behind the file",
      "WebP",
      webp(["VP8X", canvas(8)], ["EXIF", brokenExif(8, 9)]),
      [40, 20],
    ],
    [
      "a WebP whose Exif is cut",
      "WebP",
      webp(["VP8X", canvas(8)], ["EXIF", [...letters("II"), 42]]),
      [40, 20],
    ],
    ["a WebP with a canvas", "WebP", webp(["VP8X", canvas(0)]), [40, 20]],
    ["on its side", "WebP", webp(["VP8X", canvas(8)], ["EXIF", exif(6, true)]), [20, 40]],
    [
      "on its side behind others",
      "WebP",
      webp(
        ["VP8X", canvas(8)],
        ["ALPH", [1]],
        ["EXIF", [...letters("Exif\0\0"), ...exif(5, true)]],
      ),
      [20, 40],
    ],
    ["a GIF", "GIF", [...letters("GIF89a"), ...le16(40), ...le16(20)], [40, 20]],
  ])("%s", (_, kind, bytes, [width, height]) => {
    expect(readCodedSize(Uint8Array.from(bytes), kind)).toEqual({ width, height });
  });

  it.each<[string, CodedKind, readonly number[], string]>([
    ["a cut JPEG", "JPEG", jpeg(frame(40, 20)).slice(0, 8), "the file ends within its header"],
    ["one of rows alone", "JPEG", jpeg(segment(0xda, [1])), "it has no size in front of its rows"],
    ["bytes between segments", "JPEG", jpeg([7], frame(4, 4)), "it has bytes between its segments"],
    ["a cut directory", "JPEG", jpeg(jpegExif(6).slice(0, 20)), "the file ends within its header"],
    [
      "segments without an end",
      "JPEG",
      jpeg(...Array.from({ length: 2000 }, () => segment(0xfe, [])), frame(4, 4)),
      "it has no size in front of its rows",
    ],
    ["no pixels", "JPEG", jpeg(frame(40, 0)), "it is 40 x 0 pixels large"],
    ["a bomb", "JPEG", jpeg(frame(30000, 30000)), "30000 x 30000 pixels are more than 33554432"],
    ["a long GIF", "GIF", [...letters("GIF89a"), ...le16(65535), ...le16(1)], "a side of 65535"],
    ["a cut GIF", "GIF", letters("GIF89a"), "the file ends within its header"],
    ["a WebP without a picture", "WebP", webp(["ICCP", [1, 2, 3, 4]]), "it has no size"],
  ])("%s is refused", (_, kind, bytes, message) => {
    expect(() => readCodedSize(Uint8Array.from(bytes), kind)).toThrow(
      `Cannot read the image: ${message}`,
    );
  });
});

describe("images that the platform decodes", () => {
  const bytes = Uint8Array.from(jpeg(frame(2, 1)));

  it("lose their alpha, and hidden colours show", async () => {
    const rgba = Uint8Array.of(1, 2, 3, 0, 4, 5, 6, 255);
    const opened = openImage(bytes, async ({ width, height }) => ({ width, height, rgba }));
    expect([opened.width, opened.height]).toEqual([2, 1]);
    expect((await opened.decode()).rgb).toEqual(Uint8Array.of(1, 2, 3, 4, 5, 6));
  });

  it("must be as large as their header says", async () => {
    const decode = async () => ({ width: 1, height: 2, rgba: new Uint8Array(8) });
    await expect(openImage(bytes, decode).decode()).rejects.toThrow(
      "Cannot read the image: its header says 2 x 1 pixels, and it is decoded to 1 x 2",
    );
  });

  it("are named where there is no decoder, as others are where there is one", () => {
    expect(() => openImage(bytes)).toThrow("it is a JPEG, and only PNG is decoded");
    const other = Uint8Array.from(letters("BM......"));
    expect(() => openImage(other, () => Promise.reject(new Error("unused")))).toThrow(
      "it is a BMP, and PNG, JPEG, WebP and GIF are decoded",
    );
  });
});
