import { describe, expect, it } from "vitest";
import { centralSquare, toShortestEdge } from "../../src/images/central_square.ts";
import { openImage } from "../../src/images/decode_image.ts";
import { dynamicSize, patchOrder, windowOrder } from "../../src/images/dynamic_size.ts";
import { bestResolution, paddedTiles } from "../../src/images/padded_tiles.ts";
import { cut, type Pixels } from "../../src/images/pixels.ts";
import { resample } from "../../src/images/resample.ts";
import { roundHalfEven } from "../../src/images/rounding.ts";
import { hasSharedData, sharedBytes, sharedJson, skipNote } from "../text/shared_data.ts";

interface Processed {
  readonly stages: Readonly<Record<string, { readonly file: string }>>;
  readonly grid_thw?: readonly [number, number, number];
  readonly tiles_wh?: readonly [number, number];
}

const RULE = { factor: 16, minPixels: 1024, maxPixels: 16384 };
const RESOLUTIONS = [
  [42, 42],
  [42, 84],
  [84, 42],
  [42, 126],
  [126, 42],
  [84, 84],
  [42, 168],
  [168, 42],
] as const;

const pixelsOf = (path: string): Promise<Pixels> =>
  openImage(sharedBytes(`vision/${path}`)).decode();
const decodedOf = (name: string) => pixelsOf(`images/decoded/${name.replace(".", "_")}.png`);
const processedOf = (model: string): readonly (readonly [string, Processed])[] =>
  hasSharedData
    ? Object.entries(
        sharedJson<{ images: Record<string, Processed> }>(`vision/golden/${model}.preprocess.json`)
          .images,
      )
    : [];

function expectSame(got: Pixels, want: Pixels): void {
  expect([got.width, got.height]).toEqual([want.width, want.height]);
  expect(Buffer.compare(got.rgb, want.rgb)).toBe(0);
}

describe.skipIf(!hasSharedData)(`pictures as the processors make them${skipNote}`, () => {
  for (const [name, { stages }] of processedOf("mini-llava")) {
    it(`LLaVA: ${name}`, async () => {
      const picture = await decodedOf(name);
      const resized = await resample(picture, toShortestEdge(picture, 56), "bicubic");
      expectSame(resized, await pixelsOf(`golden/${stages.resized!.file}`));
      const square = await centralSquare(picture, { side: 56, shortest: 56 });
      expectSame(square, await pixelsOf(`golden/${stages.crop!.file}`));
    });
  }

  for (const [name, { stages, grid_thw }] of processedOf("mini-qwen2.5-vl")) {
    it(`Qwen2.5-VL: ${name}`, async () => {
      const picture = await decodedOf(name);
      const size = dynamicSize(picture, RULE);
      expect([1, size.height / 8, size.width / 8]).toEqual(grid_thw);
      const resized = await resample(picture, size, "bicubic");
      expectSame(resized, await pixelsOf(`golden/${stages.resized!.file}`));
    });
  }

  for (const [name, { stages, tiles_wh }] of processedOf("mini-deepseek-vl2")) {
    it(`DeepSeek-VL2: ${name}`, async () => {
      const picture = await decodedOf(name);
      const size = bestResolution(picture, RESOLUTIONS);
      expect([size.width / 42, size.height / 42]).toEqual(tiles_wh);
      const [whole, ...tiles] = await paddedTiles(picture, { tileSide: 42, size });
      expectSame(whole!, await pixelsOf(`golden/${stages.global!.file}`));
      const local = await pixelsOf(`golden/${stages.local!.file}`);
      expect(tiles.length).toBe(tiles_wh![0] * tiles_wh![1]);
      tiles.forEach((tile, i) => {
        const [top, left] = [Math.floor(i / tiles_wh![0]) * 42, (i % tiles_wh![0]) * 42];
        expectSame(tile, cut(local, { width: 42, height: 42 }, { left, top }));
      });
    });
  }

  it("Qwen2.5-VL: fewer pixels at most", async () => {
    const rule = { ...RULE, maxPixels: 4096 };
    const sizes = ["photo.png", "tall.png"].map(async (name) => {
      const { width, height } = dynamicSize(await decodedOf(name), rule);
      return [height / 8, width / 8];
    });
    expect(await Promise.all(sizes)).toEqual([
      [6, 8],
      [12, 4],
    ]);
  });
});

describe("sizes", () => {
  it.each([
    [12.5, 12],
    [13.5, 14],
    [0.5, 0],
    [12.49, 12],
    [12.51, 13],
    [-0.5, 0],
  ])("%f is rounded to %i: halves to the even one", (value, rounded) => {
    expect(roundHalfEven(value) + 0).toBe(rounded);
  });

  it("small pictures grow to the fewest pixels", () => {
    expect(dynamicSize({ width: 8, height: 8 }, RULE)).toEqual({ width: 32, height: 32 });
    expect(dynamicSize({ width: 1, height: 100 }, RULE)).toEqual({ width: 16, height: 320 });
  });

  it("a square's picture that would become too long is refused", () => {
    expect(toShortestEdge({ width: 100, height: 9000 }, 336)).toEqual({
      width: 336,
      height: 30240,
    });
    expect(() => toShortestEdge({ width: 32768, height: 1 }, 336)).toThrow(
      "Cannot read the image: its shorter side brought to 336 pixels, the longer one is 11010048, more than 32768",
    );
  });

  it("of sizes that show as much the one that wastes least is taken, then the first", () => {
    const best = (width: number, height: number) => bestResolution({ width, height }, RESOLUTIONS);
    expect(best(10, 10)).toEqual({ width: 42, height: 42 });
    expect(best(84, 84)).toEqual({ width: 84, height: 84 });
    expect(best(30, 60)).toEqual({ width: 42, height: 84 });
  });

  it("lines that are too thin for a pixel have one", async () => {
    const line = { width: 400, height: 1, rgb: new Uint8Array(1200).fill(9) };
    const [whole] = await paddedTiles(line, { tileSide: 42, size: { width: 84, height: 42 } });
    expect(whole!.rgb.filter((value) => value === 9).length).toBe(42 * 3);
  });
});

describe("windows", () => {
  it("are row by row, smaller at the edges, and so are their units", () => {
    const { units, windows } = windowOrder({ rows: 3, columns: 5 }, 2);
    expect(windows).toEqual([4, 4, 2, 2, 2, 1]);
    expect(Array.from(units)).toEqual([0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14]);
  });

  it("patches of a unit are row by row", () => {
    expect(Array.from(patchOrder(Uint32Array.of(3, 0), 2, 2))).toEqual([
      10, 11, 14, 15, 0, 1, 4, 5,
    ]);
  });
});
