/**
 * Dense feed-forward block: down(silu(gate x) * up x).
 *
 * @module
 */
import { gateUp } from "../../kernels/linear/gate_up.ts";
import {
  type LinearLayout,
  type LinearWeight,
  segments,
  type WeightDtype,
} from "../../kernels/linear/layout.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "./batch.ts";
import { type BlockRows, rowsFor } from "./block_rows.ts";
import { Linear, rowsThatFit } from "./linear.ts";
import { allocateMatrix, mergeSpecs } from "./matrix_destination.ts";

/** Outputs that are quantized together. */
const QUANTIZED_GROUP = 128;

export interface MlpBinding extends BlockRows {
  /** `[maxRows, intermediateStride]` */
  readonly intermediate: Tensor;
  readonly intermediateStride: number;
  /** Elements from one row of `output` to the next, and the first of them. */
  readonly outputStride?: number;
  readonly outputColumn?: number;
}

export class Mlp {
  readonly specs: readonly WeightSpec[];
  readonly #intermediate: number;
  /** Slabs of the fused gate and up halves, each for outputs from `first` on. */
  readonly #gateUp: readonly {
    readonly weight: LinearWeight;
    readonly first: number;
    readonly count: number;
  }[];
  readonly #down: Linear;

  /** @param options `name` is the prefix of its tensors, "model.layers.0.mlp". */
  constructor(
    memory: DeviceMemory,
    options: {
      readonly name: string;
      readonly hiddenSize: number;
      readonly intermediate: number;
      readonly layout: LinearLayout;
      readonly dtypeOf: (name: string) => WeightDtype;
    },
  ) {
    const { name, hiddenSize, intermediate, layout, dtypeOf } = options;
    const shape = { columns: hiddenSize, dtype: dtypeOf(`${name}.gate_proj`), layout };
    // Both halves of an output stand in one slab, and a slab holds whole groups of 128 outputs.
    const unit = 2 * QUANTIZED_GROUP;
    const most = rowsThatFit(memory, { ...shape, rows: 2 * intermediate, unit }) / 2;
    const slabs: { weight: LinearWeight; first: number; count: number }[] = [];
    const specs: WeightSpec[][] = [];
    for (let first = 0; first < intermediate; first += most) {
      const count = Math.min(most, intermediate - first);
      const label = `${name} gate and up from row ${first}`;
      const parts = [count, count];
      const { place, weight } = allocateMatrix(memory, label, { ...shape, parts });
      const source = {
        split: "rows",
        sourceRow: first,
        shape: [intermediate, hiddenSize],
      } as const;
      slabs.push({ weight, first, count });
      specs.push([
        ...place.specs(0, { name: `${name}.gate_proj`, ...source }),
        ...place.specs(1, { name: `${name}.up_proj`, ...source }),
      ]);
    }
    this.#intermediate = intermediate;
    this.#gateUp = slabs;
    this.#down = new Linear(memory, {
      name: `${name}.down_proj`,
      rows: hiddenSize,
      columns: intermediate,
      dtype: dtypeOf(`${name}.down_proj`),
      split: "columns",
      layout,
    });
    this.specs = [...mergeSpecs(specs), ...this.#down.specs];
  }

  /** Adds two launches, more where a binding is too small for a weight. */
  compile(plan: Plan<Step>, binding: MlpBinding): void {
    const { recorder } = plan;
    const { hiddenStride, intermediate, intermediateStride, output } = binding;
    const { outputStride = hiddenStride, outputColumn = 0 } = binding;
    const { buffer, offset, size } = intermediate;
    for (const { weight, first, count } of this.#gateUp) {
      const out = { buffer, offset: offset + first * 4, size: size - first * 4 };
      const halves = gateUp(recorder, {
        x: rowsFor(binding, weight),
        xStride: hiddenStride,
        weight,
        intermediate: count,
        out,
        outStride: intermediateStride,
        quantize: binding.quantized !== undefined && this.#down.dtype === "fp8",
      });
      plan.add((step) => halves(step.rows));
    }
    const down = this.#down.bind(recorder, {
      x: intermediate,
      xStride: intermediateStride,
      out: output,
      outStride: outputStride,
      outColumn: outputColumn,
      segments: segments(this.#intermediate),
    });
    plan.add((step) => down(step.rows));
  }
}
