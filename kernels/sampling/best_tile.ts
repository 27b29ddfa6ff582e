import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import orderedBits from "../common/ordered_bits.wgsl?raw";
import workgroupBest from "../common/workgroup_best.wgsl?raw";
import source from "./best_tile.wgsl?raw";

const ENTRY_BYTES = 8;

const kernel = new Kernel({
  name: "sampling/best_tile",
  source: orderedBits + workgroupBest + source,
  buffers: ["tiles", "ids"],
  params: ["count", "stride"],
});

export interface BestTileOptions {
  /** `[rows, stride]` (key, column), as `linearBest` writes them */
  readonly tiles: Tensor;
  /** Entries of two words. */
  readonly stride: number;
  /** `[rows]` u32 */
  readonly ids: Tensor;
}

/**
 * What `argmax` gives for the outputs whose tiles these are.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows of `count` tiles.
 */
export function bestTile(
  recorder: Recorder,
  { tiles, stride, ids }: BestTileOptions,
): (rows: number, count: number) => void {
  const bound = kernel.bind(
    recorder,
    { tiles, ids },
    {
      params: { stride },
      cost: ({ grid: [rows], param }) => ({ bytes: rows * param("count") * ENTRY_BYTES, flops: 0 }),
    },
  );
  return (rows, count) => {
    bound.set("count", count);
    bound.record(rows);
  };
}
