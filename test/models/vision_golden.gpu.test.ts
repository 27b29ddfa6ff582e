import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { type LoadedModel, loadModel } from "../../src/engine/load/load.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { openImage } from "../../src/images/decode_image.ts";
import { tilePicture } from "../../src/images/image_tiles.ts";
import { patchesOf } from "../../src/images/patches.ts";
import type { Pixels } from "../../src/images/pixels.ts";
import { folderSource, SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { device, download } from "../support/devices/gpu.ts";
import { sharedBytes, sharedJson } from "../text/shared_data.ts";

interface StoredTensor {
  readonly shape: readonly number[];
  readonly b64: string;
}

interface Golden {
  readonly features: Readonly<Record<string, StoredTensor>>;
  readonly intermediates: Readonly<
    Record<string, { readonly tensors: Readonly<Record<string, StoredTensor>> }>
  >;
}

interface Preprocessed {
  readonly images: Readonly<
    Record<string, { readonly pixel_values: { readonly tensor?: StoredTensor } }>
  >;
}

const SCALE = { rescale: 1 / 255, mean: [0.5, 0.5, 0.5], deviation: [0.5, 0.5, 0.5] };
const TILES = { longestEdge: 192, tileSide: 64, splits: true };
/** Of the largest value of a tensor: what the golden data allows. */
const TOLERANCE = 1e-4;

const floatsOf = ({ b64 }: StoredTensor) =>
  new Float32Array(Uint8Array.from(Buffer.from(b64, "base64")).buffer);

function error(got: ArrayLike<number>, want: Float32Array): number {
  expect(got.length).toBe(want.length);
  const largest = want.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return want.reduce((most, value, i) => Math.max(most, Math.abs(got[i]! - value)), 0) / largest;
}

describe.skipIf(SHARED_MODELS === undefined)("a vision tower (needs ../shared/data)", () => {
  let loaded: LoadedModel;
  let golden: Golden;

  beforeAll(async () => {
    golden = sharedJson("vision/golden/mini-smolvlm.vision.json");
    const folder = join(SHARED_MODELS!, "../vision/models/mini-smolvlm");
    const checkpoint = await Checkpoint.open(folderSource(folder));
    loaded = await loadModel(checkpoint, { device, maxTotalTokens: 512, triesInvariance: false });
  });
  afterAll(() => loaded?.destroy());

  const patches = (tile: Pixels) =>
    patchesOf(tile, SCALE, { patchSide: 8, stride: loaded.vision!.patchStride });
  const tilesOf = async (path: string) => {
    const picture = await openImage(sharedBytes(path)).decode();
    return (await tilePicture(picture, TILES)).tiles;
  };

  test.each(["photo.png", "tiny.png"])(
    "%s: pixels and what the tower makes of them",
    async (name) => {
      const [tile] = await tilesOf(`vision/images/${name}`);
      const { images } = sharedJson<Preprocessed>("vision/golden/mini-smolvlm.preprocess.json");
      const pixels = floatsOf(images[name]!.pixel_values.tensor!);
      const rows = patches(tile!);
      const unfolded = pixels.map((_, i) => {
        const [c, y, x] = [Math.floor(i / 4096), Math.floor(i / 64) % 64, i % 64];
        const patch = Math.floor(y / 8) * 8 + Math.floor(x / 8);
        return rows[patch * 192 + c * 64 + (y % 8) * 8 + (x % 8)]!;
      });
      pixels.forEach((value, i) => {
        if (Math.abs(value - unfolded[i]!) > 1e-6) expect(unfolded[i], `pixel ${i}`).toBe(value);
      });

      const taps = new Map<string, GPUBuffer>();
      const onTap = (tap: string, tensor: Tensor) => {
        const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
        const buffer = device.createBuffer({ size: tensor.size, usage });
        loaded.vision!.recorder.copy(tensor, { buffer, offset: 0, size: tensor.size }, tensor.size);
        taps.set(tap, buffer);
      };
      const features = await loaded.vision!.run(rows, { onTap });
      const { tensors } = golden.intermediates[name]!;
      const compared: string[] = [];
      for (const [tap, buffer] of taps) {
        const want = tensors[`tile0.${tap}`];
        expect(want, tap).toBeDefined();
        const got = new Float32Array(await download(buffer));
        expect(error(got, floatsOf(want!)), tap).toBeLessThan(TOLERANCE);
        compared.push(tap);
        buffer.destroy();
      }
      expect(compared.length).toBe(14);
      const all = features.flatMap((row) => Array.from(row));
      expect(error(all, floatsOf(tensors["tile0.projector.out"]!))).toBeLessThan(TOLERANCE);
    },
  );

  test("features of every picture, the same bits each time", async () => {
    for (const [name, want] of Object.entries(golden.features)) {
      const tiles = await tilesOf(`vision/images/decoded/${name.replace(".", "_")}.png`);
      const rows: number[] = [];
      for (const tile of tiles) {
        for (const row of await loaded.vision!.run(patches(tile))) rows.push(...row);
      }
      expect(error(rows, floatsOf(want)), name).toBeLessThan(TOLERANCE);
      const again = await loaded.vision!.run(patches(tiles[0]!));
      expect(again.flatMap((row) => Array.from(row))).toEqual(rows.slice(0, again.length * 96));
    }
  });
});
