/**
 * The vision tower of Qwen2.5-VL and the merger behind it: pictures of any size, whose patches see
 * those of their window in most layers and all in some.
 *
 * Its rows are in the order of windows, the patches of a unit one behind the other.
 *
 * Source: Bai et al., "Qwen2.5-VL Technical Report" (2025).
 *
 * @module
 */
import {
  ATTENTION_ITEM_WORDS,
  type AttentionItems,
  addAttentionItems,
} from "../../../kernels/vision/full_attention.ts";
import { gelu } from "../../../kernels/vision/gelu.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import { patchOrder, windowOrder } from "../../images/dynamic_size.ts";
import { type PatchGrid, patchStride as strideOfPatch } from "../../images/patches.ts";
import type { Step } from "../../layers/batch.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import type { Linear } from "../../layers/linear.ts";
import { type LayerForm, VisionLayer } from "./vision_layer.ts";
import { allocateVisionRows } from "./vision_rows.ts";
import type { VisionShape } from "./vision_shape.ts";
import { shapedSpecs, strideOf, type VisionTensors, type VisionTower } from "./vision_tower.ts";
import {
  bindNorm,
  type NormWeights,
  normSpecs,
  normWeights,
  visionLinear,
} from "./vision_weights.ts";

export interface QwenVisionShape extends VisionShape {
  /** Patches of a side of a unit, which becomes one row; units of a side of a window. */
  readonly merge: number;
  readonly window: number;
  /** Frames that a patch reads: those of a picture are all the same. */
  readonly frames: number;
  /** Layers in which every patch sees every other. */
  readonly wholeLayers: ReadonlySet<number>;
  readonly textSize: number;
  /** Patches of a picture at most. */
  readonly maxPatches: number;
}

const LAYER: LayerForm = {
  norms: ["norm1", "norm2"],
  projections: ["attn.qkv"],
  output: "attn.proj",
  mlp: { kind: "gated", name: "mlp" },
  centered: false,
};

const THETA = 10000;

/** What a run is told of its picture. */
interface Sizes {
  units: number;
  windowed: AttentionItems;
  whole: AttentionItems;
}

const NO_ITEMS: AttentionItems = { first: 0, count: 0, rows: 0, pairs: 0 };

export class QwenTower implements VisionTower {
  readonly specs: readonly WeightSpec[];
  readonly layers: number;
  readonly textSize: number;
  readonly maxRows: number;
  readonly #shape: QwenVisionShape;
  readonly #memory: DeviceMemory;
  readonly #patches: Linear;
  readonly #layers: readonly VisionLayer[];
  readonly #norm: NormWeights;
  readonly #merger: readonly [Linear, Linear];

