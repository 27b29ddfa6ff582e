import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./pixel_shuffle.wgsl?raw";

const kernel = new Kernel({
  name: "vision/pixel_shuffle",
  source,
  buffers: ["x", "out"],
  params: ["cols", "side", "scale", "wide"],
});

export interface PixelShuffleOptions {
  /** `[side * side, cols]` f32: the patches of a picture, row by row */
  readonly x: Tensor;
  /** `[squares, scale^2 * cols]` f32 */
  readonly out: Tensor;
  readonly cols: number;
  /** Patches of a row. */
  readonly side: number;
  /** Patches of a square's side; the last squares are filled up with zeros. */
  readonly scale: number;
  /** Whether a square's patches stand side by side, or its columns do. Default patches. */
  readonly outermost?: "patches" | "columns";
}

/**
 * Makes a row of the patches of each square of `scale` x `scale`.
 *
 * Binds the tensors now; the returned function records one launch.
 */
export function pixelShuffle(recorder: Recorder, options: PixelShuffleOptions): () => void {
  const { x, out, cols, side, scale, outermost = "patches" } = options;
  const wide = Math.ceil(side / scale);
  const patches = wide * scale;
  const bound = kernel.bind(
    recorder,
    { x, out },
    {
      constants: { UNFOLDS: outermost === "columns" },
      params: { cols, side, scale, wide },
      cost: () => ({ bytes: (side ** 2 + patches ** 2) * cols * 4, flops: 0 }),
    },
  );
  return () => bound.record(patches, patches);
}
