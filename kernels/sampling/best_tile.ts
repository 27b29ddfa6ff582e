import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { argmaxKernel, rowConstants } from "./argmax.ts";

const ENTRY_BYTES = 8;

export interface BestTileOptions {
  /** `[rows, stride]` (key, column), as `linearBest` writes them */
  readonly tiles: Tensor;
  /** Entries of two words. */
  readonly stride: number;
  /** `[rows]` u32 */
  readonly ids: Tensor;
  /** Invocations per row, 64 or 256; the answer is the same. Default: by the words of a row. */
  readonly workgroupSize?: number;
}

/**
 * What `argmax` gives for the outputs whose tiles these are, by the same kernel.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows of `count` tiles.
 */
export function bestTile(
  recorder: Recorder,
  { tiles, stride, ids, workgroupSize }: BestTileOptions,
): (rows: number, count: number) => void {
  const bound = argmaxKernel.bind(
    recorder,
    // A binding cannot stay empty.
    { logits: tiles, tiles, ids },
    {
      // Those of `argmax` over logits in the tiles' place.
      constants: rowConstants(2 * stride, workgroupSize),
      params: { vocabulary: 0, stride },
      cost: ({ grid: [rows], param }) => ({
        bytes: rows * param("tile_count") * ENTRY_BYTES,
        flops: 0,
      }),
    },
  );
  return (rows, count) => {
    bound.set("tile_count", count);
    bound.record(rows);
  };
}
