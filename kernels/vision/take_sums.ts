import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./take_sums.wgsl?raw";

const WORKGROUP_SIZE = 64;

const kernel = new Kernel({
  name: "vision/take_sums",
  source,
  buffers: ["x", "addend", "out"],
  params: ["first", "count"],
});

export interface TakeSumsOptions {
  /** `[rows, cols]` f32, both: their sum is taken */
  readonly x: Tensor;
  readonly addend: Tensor;
  /** `[rows - firstRow, cols]` f32 */
  readonly out: Tensor;
  readonly rows: number;
  readonly cols: number;
  /** Rows in front of it are left out. */
  readonly firstRow: number;
}

/**
 * The sum of two matrices, from one of their rows on.
 *
 * Binds the tensors now; the returned function records one launch.
 */
export function takeSums(recorder: Recorder, options: TakeSumsOptions): () => void {
  const { x, addend, out, rows, cols, firstRow } = options;
  const count = (rows - firstRow) * cols;
  const bound = kernel.bind(
    recorder,
    { x, addend, out },
    {
      params: { first: firstRow * cols, count },
      cost: () => ({ bytes: count * 12, flops: count }),
    },
  );
  return () => bound.record(Math.ceil(count / WORKGROUP_SIZE));
}
