/**
 * The weights of vision towers, which stay as the checkpoint has them.
 *
 * @module
 */
import { type LayerNormOptions, layerNorm } from "../../../kernels/vision/layer_norm.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import { Linear } from "../../layers/linear.ts";
import { type VectorWeight, vectorWeight } from "../../layers/weights/vector_weight.ts";

/** The weights of a LayerNorm, or without a bias of an RMSNorm. */
export interface NormWeights {
  readonly weight: VectorWeight;
  readonly bias: VectorWeight | undefined;
}

/** @param centered Whether it is a LayerNorm. Default true. */
export function normWeights(
  memory: DeviceMemory,
  name: string,
  { length, centered = true }: { readonly length: number; readonly centered?: boolean },
): NormWeights {
  return {
    weight: vectorWeight(memory, `${name}.weight`, length),
    bias: centered ? vectorWeight(memory, `${name}.bias`, length) : undefined,
  };
}

export const normSpecs = ({ weight, bias }: NormWeights): WeightSpec[] => [
  weight.spec,
  ...(bias === undefined ? [] : [bias.spec]),
];

/** Binds a norm with its weights. */
export function bindNorm(
  recorder: Recorder,
  { weight, bias }: NormWeights,
  options: Omit<LayerNormOptions, "weight" | "bias">,
): (rows: number) => void {
  return layerNorm(recorder, { ...options, weight: weight.tensor, bias: bias?.tensor });
}

/** A linear that stays as the checkpoint has it, whatever text models are quantized to. */
export function visionLinear(
  context: LayerContext,
  name: string,
  shape: { readonly rows: number; readonly columns: number; readonly bias: boolean },
): Linear {
  const format = context.formats.published(name);
  return new Linear(context, { ...shape, name, format, split: "none" });
}
