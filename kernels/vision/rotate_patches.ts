import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import rotate from "../common/attention/rotate.wgsl?raw";
import source from "./rotate_patches.wgsl?raw";

const kernel = new Kernel({
  name: "vision/rotate_patches",
  source: rotate + source,
  buffers: ["qkv", "turns"],
  params: ["stride", "vectors", "half_dim"],
});

export interface RotatePatchesOptions {
  /** `[rows, stride]` f32: the first `vectors` of a row turn in place, all queries and keys */
  readonly qkv: Tensor;
  readonly stride: number;
  readonly vectors: number;
  /** Elements of a vector, `i` turns with `i + headDim / 2`: even. */
  readonly headDim: number;
  /** `[rows, headDim / 2, 2]` f32: cosine and sine */
  readonly turns: Tensor;
}

/**
 * Turns the queries and keys of patches by their places in the picture.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function rotatePatches(
  recorder: Recorder,
  options: RotatePatchesOptions,
): (rows: number) => void {
  const { qkv, stride, vectors, headDim, turns } = options;
  const bound = kernel.bind(
    recorder,
    { qkv, turns },
    {
      params: { stride, vectors, half_dim: headDim / 2 },
      cost: ({ grid: [rows] }) => ({
        bytes: rows * headDim * (vectors * 8 + 4),
        flops: rows * headDim * vectors * 3,
      }),
    },
  );
  return (rows) => bound.record(rows);
}
