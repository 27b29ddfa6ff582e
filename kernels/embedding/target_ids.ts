import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./target_ids.wgsl?raw";

const kernel = new Kernel({
  name: "embedding/target_ids",
  source,
  buffers: ["table", "ids"],
  params: ["count"],
});

const WORKGROUP_SIZE = 64;

export interface TargetIdsOptions {
  /** `[draft vocabulary]` u32: the target's id of each token that the draft knows */
  readonly table: Tensor;
  /** `[..]` u32 */
  readonly ids: Tensor;
}

/**
 * Makes the target's ids of a draft's.
 *
 * Binds the tensors now; the returned function records one launch over the first `count` ids.
 */
export function targetIds(recorder: Recorder, options: TargetIdsOptions): (count: number) => void {
  const { table, ids } = options;
  const bound = kernel.bind(
    recorder,
    { table, ids },
    {
      constants: { WORKGROUP_SIZE },
      cost: ({ param }) => ({ bytes: 12 * param("count"), flops: 0 }),
    },
  );
  return (count) => {
    bound.set("count", count);
    bound.record(Math.ceil(count / WORKGROUP_SIZE));
  };
}
