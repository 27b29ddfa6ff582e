import { describe, expect, test } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { readJson } from "../../../src/checkpoint/json_file.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import { CheckpointError } from "../../../src/errors.ts";
import {
  type RandomVision,
  randomVision,
  type VisionFamily,
} from "../../support/checkpoints/random_vision.ts";
import { device, fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { largestError, randomTile, SCALE, towerRows } from "../../support/images/tower_rows.ts";
import { ReferenceVision } from "../../support/reference/reference_vision.ts";

/** Of the largest value of all rows; noise of f32 moves them by a tenth of it. */
const TOLERANCE = 3e-5;

/** A field that is changed, and how far the rest of the checkpoint goes with it. */
interface Case {
  readonly field: string;
  readonly change: Pick<RandomVision, "vision" | "top" | "projector">;
  /** Pixels of the picture. Default: those that the tower sees, else 48 x 36. */
  readonly size?: readonly [number, number];
}

const vision = (field: string, value: unknown, more: object = {}): Case => ({
  field,
  change: { vision: { [field]: value, ...more } },
});

const CASES: Readonly<Record<VisionFamily, readonly Case[]>> = {
  llava: [
    vision("patch_size", 5),
    vision("image_size", 42),
    vision("hidden_size", 48),
    vision("intermediate_size", 71),
    vision("num_attention_heads", 1),
    vision("num_hidden_layers", 4),
    vision("layer_norm_eps", 0.5),
    vision("hidden_act", "gelu"),
    { field: "vision_feature_layer", change: { top: { vision_feature_layer: -1 } } },
    { field: "vision_feature_layer", change: { top: { vision_feature_layer: 1 } } },
    {
      field: "vision_feature_select_strategy",
      change: { top: { vision_feature_select_strategy: "full" } },
    },
  ],
  idefics3: [
    vision("patch_size", 4),
    vision("image_size", 54),
    vision("hidden_size", 32),
    vision("intermediate_size", 45),
    vision("num_attention_heads", 3),
    vision("num_hidden_layers", 1),
    vision("layer_norm_eps", 0.5),
    { field: "scale_factor", change: { top: { scale_factor: 2 } } },
  ],
  qwen2_5_vl: [
    { ...vision("patch_size", 4), size: [40, 32] },
    vision("hidden_size", 48),
    vision("intermediate_size", 61),
    vision("num_heads", 1),
    vision("depth", 2),
    vision("window_size", 12),
    vision("window_size", 40),
    vision("fullatt_block_indexes", [0, 2]),
    { ...vision("spatial_merge_size", 3), size: [54, 36] },
    vision("temporal_patch_size", 3),
  ],
  deepseek_vl2: [
    vision("patch_size", 6),
    {
      field: "image_size",
      change: { vision: { image_size: 50 }, top: { candidate_resolutions: [[50, 50]] } },
    },
    // The projector repeats it.
    { field: "width", change: { vision: { width: 48 }, projector: { input_dim: 48 } } },
    vision("mlp_ratio", 3.1),
    vision("heads", 4),
    vision("layers", 3),
    { field: "downsample_ratio", change: { projector: { downsample_ratio: 3 } } },
  ],
};

/** Fields that change no tensor; the others run with WISP_TEST_FULL=1. */
const UNSHAPED = new Set([
  ...["num_attention_heads", "num_heads", "heads", "layer_norm_eps", "hidden_act", "window_size"],
  ...["vision_feature_layer", "vision_feature_select_strategy", "fullatt_block_indexes"],
]);

const FAMILIES = Object.keys(CASES) as VisionFamily[];

async function load(source: WeightSource) {
  const checkpoint = await Checkpoint.open(source);
  return loadModel(checkpoint, { device, maxTotalTokens: 64, triesInvariance: false });
}

/** The same tensors, read by a model that takes a field for what it usually is. */
async function ignoring(source: WeightSource, { change }: Case, family: VisionFamily) {
  const config = (await readJson(source, "config.json")) as Record<string, object>;
  const usual = (await readJson(await randomVision({ family }), "config.json")) as typeof config;
  for (const [where, fields] of Object.entries(change)) {
    const section = { vision: "vision_config", projector: "projector_config" }[where];
    for (const field of Object.keys(fields)) {
      const [own, from] = section ? [config[section]!, usual[section]!] : [config, usual];
      Object.assign(own, { [field]: (from as Record<string, unknown>)[field] });
    }
  }
  const bytes = new TextEncoder().encode(JSON.stringify(config));
  const isConfig = (file: string) => file === "config.json";
  return {
    ...source,
    list: async () =>
      (await source.list()).map((file) =>
        isConfig(file.name) ? { ...file, size: bytes.length } : file,
      ),
    read: async (file: string, offset: number, length: number) =>
      isConfig(file) ? bytes.slice(offset, offset + length) : source.read(file, offset, length),
  };
}

describe.each(FAMILIES)("the tower of %s, beside its reference", (family) => {
  const see = async (source: WeightSource, { size, change }: Partial<Case>) => {
    const loaded = await load(source);
    try {
      const tile = randomTile(loaded.definition.vision!, size);
      const frames = (change?.vision as { temporal_patch_size?: number })?.temporal_patch_size;
      return { tile, rows: await towerRows(loaded, tile, frames) };
    } finally {
      loaded.destroy();
    }
  };

  test("as it is", async () => {
    const source = await randomVision({ family, seed: 3 });
    const { tile, rows } = await see(source, {});
    const reference = await ReferenceVision.open(source);
    expect(largestError(rows, reference.rows(tile, SCALE))).toBeLessThan(TOLERANCE);
  });

  const cases = CASES[family].filter(({ field }) => fullTest || UNSHAPED.has(field));
  test.skipIf(smallestCaseOnly).each(cases)("with another $field: $change", async (one) => {
    const source = await randomVision({ family, ...one.change, seed: 4 });
    const { tile, rows } = await see(source, one);
    const reference = await ReferenceVision.open(source);
    expect(largestError(rows, reference.rows(tile, SCALE))).toBeLessThan(TOLERANCE);
    // A model that ignores the field finds tensors of other shapes, or makes rows that are clearly others.
    const other = await ignoring(source, one, family);
    const refusal = await load(other).then(
      (loaded) => loaded.destroy(),
      (error: unknown) => error,
    );
    if (refusal !== undefined) {
      expect(refusal).toBeInstanceOf(CheckpointError);
      expect(String(refusal)).not.toContain("config.json");
      return;
    }
    const wrong = (await ReferenceVision.open(other)).rows(tile, SCALE);
    if (wrong.length === rows.length) {
      expect(largestError(rows, wrong)).toBeGreaterThan(100 * TOLERANCE);
    }
  });
});
