import { deflateSync } from "node:zlib";
import { describe, expect, it, vi } from "vitest";
import { openImage } from "../../src/images/decode_image.ts";
import { turns } from "../../src/turns.ts";
import { joinPng, type PngKind, samplesOf, writePng } from "../support/images/write_png.ts";
import { seeded } from "../support/seeded.ts";

const KINDS: readonly PngKind[] = (
  [
    [0, [1, 2, 4, 8, 16]],
    [2, [8, 16]],
    [3, [1, 2, 4, 8]],
    [4, [8, 16]],
    [6, [8, 16]],
  ] as const
).flatMap(([colorType, depths]) =>
  depths.flatMap((bitDepth) => [
    { colorType, bitDepth },
    { colorType, bitDepth, interlaced: true },
  ]),
);

const nameOf = ({ colorType, bitDepth, interlaced = false }: PngKind) =>
  `colour type ${colorType}, ${bitDepth} bits${interlaced ? ", interlaced" : ""}`;

/** Of a sample, as 8 bits. */
const toByte = (value: number, bits: number) =>
  bits === 16 ? value >> 8 : Math.round((value * 255) / (2 ** bits - 1));

describe("a PNG of each kind has the pixels that were written", () => {
  for (const kind of KINDS) {
    it(nameOf(kind), async () => {
      for (const [width, height] of [
        [13, 11],
        [1, 9],
        [3, 1],
      ] as const) {
        const random = seeded(width * 100 + height);
        const samples = samplesOf(kind);
        const palette = Array.from({ length: 3 * 2 ** Math.min(kind.bitDepth, 8) }, () =>
          Math.floor(random() * 256),
        );
        const values = Array.from({ length: width * height * samples }, () =>
          Math.floor(random() * 2 ** kind.bitDepth),
        );
        const file = writePng({
          ...kind,
          width,
          height,
          ...(kind.colorType === 3 && { palette }),
          sample: (x, y, c) => values[(y * width + x) * samples + c]!,
        });
        const opened = openImage(file);
        expect([opened.width, opened.height]).toEqual([width, height]);
        const { rgb } = await opened.decode();
        const want = Array.from({ length: width * height }, (_, i) => {
          const pixel = values.slice(i * samples, (i + 1) * samples);
          if (kind.colorType === 3) return palette.slice(3 * pixel[0]!, 3 * pixel[0]! + 3);
          const bytes = pixel.map((value) => toByte(value, kind.bitDepth));
          return samples < 3 ? [bytes[0]!, bytes[0]!, bytes[0]!] : bytes.slice(0, 3);
        }).flat();
        expect(Array.from(rgb)).toEqual(want);
      }
    });
  }
});

const header = (width: number, height: number, rest: readonly number[] = [8, 0, 0, 0, 0]) => {
  const body = Buffer.alloc(13);
  body.writeUInt32BE(width, 0);
  body.writeUInt32BE(height, 4);
  body.set(rest, 8);
  return ["IHDR", body] as const;
};
const rows = (bytes: readonly number[]) => ["IDAT", deflateSync(Buffer.from(bytes))] as const;
const rest = ["teXt", Buffer.alloc(0)] as const;
const end = ["IEND", Buffer.alloc(0)] as const;
const palette = ["PLTE", Buffer.alloc(3)] as const;
const crowded = joinPng([header(1, 1), ...Array.from({ length: 8192 }, () => rest)]);

