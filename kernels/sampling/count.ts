import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./count.wgsl?raw";

const kernel = new Kernel({
  name: "sampling/count",
  source,
  buffers: ["items", "biases", "ids", "counts"],
  params: ["items", "vocabulary"],
});

const WORKGROUP_SIZE = 64;

export interface CountOptions {
  /** `[items, ADJUST_WORDS]`, as `writeAdjustment` fills it */
  readonly items: Tensor;
  /** `[biases, 2]`, among them the drafted tokens, each with the row that it is drafted for */
  readonly biases: Tensor;
  /** `[rows]` u32: the tokens that were sampled */
  readonly ids: Tensor;
  /** `[slots, vocabulary]` u32 */
  readonly counts: Tensor;
  readonly vocabulary: number;
}

/**
 * Counts each sampled token in its row of `counts`, so that the next step need not wait for the
 * host to have seen it. Behind drafts only where these are what was sampled in their places.
 *
 * Binds the tensors now; the returned function records one launch over `items` items.
 */
export function count(recorder: Recorder, options: CountOptions): (items: number) => void {
  const { items, biases, ids, counts, vocabulary } = options;
  const bound = kernel.bind(
    recorder,
    { items, biases, ids, counts },
    {
      constants: { WORKGROUP_SIZE },
      params: { vocabulary },
      cost: ({ param }) => ({ bytes: 16 * param("items"), flops: 0 }),
    },
  );
  return (rows) => {
    bound.set("items", rows);
    bound.record(Math.ceil(rows / WORKGROUP_SIZE));
  };
}
