import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import type { ImageProcessor, PreparedImage } from "../../src/engine/images/prepared_image.ts";
import { type LoadedModel, loadModel } from "../../src/engine/load/load.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { openImage } from "../../src/images/decode_image.ts";
import { patchesOf } from "../../src/images/patches.ts";
import { tilesOf } from "../../src/images/picture_recipe.ts";
import type { Pixels } from "../../src/images/pixels.ts";
import { folderSource, SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { device, download, smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  picture,
  VISION_MODELS,
  type VisionModel,
  visionFolder,
  visionProcessor,
} from "../support/engines/vision_engine.ts";
import { sharedJson } from "../text/shared_data.ts";

interface StoredTensor {
  readonly shape: readonly number[];
  readonly b64: string;
}

type Tensors = Readonly<Record<string, StoredTensor>>;

interface Golden {
  readonly features: Tensors;
  readonly intermediates: Readonly<Record<string, { readonly tensors: Tensors }>>;
}

interface Preprocessed {
  readonly images: Readonly<
    Record<
      string,
      {
        /** The tensor is the first tile's; the sums are of each. */
        readonly pixel_values: {
          readonly tensor?: StoredTensor;
          readonly sum: readonly number[];
          readonly sum_of_squares: readonly number[];
        };
      }
    >
  >;
}

/** Of the largest value of a tensor: what the golden data allows. */
const TOLERANCE = 1e-4;

interface Kept {
  /** What stands in front of the names of a tile's tensors. */
  readonly tile: (index: number) => string;
  /** Tensors that are compared of a tile, how many. */
  readonly compared: number;
  /** Names that the data has in another order: compared by what they become. */
  readonly reordered?: readonly string[];
}

const KEPT: Readonly<Record<VisionModel, Kept>> = {
  "mini-smolvlm": { tile: (index) => `tile${index}.`, compared: 14 },
  "mini-llava": { tile: () => "", compared: 11 },
  "mini-qwen2.5-vl": {
    tile: () => "",
    compared: 13,
    reordered: ["vision.patch_embed", "projector.out"],
  },
  "mini-deepseek-vl2": { tile: (index) => (index === 0 ? "" : `tile${index}.`), compared: 11 },
};

const floatsOf = ({ b64 }: StoredTensor) =>
  new Float32Array(Uint8Array.from(Buffer.from(b64, "base64")).buffer);

/** Of the values that the data has: marks of lines may stand behind them. */
function error(got: ArrayLike<number>, want: Float32Array): number {
  expect(got.length).toBeGreaterThanOrEqual(want.length);
  const largest = want.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return want.reduce((most, value, i) => Math.max(most, Math.abs(got[i]! - value)), 0) / largest;
}

/** Values of a tile `[3, height, width]`, where the data has planes. */
function planesOf(tile: Pixels, values: Float32Array, side: number): Float32Array {
  const { width, height } = tile;
  const out = new Float32Array(3 * width * height);
  const stride = Math.ceil((3 * side * side) / 4) * 4;
  for (let i = 0; i < out.length; i++) {
    const [c, y, x] = [Math.floor(i / (width * height)), Math.floor(i / width) % height, i % width];
    const patch = Math.floor(y / side) * Math.floor(width / side) + Math.floor(x / side);
    out[i] = values[patch * stride + c * side * side + (y % side) * side + (x % side)]!;
  }
  return out;
}

/** On the slow driver one picture of one tower, which compiles for long. */
const MODELS = smallestCaseOnly ? VISION_MODELS.slice(0, 1) : VISION_MODELS;
const PICTURES = smallestCaseOnly ? ["tiny.png"] : ["photo.png", "tiny.png"];

describe.skipIf(SHARED_MODELS === undefined).each(MODELS)(
  "the vision tower of %s (needs ../shared/data)",
  (model) => {
    const { tile: prefixOf, compared: count, reordered = [] } = KEPT[model];
    let loaded: LoadedModel;
    let processor: ImageProcessor;
    let golden: Golden;

    beforeAll(async () => {
      golden = sharedJson(`vision/golden/${model}.vision.json`);
      const checkpoint = await Checkpoint.open(folderSource(visionFolder(model)));
      const options = { device, maxTotalTokens: 512, triesInvariance: false };
      loaded = await loadModel(checkpoint, options);
      processor = await visionProcessor(model, loaded.definition);
    });
    afterAll(() => loaded?.destroy());

    const open = async (name: string): Promise<[PreparedImage, readonly Pixels[]]> => {
      const pixels = await openImage(picture(name)).decode();
      const prepared = processor.prepare(pixels, { count: 1 });
      return [prepared, await tilesOf(pixels, prepared.recipe)];
    };

    test.each(PICTURES)("%s: pixels of every tile", async (name) => {
      const [prepared, tiles] = await open(name);
      const { images } = sharedJson<Preprocessed>(`vision/golden/${model}.preprocess.json`);
      const { tensor, sum, sum_of_squares } = images[name]!.pixel_values;
      const pixels = floatsOf(tensor!);
      expect(tiles.length).toBe(sum.length);
      for (const [i, tile] of tiles.entries()) {
        const { patches, grid } = await patchesOf(tile, prepared.recipe);
        const side = loaded.definition.vision!.patchSide;
        const got =
          model === "mini-qwen2.5-vl"
            ? inUnits(patches, grid.columns / 2, prepared.tokens)
            : planesOf(tile, patches, side);
        expect(got.length).toBe(pixels.length);
        const add = (of: (value: number) => number) => got.reduce((all, one) => all + of(one), 0);
        expect(add((value) => value)).toBeCloseTo(sum[i]!, 2);
        expect(add((value) => value ** 2)).toBeCloseTo(sum_of_squares[i]!, 2);
        if (i > 0) continue;
        const wrong = got.findIndex((value, at) => Math.abs(value - pixels[at]!) > 1e-6);
        expect(wrong).toBe(-1);
      }
    });

    test.each(PICTURES)("%s: what the tower makes of its first tile", async (name) => {
      const [prepared, [tile]] = await open(name);
      const taps = new Map<string, GPUBuffer>();
      const onTap = (tap: string, tensor: Tensor) => {
        const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
        const buffer = device.createBuffer({ size: tensor.size, usage });
        const target = { buffer, offset: 0, size: tensor.size };
        loaded.vision!.recorder.copy(tensor, target, tensor.size);
        taps.set(tap, buffer);
      };
      await loaded.vision!.run(await patchesOf(tile!, prepared.recipe), { onTap });
      const { tensors } = golden.intermediates[name]!;
      const compared: string[] = [];
      for (const [tap, buffer] of taps) {
        const got = new Float32Array(await download(buffer));
        buffer.destroy();
        if (reordered.includes(tap)) continue;
        const want = tensors[`${prefixOf(0)}${tap}`];
        expect(want, tap).toBeDefined();
        expect(error(got, floatsOf(want!)), tap).toBeLessThan(TOLERANCE);
        compared.push(tap);
      }
      expect(compared.length).toBe(count);
    });

    test("features of every picture, the same bits each time", async () => {
      for (const [name, want] of Object.entries(golden.features)) {
        if (smallestCaseOnly && !PICTURES.includes(name)) continue;
        const [prepared, tiles] = await open(name);
        const see = async () => {
          const rows = [];
          for (const tile of tiles)
            rows.push(await loaded.vision!.run(await patchesOf(tile, prepared.recipe)));
          return prepared.join(rows).flatMap((row) => Array.from(row));
        };
        const got = await see();
        expect(got.length, name).toBe(floatsOf(want).length);
        expect(got.length / want.shape[1]!).toBe(prepared.tokens);
        expect(error(got, floatsOf(want)), name).toBeLessThan(TOLERANCE);
        expect(await see()).toEqual(got);
      }
    });
  },
);

/** From the order of windows to that of units: the data has the patches of a unit one behind the other. */
function inUnits(patches: Float32Array, columns: number, units: number): Float32Array {
  const width = patches.length / units;
  const out = new Float32Array(patches.length);
  const window = 4;
  const rows = units / columns;
  let place = 0;
  for (let top = 0; top < rows; top += window) {
    for (let left = 0; left < columns; left += window) {
      for (let y = top; y < Math.min(top + window, rows); y++) {
        for (let x = left; x < Math.min(left + window, columns); x++) {
          const unit = patches.subarray(place * width, (place + 1) * width);
          out.set(unit, (y * columns + x) * width);
          place += 1;
        }
      }
    }
  }
  return out;
}
