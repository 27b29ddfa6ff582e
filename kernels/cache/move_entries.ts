import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./move_entries.wgsl?raw";

/** Words of a workgroup, as in the kernel. */
const WORKGROUP_SIZE = 64;

const kernel = new Kernel({
  name: "cache/move_entries",
  source,
  buffers: ["runs", "moves", "cache"],
  params: ["words"],
});

export interface MoveEntriesOptions {
  /** `[runs, 2]` u32: first move, count; the moves of a run are made in order */
  readonly runs: Tensor;
  /** `[moves, 2]` u32: slots from and to */
  readonly moves: Tensor;
  /** `[slots, words]` u32 */
  readonly cache: Tensor;
  /** 32-bit words of an entry. */
  readonly words: number;
}

/**
 * Moves entries of a layer's cache. Moves of one run may read what an earlier one has written;
 * those of two runs have no slot in common that is written.
 *
 * Binds the tensors now; the returned function records one launch over `runs` runs, which have
 * `moves` moves together.
 */
export function moveEntries(
  recorder: Recorder,
  { runs, moves, cache, words }: MoveEntriesOptions,
): (runs: number, moves: number) => void {
  let moveCount = 0;
  const bound = kernel.bind(
    recorder,
    { runs, moves, cache },
    { params: { words }, cost: () => ({ bytes: 8 * words * moveCount, flops: 0 }) },
  );
  return (runCount, count) => {
    moveCount = count;
    bound.record(Math.ceil(words / WORKGROUP_SIZE), runCount);
  };
}
