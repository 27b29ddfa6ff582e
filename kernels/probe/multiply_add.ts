import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./multiply_add.wgsl?raw";

const kernel = new Kernel({
  name: "probe/multiply_add",
  source,
  buffers: ["out"],
  params: ["steps", "factor", "increment"],
});

export const MULTIPLY_ADD_WORKGROUP = 64;
/** Numbers of an invocation: four chains of four. */
const NUMBERS = 16;

export interface MultiplyAddOptions {
  /** `[workgroups * MULTIPLY_ADD_WORKGROUP, 4]` f32 */
  readonly out: Tensor;
  /** Of a number: fused multiply-adds, one after another. */
  readonly steps: number;
  readonly factor: number;
  readonly increment: number;
}

/**
 * The sum of four chains `c = c * factor + increment`, begun at 0, 1, 2 and 3.
 *
 * Binds now; the returned function records one launch over `workgroups` workgroups.
 */
export function multiplyAdd(
  recorder: Recorder,
  { out, steps, factor, increment }: MultiplyAddOptions,
): (workgroups: number) => void {
  const bound = kernel.bind(
    recorder,
    { out },
    {
      params: { steps, factor, increment },
      cost: ({ grid: [workgroups] }) => ({
        bytes: workgroups * MULTIPLY_ADD_WORKGROUP * 16,
        flops: workgroups * MULTIPLY_ADD_WORKGROUP * NUMBERS * 2 * steps,
      }),
    },
  );
  return (workgroups) => bound.record(workgroups);
}
