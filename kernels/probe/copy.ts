import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./copy.wgsl?raw";

const kernel = new Kernel({
  name: "probe/copy",
  source,
  buffers: ["source", "to"],
  params: ["vectors"],
});

const VECTOR_BYTES = 16;
const WORKGROUP_VECTORS = 64 * 4;
/** Workgroups along x; more go along y. */
const MOST_WORKGROUPS = 4096;

export interface CopyOptions {
  /** `[4 * vectors]` f32 */
  readonly source: Tensor;
  /** `[4 * vectors]` f32; not the same buffer as `source` */
  readonly to: Tensor;
}

/** `to = source`. Binds now; the returned function records the launch over `vectors` vectors. */
export function copy(recorder: Recorder, { source, to }: CopyOptions): (vectors: number) => void {
  const bound = kernel.bind(
    recorder,
    { source, to },
    { cost: ({ param }) => ({ bytes: 2 * VECTOR_BYTES * param("vectors"), flops: 0 }) },
  );
  return (vectors) => {
    bound.set("vectors", vectors);
    const groups = Math.ceil(vectors / WORKGROUP_VECTORS);
    bound.record(Math.min(groups, MOST_WORKGROUPS), Math.ceil(groups / MOST_WORKGROUPS));
  };
}
