/**
 * How Qwen2.5-VL prepares images: each in the size that it has, near enough, patches in the order of
 * windows.
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import { dynamicSize, patchOrder, type SizeRule, windowOrder } from "../../images/dynamic_size.ts";
import type { PixelScale } from "../../images/patches.ts";
import { type ImageSize, refuseImage } from "../../images/pixels.ts";
import type { VisionFacts } from "../../models/model.ts";
import type { ImageRows } from "./feature_cache.ts";
import type {
  ImageProcessor,
  PreparedImage,
  PrepareOptions,
  ProcessorFiles,
} from "./prepared_image.ts";
import { BICUBIC, readPreprocessor, scaleKey } from "./processor_config.ts";

type Facts = Extract<VisionFacts, { kind: "qwen2_5_vl" }>;

/** What the published processor's code takes where its file says nothing. */
const DEFAULT_PIXELS = { min: 56 ** 2, max: 28 ** 2 * 1280 };
/** Of an image whose detail is low. */
const LOW_PIXELS = 512 ** 2;
/** Times that a side may be as long as the other: of more, little would be left of the shorter one. */
const MAX_RATIO = 200;

interface Setting {
  readonly facts: Facts;
  readonly frames: number;
  readonly rule: SizeRule;
  readonly scale: PixelScale;
  readonly placeholder: string;
}

/** @throws {CheckpointError | UnsupportedError} naming the field, or the token that is missing. */
export function qwenProcessor(
  { config, vocabulary }: ProcessorFiles,
  facts: Facts,
): ImageProcessor {
  const { patchSide, merge, placeholder, maxPatches } = facts;
  const type = "Qwen2VLImageProcessor";
  const scale = readPreprocessor(config, { type, resample: BICUBIC });
  requireNumber(config, "patch_size", patchSide);
  requireNumber(config, "merge_size", merge);
  const frames = config.integer("temporal_patch_size", { min: 1, max: 16, fallback: 2 });
  const { min, max } = readPixels(config);
  config.finish();
  const factor = patchSide * merge;
  // What the tower has memory for bounds what it is shown.
  const maxPixels = Math.min(max, maxPatches * patchSide ** 2);
  const rule = { factor, minPixels: Math.min(min, maxPixels), maxPixels };
  const placeholderText = vocabulary.text(placeholder);
  const setting = { facts, frames, rule, scale, placeholder: placeholderText };
  return {
    placeholder,
    placeholderText,
    fewestTokens: 1,
    beginsChats: false,
    prepare: (size, options) => prepare(size, options, setting),
  };
}

function requireNumber(config: ConfigReader, field: string, value: number): void {
  const given = config.integer(field, { fallback: value });
  if (given !== value) throw config.error(field, `config.json says ${value}, not ${given}`);
}

/** Of a picture, which newer files have in `size`. */
function readPixels(config: ConfigReader): { readonly min: number; readonly max: number } {
  const size = config.section("size", { fallback: undefined });
  const read = (older: string, newer: string, fallback: number) => {
    const inside = size?.integer(newer, { min: 1, fallback: undefined });
    return config.integer(older, { min: 1, fallback: inside ?? fallback });
  };
  const min = read("min_pixels", "shortest_edge", DEFAULT_PIXELS.min);
  const max = read("max_pixels", "longest_edge", DEFAULT_PIXELS.max);
  if (min > max) throw config.error("min_pixels", `it is above max_pixels, ${max}`);
  return { min, max };
}

function prepare(size: ImageSize, { detail }: PrepareOptions, setting: Setting): PreparedImage {
  const { scale, placeholder, frames } = setting;
  const { patchSide, merge, window, maxPatches } = setting.facts;
  const rule = detail === "low" ? lowRule(setting.rule) : setting.rule;
  const { width, height } = size;
  const ratio = Math.max(width, height) / Math.min(width, height);
  if (ratio > MAX_RATIO) {
    refuseImage(`of ${width} x ${height} pixels one side is over ${MAX_RATIO} times the other`);
  }
  const wanted = dynamicSize(size, rule);
  const grid = { rows: wanted.height / rule.factor, columns: wanted.width / rule.factor };
  const tokens = grid.rows * grid.columns;
  if (tokens * merge ** 2 > maxPatches) {
    refuseImage(`it becomes ${tokens * merge ** 2} patches, more than ${maxPatches}`);
  }
  const { units } = windowOrder(grid, window);
  const order = patchOrder(units, grid.columns, merge);
  return {
    key: `up to ${rule.maxPixels} pixels ${scaleKey(scale)}`,
    text: placeholder.repeat(tokens),
    tokens,
    grid,
    recipe: { view: { kind: "whole", size: wanted }, scale, layout: { patchSide, frames, order } },
    join: ([rows]) => inRows(rows!, units),
  };
}

function lowRule({ factor, minPixels, maxPixels }: SizeRule): SizeRule {
  const most = Math.max(Math.min(maxPixels, LOW_PIXELS), minPixels);
  return { factor, minPixels, maxPixels: most };
}

/** From the order of windows to that of the picture. */
function inRows(rows: ImageRows, units: Uint32Array): ImageRows {
  const out = [...rows];
  units.forEach((unit, place) => {
    out[unit] = rows[place]!;
  });
  return out;
}
