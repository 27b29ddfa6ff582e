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
import { linear } from "../../kernels/linear/linear.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "./batch.ts";
import { allocateMatrix } from "./matrix_destination.ts";

export interface MlpBinding {
  /** `[maxRows, hiddenStride]`: normed hidden rows, quantized where linears want them so */
  readonly input: Tensor;
  readonly hiddenStride: number;
  /** `[maxRows, intermediateStride]` */
  readonly intermediate: Tensor;
  readonly intermediateStride: number;
  /** `[maxRows, hiddenStride]` */
  readonly output: Tensor;
  readonly quantizeActivations: boolean;
}

export class Mlp {
  readonly specs: readonly WeightSpec[];
  readonly #intermediate: number;
  readonly #gateUp: LinearWeight;
  readonly #down: LinearWeight;

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
    const gateUpMatrix = allocateMatrix(memory, `${name} gate and up`, {
      dtype: dtypeOf(`${name}.gate_proj`),
      columns: hiddenSize,
      parts: [intermediate, intermediate],
      layout,
    });
    const down = allocateMatrix(memory, `${name}.down_proj`, {
      dtype: dtypeOf(`${name}.down_proj`),
      columns: intermediate,
      parts: [hiddenSize],
      layout,
    });
    this.#intermediate = intermediate;
    this.#gateUp = gateUpMatrix.weight;
    this.#down = down.weight;
    this.specs = [
      ...gateUpMatrix.place.specs(0, { name: `${name}.gate_proj`, split: "rows" }),
      ...gateUpMatrix.place.specs(1, { name: `${name}.up_proj`, split: "rows" }),
      ...down.place.specs(0, { name: `${name}.down_proj`, split: "columns" }),
    ];
  }

  /** Adds two launches. */
  compile(plan: Plan<Step>, binding: MlpBinding): void {
    const { recorder } = plan;
    const { input, hiddenStride, intermediate, intermediateStride, output } = binding;
    const first = gateUp(recorder, {
      x: input,
      xStride: hiddenStride,
      weight: this.#gateUp,
      intermediate: this.#intermediate,
      out: intermediate,
      outStride: intermediateStride,
      quantize: binding.quantizeActivations && this.#down.dtype === "fp8",
    });
    const second = linear(recorder, {
      x: intermediate,
      xStride: intermediateStride,
      weight: this.#down,
      out: output,
      outStride: hiddenStride,
      segments: segments(this.#intermediate),
    });
    plan.add((step) => first(step.rows));
    plan.add((step) => second(step.rows));
  }
}
