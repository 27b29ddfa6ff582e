/**
 * Vision towers in the shapes of published models, with random weights. Text models are small, and
 * towers have one layer, or one of each kind: the reference takes ten seconds for each.
 */
import { describe, expect, test } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import {
  type RandomVision,
  randomVision,
  type VisionFamily,
} from "../../support/checkpoints/random_vision.ts";
import { device, fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { largestError, randomTile, SCALE, towerRows } from "../../support/images/tower_rows.ts";
import { ReferenceVision } from "../../support/reference/reference_vision.ts";

interface TrueShape extends RandomVision {
  readonly name: string;
  readonly family: VisionFamily;
  /** Rows that a picture becomes. */
  readonly rows: number;
  readonly size?: readonly [width: number, height: number];
}

const SHAPES: readonly TrueShape[] = [
  {
    name: "SmolVLM-256M",
    family: "idefics3",
    vision: {
      hidden_size: 768,
      intermediate_size: 3072,
      image_size: 512,
      patch_size: 16,
      num_attention_heads: 12,
      num_hidden_layers: 1,
    },
    top: { scale_factor: 4 },
    rows: 64,
  },
  {
    name: "LLaVA-1.5-7B",
    family: "llava",
    vision: {
      hidden_size: 1024,
      intermediate_size: 4096,
      image_size: 336,
      patch_size: 14,
      num_attention_heads: 16,
      // The last one is not read.
      num_hidden_layers: 2,
    },
    rows: 576,
  },
  {
    name: "Qwen2.5-VL-3B",
    family: "qwen2_5_vl",
    vision: {
      hidden_size: 1280,
      intermediate_size: 3420,
      depth: 2,
      num_heads: 16,
      patch_size: 14,
      window_size: 112,
      fullatt_block_indexes: [1],
    },
    size: [168, 140],
    rows: 30,
  },
  {
    name: "deepseek-vl2-tiny",
    family: "deepseek_vl2",
    vision: {
      width: 1152,
      heads: 16,
      layers: 1,
      mlp_ratio: 3.7362,
      image_size: 384,
      patch_size: 14,
    },
    top: { candidate_resolutions: [[384, 384]] },
    rows: 14 ** 2 + 2,
  },
];

describe.skipIf(!fullTest || smallestCaseOnly)("towers of published shapes", () => {
  test.each(SHAPES)("$name", async ({ name: _, rows: count, size, ...given }) => {
    const source = await randomVision({ ...given, seed: 6 });
    const checkpoint = await Checkpoint.open(source);
    const loaded = await loadModel(checkpoint, {
      device,
      maxTotalTokens: 64,
      triesInvariance: false,
    });
    const tile = randomTile(loaded.definition.vision!, size);
    const got = await towerRows(loaded, tile);
    loaded.destroy();
    expect(got).toHaveLength(count);
    expect(got.every((row) => row.every(Number.isFinite))).toBe(true);
    const reference = await ReferenceVision.open(source);
    expect(largestError(got, reference.rows(tile, SCALE))).toBeLessThan(3e-5);
  });
});
