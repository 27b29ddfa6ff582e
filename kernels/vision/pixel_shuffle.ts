import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./pixel_shuffle.wgsl?raw";

const kernel = new Kernel({
  name: "vision/pixel_shuffle",
  source,
  buffers: ["x", "out"],
  params: ["cols", "side", "scale"],
});

export interface PixelShuffleOptions {
  /** `[side * side, cols]` f32: the patches of a picture, row by row */
  readonly x: Tensor;
  /** `[side * side / scale^2, scale^2 * cols]` f32 */
  readonly out: Tensor;
  readonly cols: number;
  /** Patches of a row, a multiple of `scale`. */
  readonly side: number;
  readonly scale: number;
}

/**
 * Puts the patches of each square of `scale` x `scale` side by side.
 *
 * Binds the tensors now; the returned function records one launch.
 */
export function pixelShuffle(recorder: Recorder, options: PixelShuffleOptions): () => void {
  const { x, out, cols, side, scale } = options;
  const patches = side * side;
  const bound = kernel.bind(
    recorder,
    { x, out },
    {
      params: { cols, side, scale },
      cost: () => ({ bytes: patches * cols * 8, flops: 0 }),
    },
  );
  return () => bound.record(patches);
}