  /** @param tower In front of its tensors' names. */
  constructor(context: LayerContext, shape: QwenVisionShape, tower: string) {
    const { memory } = context;
    const { hiddenSize, patchSide, merge, frames, textSize } = shape;
    this.#shape = shape;
    this.#memory = memory;
    this.layers = shape.layers;
    this.textSize = textSize;
    this.maxRows = shape.maxPatches / merge ** 2;
    const patches = { rows: hiddenSize, columns: 3 * frames * patchSide ** 2, bias: false };
    this.#patches = visionLinear(context, `${tower}.patch_embed.proj`, patches);
    this.#layers = Array.from(
      { length: shape.layers },
      (_, i) => new VisionLayer(context, shape, { name: `${tower}.blocks.${i}`, form: LAYER }),
    );
    const norm = { length: hiddenSize, centered: false };
    this.#norm = normWeights(memory, `${tower}.merger.ln_q`, norm);
    const columns = merge ** 2 * hiddenSize;
    const linear = (part: number, rows: number) =>
      visionLinear(context, `${tower}.merger.mlp.${part}`, { rows, columns, bias: true });
    this.#merger = [linear(0, columns), linear(2, textSize)];
    this.specs = [
      ...shapedSpecs(this.#patches.specs, [hiddenSize, 3, frames, patchSide, patchSide]),
      ...this.#layers.flatMap(({ specs }) => specs),
      ...normSpecs(this.#norm),
      ...this.#merger.flatMap(({ specs }) => specs),
    ];
  }

  allocate() {
    const { hiddenSize, maxPatches, patchSide, frames, heads, merge, textSize } = this.#shape;
    const patchStride = strideOfPatch({ patchSide, frames });
    const featureStride = strideOf(textSize);
    const allocate = (elements: number, label: string) =>
      this.#memory.allocate("activations", elements * 4, label);
    return {
      rows: allocateVisionRows(this.#memory, this.#shape, maxPatches),
      patches: allocate(maxPatches * patchStride, "patches"),
      patchStride,
      turns: allocate((maxPatches * hiddenSize) / heads, "turns of patches"),
      // A window of one unit has an item; so has a run of patches that see all.
      items: allocate(2 * maxPatches * ATTENTION_ITEM_WORDS, "attention items"),
      inner: allocate(this.maxRows * merge ** 2 * hiddenSize, "merged patches"),
      features: allocate(this.maxRows * featureStride, "features"),
      featureStride,
    };
  }

  compile(plan: Plan<Step>): VisionTensors {
    const { recorder } = plan;
    const { hiddenSize, wholeLayers } = this.#shape;
    const memory = this.allocate();
    const { rows, patches, patchStride, turns, items, features, featureStride } = memory;
    const sizes: Sizes = { units: 0, windowed: NO_ITEMS, whole: NO_ITEMS };
    const embed = this.#patches.bind(recorder, {
      x: patches,
      xStride: patchStride,
      out: rows.hidden,
      outStride: hiddenSize,
      phase: "decode",
    });
    plan.add((step) => embed(step.rows));
    let pending: Tensor | undefined;
    let name = "vision.patch_embed";
    this.#layers.forEach((one, i) => {
      const layer = `vision.layer${i}`;
      const attention = () => (wholeLayers.has(i) ? sizes.whole : sizes.windowed);
      pending = one.compile(plan, { rows, pending, name, layer, items, attention, turns });
      name = `${layer}.out`;
    });
    this.#merge(plan, { ...memory, pending: pending!, name, sizes });
    const begin = (grid: PatchGrid) => this.#begin(grid, { turns, items, sizes });
    return { patches, patchStride, features, featureStride, begin };
  }

  /** From patches to rows of units. */
  #merge(
    plan: Plan<Step>,
    {
      rows,
      inner,
      features,
      featureStride,
      pending,
      name,
      sizes,
    }: ReturnType<QwenTower["allocate"]> & {
      readonly pending: Tensor;
      readonly name: string;
      readonly sizes: Readonly<Sizes>;
    },
  ): void {
    const { recorder } = plan;
    const { hidden, normed } = rows;
    const { hiddenSize: cols, normEps: eps, merge } = this.#shape;
    const width = merge ** 2 * cols;
    const addend = pending;
    const norm = bindNorm(recorder, this.#norm, { x: hidden, addend, out: normed, cols, eps });
    const [first, second] = this.#merger;
    const wide = { xStride: width, phase: "decode" } as const;
    const raise = first.bind(recorder, { x: normed, out: inner, outStride: width, ...wide });
    const activate = gelu(recorder, { x: inner, form: "erf" });
    const narrow = { out: features, outStride: featureStride };
    const lower = second.bind(recorder, { x: inner, ...narrow, ...wide });
    plan.add((step) => norm(step.rows));
    plan.tap(name, hidden);
    // The patches of a unit stand one behind the other: side by side they are its row.
    plan.tap("merger.in", normed);
    plan.add(() => {
      raise(sizes.units);
      activate(sizes.units * width);
      lower(sizes.units);
    });
    plan.tap("projector.out", features);
  }

  #begin(
    grid: PatchGrid,
    {
      turns,
      items,
      sizes,
    }: { readonly turns: Tensor; readonly items: Tensor; readonly sizes: Sizes },
  ) {
    const { merge, window } = this.#shape;
    const rows = grid.rows * grid.columns;
    const unitGrid = { rows: grid.rows / merge, columns: grid.columns / merge };
    const { units, windows } = windowOrder(unitGrid, window);
    const words: number[] = [];
    let first = 0;
    let pairs = 0;
    for (const length of windows) {
      const patches = length * merge ** 2;
      addAttentionItems(words, first, first + patches);
      first += patches;
      pairs += patches ** 2;
    }
    const count = words.length / ATTENTION_ITEM_WORDS;
    addAttentionItems(words, 0, rows);
    const whole = words.length / ATTENTION_ITEM_WORDS - count;
    this.#memory.write(items, 0, Uint32Array.from(words));
    const order = patchOrder(units, unitGrid.columns, merge);
    this.#memory.write(turns, 0, this.#turnsOf(order, grid.columns));
    sizes.units = units.length;
    sizes.windowed = { first: 0, count, rows, pairs };
    sizes.whole = { first: count, count: whole, rows, pairs: rows ** 2 };
    return { patches: rows, rows: units.length };
  }

  /** Cosine and sine of each patch's pairs: its row turns the first half of them, its column the others. */
  #turnsOf(order: Uint32Array, columns: number): Float32Array<ArrayBuffer> {
    const headDim = this.#shape.hiddenSize / this.#shape.heads;
    const quarter = headDim / 4;
    const turns = new Float32Array(order.length * headDim);
    const frequencies = Float32Array.from({ length: quarter }, (_, i) => THETA ** (-i / quarter));
    order.forEach((patch, i) => {
      const places = [Math.floor(patch / columns), patch % columns];
      for (let d = 0; d < 2 * quarter; d++) {
        const angle = Math.fround(places[Math.floor(d / quarter)]! * frequencies[d % quarter]!);
        turns[i * headDim + 2 * d] = Math.cos(angle);
        turns[i * headDim + 2 * d + 1] = Math.sin(angle);
      }
    });
    return turns;
  }
}
