/**
 * What a vision tower is to the engine: patches of a picture go in, rows come out that a text model
 * reads in place of token embeddings.
 *
 * @module
 */
import { type AttentionItems, addAttentionItems } from "../../../kernels/vision/full_attention.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { PatchGrid } from "../../images/patches.ts";
import type { Step } from "../../layers/batch.ts";

export interface VisionTower {
  readonly specs: readonly WeightSpec[];
  readonly layers: number;
  /** Width of the text model's rows. */
  readonly textSize: number;
  /** Rows that one picture becomes at most. */
  readonly maxRows: number;
  /** Takes the working memory that `compile` takes: in memory without a device, it is counted. */
  allocate(): object;
  /** Appends the launches for one picture. */
  compile(plan: Plan<Step>): VisionTensors;
}

/** Rows of one run: patches that go in, rows that come out. */
export interface PictureRows {
  readonly patches: number;
  readonly rows: number;
}

/** What a compiled tower reads and writes. */
export interface VisionTensors {
  /** `[patches, patchStride]` f32: each by channel, row and column, normalized */
  readonly patches: Tensor;
  readonly patchStride: number;
  /** `[maxRows, featureStride]` f32 */
  readonly features: Tensor;
  readonly featureStride: number;
  /** Readies the launches for a picture of so many patches. */
  begin(grid: PatchGrid): PictureRows;
}

/** Elements from one row to the next: linears read four at once. */
export const strideOf = (width: number): number => Math.ceil(width / 4) * 4;

/** The spec of a linear that the checkpoint has as a convolution of `shape`, or of a table in its shape. */
export function shapedSpecs(
  specs: readonly WeightSpec[],
  shape: readonly number[],
): readonly WeightSpec[] {
  return specs.map((spec) => (spec.name.endsWith(".bias") ? spec : { ...spec, shape }));
}

/** Items of attention, in memory. */
export interface PlacedItems {
  readonly items: Tensor;
  readonly attention: AttentionItems;
}

/** Those of a picture whose patches all see each other, however often it runs. */
export function wholePicture(memory: DeviceMemory, rows: number): PlacedItems {
  const words: number[] = [];
  addAttentionItems(words, 0, rows);
  const items = memory.allocate("weights", words.length * 4, "attention items");
  memory.write(items, 0, Uint32Array.from(words));
  const attention = { first: 0, count: words.length / 4, rows, pairs: rows ** 2 };
  return { items, attention };
}
