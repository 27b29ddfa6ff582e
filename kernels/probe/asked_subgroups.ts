import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import { canAskFor } from "../../src/gpu/subgroup_size.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./asked_subgroups.wgsl?raw";

/** Of a subgroup, at most. */
export const MOST_ASKED = 32;
const TOLD = 3;

const kernel = new Kernel({
  name: "probe/asked_subgroups",
  source,
  buffers: ["values", "told"],
  params: ["step"],
});

export interface AskedSubgroupsOptions {
  /** `[32]` f32 */
  readonly values: Tensor;
  /** `[32, 3]` f32 */
  readonly told: Tensor;
  /** Invocations of the workgroup, and of the subgroup that it asks to be: at most 32. */
  readonly lanes: number;
  /** Lanes between an invocation and the one that it asks. */
  readonly step: number;
}

/** Invocations of one subgroup tell each other values. Binds now; the function records the launch. */
export function askedSubgroups(recorder: Recorder, options: AskedSubgroupsOptions): () => void {
  const { values, told, lanes, step } = options;
  const bound = kernel.bind(
    recorder,
    { values, told },
    {
      constants: { LANES: lanes },
      params: { step },
      // Where sizes are all the same there is nothing to ask for.
      subgroupSize: canAskFor(recorder.device, lanes) ? lanes : undefined,
      cost: () => ({ bytes: 4 * lanes * (1 + TOLD), flops: lanes }),
    },
  );
  return () => bound.record(1);
}

/** Numbers in no order. */
export function askedSubgroupsInputs(): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: MOST_ASKED }, (_, i) => ((i * 37) % 101) - 50);
}

/** What they are told. */
export function askedSubgroupsReference(
  values: Float32Array,
  { lanes, step }: Pick<AskedSubgroupsOptions, "lanes" | "step">,
): Float32Array<ArrayBuffer> {
  const own = [...values.slice(0, lanes)];
  const told = own.flatMap((_, i) => [
    own.reduce((most, value) => Math.max(most, value)),
    own[(i + step) % lanes]!,
    own[i ^ step]!,
  ]);
  return Float32Array.from(told);
}
