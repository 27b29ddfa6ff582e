/**
 * Small weights that kernels read as float32.
 *
 * @module
 */
import type { WeightSpec, WeightSplit } from "../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Tensor } from "../gpu/tensor.ts";
import { collectFloats } from "./destinations.ts";

/** A small weight kept as float32: a norm, a bias. */
export interface VectorWeight {
  /** `[length]` f32 */
  readonly tensor: Tensor;
  readonly spec: WeightSpec;
}

/**
 * @param name As the checkpoint spells it.
 * @param split How it divides over ranks. Default: every rank has all of it.
 */
export function vectorWeight(
  memory: DeviceMemory,
  name: string,
  length: number,
  split: WeightSplit = "none",
): VectorWeight {
  const tensor = memory.allocate("weights", length * 4, name);
  return {
    tensor,
    spec: {
      name,
      shape: [length],
      dtypes: ["F32", "BF16", "F16"],
      split,
      destination: collectFloats((values) => memory.write(tensor, 0, values)),
    },
  };
}