const REFUSED: readonly (readonly [name: string, bytes: Uint8Array, error: RegExp])[] = [
  ["a JPEG", Uint8Array.from([0xff, 0xd8, 0xff, 0xe0]), /it is a JPEG, and only PNG/],
  ["a GIF", Buffer.from("GIF89a...."), /it is a GIF, and only PNG/],
  ["a WebP", Buffer.from("RIFF....WEBPVP8 "), /it is a WebP, and only PNG/],
  ["a text", Buffer.from("no image"), /no image's that is known/],
  ["nothing", new Uint8Array(0), /no image's that is known/],
  ["a signature alone", joinPng([]), /no header/],
  ["too many pixels", joinPng([header(30000, 30000)]), /are more than 33554432/],
  ["a side that is too long", joinPng([header(1, 4294967295)]), /a side of 4294967295/],
  ["no width", joinPng([header(0, 7)]), /0 x 7/],
  ["a depth that its type has not", joinPng([header(1, 1, [16, 3, 0, 0, 0])]), /type 3 with 16/],
  ["another interlace", joinPng([header(1, 1, [8, 0, 0, 0, 2])]), /interlace 2/],
  ["two headers", joinPng([header(1, 1), header(1, 1)]), /two headers/],
  ["rows without a header", joinPng([rows([0, 0])]), /first chunk is no header/],
  ["no rows", joinPng([header(1, 1), end]), /no rows/],
  ["no palette", joinPng([header(1, 1, [8, 3, 0, 0, 0]), rows([0, 0])]), /no palette/],
  ["a critical chunk", joinPng([header(1, 1), ["CgBI", Buffer.alloc(1)]]), /"CgBI" is unknown/],
  ["a long palette", joinPng([header(1, 1), ["PLTE", Buffer.alloc(2 ** 24)]]), /its palette has/],
  ["crowds of chunks", crowded, /more than 8192 chunks/],
  ["two palettes", joinPng([header(1, 1), palette, palette, rows([0, 0])]), /two palettes/],
  ["a cut file", joinPng([header(1, 1), rows([0, 0])]).subarray(0, -5), /ends within a chunk/],
  ["few rows", joinPng([header(1, 9), rows([0, 1, 0, 2])]), /end before the picture/],
  ["an unknown filter", joinPng([header(1, 1), rows([5, 1])]), /filter 5/],
  ["rows that are no zlib", joinPng([header(1, 1), ["IDAT", Buffer.from("junk")]]), /compressed/],
];

it("rows may come in thousands of chunks, some of them empty", async () => {
  const values = Array.from({ length: 64 * 65 }, (_, i) => (i % 65 ? i : 0));
  const body = deflateSync(Buffer.from(values), { level: 0 });
  const chunks = Array.from(body, (_, i) => ["IDAT", body.subarray(i, i + 1)] as const);
  const empty = Array.from({ length: 3000 }, () => ["IDAT", Buffer.alloc(0)] as const);
  const file = joinPng([header(64, 64), ...chunks, ...empty, end]);
  const { rgb } = await openImage(file).decode();
  const want = values.filter((_, i) => i % 65).map((value) => value % 256);
  expect(Array.from({ length: 64 * 64 }, (_, i) => rgb[3 * i])).toEqual(want);
});

it("rows that go on behind the picture are left, and fail nothing later", async () => {
  const bomb = (byte: number) =>
    joinPng([header(64, 64), ["IDAT", deflateSync(Buffer.alloc(2 ** 24, byte))], end]);
  const [whole, wrong] = [bomb(0), bomb(5)];
  const before = process.memoryUsage().external;
  for (let i = 0; i < 150; i++) {
    const { rgb } = await openImage(whole).decode();
    expect(rgb.some((byte) => byte !== 0)).toBe(false);
    await expect(openImage(wrong).decode()).rejects.toThrow(/filter 5/);
    await new Promise((done) => setTimeout(done, i % 3));
  }
  // Inflated, they are 4.7 GiB.
  expect(process.memoryUsage().external - before).toBeLessThan(2 ** 29);
});

it("a walk along many chunks lets other work have its turns", async () => {
  const isOver = vi.fn();
  while (!turns.isDue);
  const over = openImage(crowded).decode().catch(isOver);
  for (let i = 0; i < 10; i++) await Promise.resolve();
  const wasOver = isOver.mock.calls.length > 0;
  await over;
  expect([wasOver, isOver.mock.calls.length]).toEqual([false, 1]);
});

describe("what is no PNG is refused", () => {
  for (const [name, bytes, error] of REFUSED) {
    it(name, async () => {
      await expect((async () => openImage(bytes).decode())()).rejects.toThrow(error);
    });
  }

  it("a wrong checksum of the header and of the rows", async () => {
    const file = writePng({ colorType: 0, bitDepth: 8, width: 3, height: 3, sample: () => 77 });
    const broken = (at: number) => file.map((byte, i) => (i === at ? byte ^ 1 : byte));
    await expect((async () => openImage(broken(29)))()).rejects.toThrow(/checksum .*"IHDR"/);
    const check = Buffer.from(file).indexOf("IEND") - 9;
    await expect(openImage(broken(check)).decode()).rejects.toThrow(/compressed in no way/);
  });

  it("opening one looks at its header alone", async () => {
    const chunks = Array.from({ length: 8000 }, () => rest);
    const file = joinPng([header(2, 3), ...chunks, rows([0, 1, 1, 0, 2, 2, 0, 3, 3])]);
    let looks = 0;
    const watched = new Proxy(file, {
      get: (target, name) => {
        looks += 1;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const { width, height } = openImage(watched);
    expect([width, height]).toEqual([2, 3]);
    expect(looks).toBeLessThan(100);
    await expect(openImage(file.subarray(0, 40)).decode()).rejects.toThrow(
      /within a chunk|no rows/,
    );
  });

  it("a thousand broken files end with an error or with pixels, and nothing else", async () => {
    const random = seeded(7);
    const palette = Array.from({ length: 48 }, (_, i) => 5 * i);
    const kind = { colorType: 3, bitDepth: 4, interlaced: true } as const;
    const sample = (x: number, y: number) => (x * y) % 16;
    const whole = writePng({ ...kind, width: 40, height: 30, palette, sample });
    const outcomes = { pixels: 0, errors: 0 };
    for (let i = 0; i < 1000; i++) {
      const bytes = Uint8Array.from(whole).subarray(0, Math.ceil(random() * 2 * whole.length));
      for (let k = 0; k < 3; k++) bytes[Math.floor(random() * bytes.length)]! ^= random() * 256;
      try {
        await openImage(bytes).decode();
        outcomes.pixels += 1;
      } catch (error) {
        expect((error as Error).message).toMatch(/^Cannot read the image: /);
        outcomes.errors += 1;
      }
    }
    expect(outcomes.errors).toBeGreaterThan(500);
  });
});
