import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import source from "./sum_errors.wgsl?raw";

const kernel = new Kernel({
  name: "linear/sum_errors",
  source,
  buffers: ["partials", "errors"],
  params: ["count", "index"],
});

export interface SumErrorsOptions {
  /** `[at least count, 2]` f32 */
  readonly partials: Tensor;
  /** `[tensors, 2]` f32, added to */
  readonly errors: Tensor;
}

/**
 * `errors[index] += partials[0] + ... + partials[count - 1]`, in a fixed order.
 *
 * Binds the tensors now; the returned function records one launch.
 */
export function sumErrors(
  recorder: Recorder,
  { partials, errors }: SumErrorsOptions,
): (count: number, index: number) => void {
  const bound = kernel.bind(
    recorder,
    { partials, errors },
    { cost: ({ param }) => ({ bytes: 8 * param("count"), flops: 2 * param("count") }) },
  );
  return (count, index) => {
    bound.set("count", count);
    bound.set("index", index);
    bound.record(1);
  };
}
