/**
 * The working memory that the layers of a vision tower share.
 *
 * @module
 */
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { VisionShape } from "./vision_shape.ts";
import { strideOf } from "./vision_tower.ts";

/** The rows of a picture. */
export interface VisionRows {
  /** `[rows, hiddenSize]` f32: the residual stream, without what is pending. */
  readonly hidden: Tensor;
  /** The same size: what the last block made, the block's input, attention's output. */
  readonly output: Tensor;
  readonly normed: Tensor;
  readonly attended: Tensor;
  /** `[rows, 3 * hiddenSize]` f32: queries, keys, values */
  readonly qkv: Tensor;
  /** `[rows, innerStride]` f32 */
  readonly inner: Tensor;
  readonly innerStride: number;
}

export function allocateVisionRows(
  memory: DeviceMemory,
  { hiddenSize, intermediate }: Pick<VisionShape, "hiddenSize" | "intermediate">,
  count: number,
): VisionRows {
  const allocate = (width: number, label: string) =>
    memory.allocate("activations", count * width * 4, `patches' ${label}`);
  const innerStride = strideOf(intermediate);
  return {
    hidden: allocate(hiddenSize, "residual stream"),
    output: allocate(hiddenSize, "block output"),
    normed: allocate(hiddenSize, "normed rows"),
    attended: allocate(hiddenSize, "attention"),
    qkv: allocate(3 * hiddenSize, "queries, keys and values"),
    inner: allocate(innerStride, "inner rows"),
    innerStride,
  };
}
