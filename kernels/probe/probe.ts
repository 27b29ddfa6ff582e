import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import fp8 from "../common/weights/weights_fp8.wgsl?raw";
import type { Fp8Decode } from "../linear/weights/layout.ts";
import source from "./probe.wgsl?raw";

const kernel = new Kernel({
  name: "probe/probe",
  source: fp8 + source,
  buffers: ["codes", "scales", "halves", "left", "right", "decoded", "unpacked", "sums"],
  params: ["rows_padded"],
});

export interface ProbeOptions {
  /** `[64]` u32: every FP8 code once */
  readonly codes: Tensor;
  /** `[256]` f32: a scale for each code */
  readonly scales: Tensor;
  /** `[256]` u32: pairs of f16 */
  readonly halves: Tensor;
  /** `[256]` f32 whole numbers, not negative */
  readonly left: Tensor;
  /** `[256]` f32 whole numbers, not negative */
  readonly right: Tensor;
  /** `[256]` f32 */
  readonly decoded: Tensor;
  /** `[512]` f32 */
  readonly unpacked: Tensor;
  /** `[2]` f32: the sum of `left * right`, found in two ways */
  readonly sums: Tensor;
  readonly fp8Decode: Fp8Decode;
}

/** Does once what every kernel relies on. Binds now; the returned function records the launch. */
export function probe(recorder: Recorder, options: ProbeOptions): () => void {
  const { fp8Decode, ...tensors } = options;
  const bound = kernel.bind(recorder, tensors, {
    constants: { HALF_DECODE: fp8Decode === "half" },
    params: { rows_padded: 256 },
    cost: () => ({ bytes: 8192, flops: 0 }),
  });
  return () => bound.record(1);
}
