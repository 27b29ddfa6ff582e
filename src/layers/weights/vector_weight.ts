/**
 * Small weights that kernels read as float32.
 *
 * @module
 */
import type { WeightSpec, WeightSplit } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Tensor } from "../../gpu/tensor.ts";
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
  return { tensor, spec: vectorSpec(memory, tensor, { name, length, split }) };
}

/** A binding starts at a multiple of this. */
const ALIGNMENT_BYTES = 256;

/** Several small weights in one tensor, for kernels that bind them as one. */
export function neighbouringVectors(
  memory: DeviceMemory,
  label: string,
  parts: readonly { readonly name: string; readonly length: number }[],
): { readonly tensor: Tensor; readonly weights: readonly VectorWeight[] } {
  let size = 0;
  const offsets = parts.map(({ length }) => {
    const offset = size;
    size += Math.ceil((length * 4) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
    return offset;
  });
  const tensor = memory.allocate("weights", size, label);
  const weights = parts.map(({ name, length }, i) => {
    const offset = tensor.offset + offsets[i]!;
    const own = { buffer: tensor.buffer, offset, size: Math.ceil(length / 4) * 16 };
    return { tensor: own, spec: vectorSpec(memory, own, { name, length, split: "none" }) };
  });
  return { tensor, weights };
}

function vectorSpec(
  memory: DeviceMemory,
  tensor: Tensor,
  { name, length, split }: { name: string; length: number; split: WeightSplit },
): WeightSpec {
  return {
    name,
    shape: [length],
    dtypes: ["F32", "BF16", "F16"],
    split,
    destination: collectFloats((values) => memory.write(tensor, 0, values)),
  };
}
