import { describe, expect, it } from "vitest";
import { openImage } from "../../src/images/decode_image.ts";
import { tileGrid, tilePicture } from "../../src/images/image_tiles.ts";
import type { Pixels } from "../../src/images/pixels.ts";
import { resample } from "../../src/images/resample.ts";
import { hasSharedData, sharedBytes, sharedJson, skipNote } from "../text/shared_data.ts";

interface Stage {
  readonly file: string;
  readonly width: number;
  readonly height: number;
}

interface Golden {
  readonly images: Readonly<
    Record<
      string,
      {
        readonly stages: { readonly [name in "longest_edge" | "multiple" | "global"]?: Stage };
        readonly without_splitting: { readonly file: string };
        readonly rows: number;
        readonly cols: number;
      }
    >
  >;
}

const CONFIG = { longestEdge: 192, tileSide: 64, splits: true };
const pixelsOf = (path: string): Promise<Pixels> =>
  openImage(sharedBytes(`vision/${path}`)).decode();

describe.skipIf(!hasSharedData)(`pictures as the processor makes them${skipNote}`, () => {
  const golden = hasSharedData
    ? sharedJson<Golden>("vision/golden/mini-smolvlm.preprocess.json").images
    : {};

  for (const [name, { stages, without_splitting, rows, cols }] of Object.entries(golden)) {
    it(name, async () => {
      const decoded = await pixelsOf(`images/decoded/${name.replace(".", "_")}.png`);
      const picture = name.endsWith(".png") ? await pixelsOf(`images/${name}`) : decoded;
      expectSame(picture, decoded);
      expect(tileGrid(picture, CONFIG)).toEqual({ rows, columns: cols });
      const tiled = await tilePicture(picture, CONFIG);
      expect([tiled.rows, tiled.columns]).toEqual([rows, cols]);
      const split = await pixelsOf(`golden/${stages.multiple!.file}`);
      expectSame(joined(tiled.tiles.slice(0, -1), cols), split);
      expectSame(tiled.tiles.at(-1)!, await pixelsOf(`golden/${stages.global!.file}`));
      const alone = await tilePicture(picture, { ...CONFIG, splits: false });
      expect(alone).toMatchObject({ rows: 0, columns: 0 });
      expectSame(alone.tiles[0]!, await pixelsOf(`golden/${without_splitting.file}`));
    });
  }
});

describe("pictures of unusual sizes", () => {
  it("small and narrow ones have a pixel on each side at least", async () => {
    const line: Pixels = { width: 400, height: 1, rgb: new Uint8Array(1200).fill(9) };
    expect(tileGrid(line, CONFIG)).toEqual({ rows: 1, columns: 3 });
    const { tiles } = await tilePicture(line, CONFIG);
    for (const { rgb } of tiles) expect(new Set(rgb)).toEqual(new Set([9]));
  });

  it("what fits one tile is one tile", async () => {
    const size = { width: 30, height: 20, rgb: new Uint8Array(1800) };
    const config = { longestEdge: 64, tileSide: 64, splits: true };
    const { tiles, ...grid } = await tilePicture(size, config);
    expect(grid).toEqual({ rows: 0, columns: 0 });
    expect(tiles.length).toBe(1);
  });

  it("a picture of the same size is not touched", async () => {
    const picture = { width: 2, height: 2, rgb: Uint8Array.from({ length: 12 }, (_, i) => 20 * i) };
    expect(await resample(picture, { width: 2, height: 2 }, "lanczos")).toBe(picture);
  });
});

function expectSame(got: Pixels, want: Pixels): void {
  expect([got.width, got.height]).toEqual([want.width, want.height]);
  expect(Buffer.compare(got.rgb, want.rgb)).toBe(0);
}

function joined(tiles: readonly Pixels[], columns: number): Pixels {
  const side = tiles[0]!.width;
  const [width, height] = [columns * side, (tiles.length / columns) * side];
  const rgb = new Uint8Array(width * height * 3);
  tiles.forEach((tile, i) => {
    const [top, left] = [Math.floor(i / columns) * side, (i % columns) * side];
    for (let y = 0; y < side; y++) {
      const row = tile.rgb.subarray(y * side * 3, (y + 1) * side * 3);
      rgb.set(row, ((top + y) * width + left) * 3);
    }
  });
  return { width, height, rgb };
}
