import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./gelu.wgsl?raw";

const WORKGROUP_SIZE = 64;
const QUAD = 4;

const kernel = new Kernel({
  name: "vision/gelu",
  source,
  buffers: ["x"],
  params: ["quads"],
});

export interface GeluOptions {
  /** `[elements]` f32, a multiple of 4: each becomes its GELU. */
  readonly x: Tensor;
}

/**
 * `x = x * Phi(x)` by tanh.
 *
 * Binds the tensor now; the returned function records one launch over `elements` elements, a multiple
 * of 4.
 */
export function gelu(recorder: Recorder, { x }: GeluOptions): (elements: number) => void {
  let quads = 0;
  const bound = kernel.bind(
    recorder,
    { x },
    { params: { quads }, cost: () => ({ bytes: quads * QUAD * 8, flops: quads * QUAD * 9 }) },
  );
  return (elements) => {
    quads = elements / QUAD;
    bound.set("quads", quads);
    bound.record(Math.ceil(quads / WORKGROUP_SIZE));
  };
}
