/**
 * Small weights that kernels read as float32.
 *
 * @module
 */
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Tensor } from "../gpu/tensor.ts";
import { collectFloats } from "./destinations.ts";

/** A small weight kept as float32: a norm, a bias. */
export interface VectorWeight {
  /** `[length]` f32 */
  readonly tensor: Tensor;
  readonly spec: WeightSpec;
}

/** @param name As the checkpoint spells it. */
export function vectorWeight(memory: DeviceMemory, name: string, length: number): VectorWeight {
  const tensor = memory.allocate("weights", length * 4, name);
  return {
    tensor,
    spec: {
      name,
      shape: [length],
      dtypes: ["F32", "BF16", "F16"],
      split: "none",
      destination: collectFloats((values) => memory.write(tensor, 0, values)),
    },
  };
}
