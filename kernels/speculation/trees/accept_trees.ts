import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { MAX_TREE_DEPTH } from "../../attention/tree_paths.ts";
import treeEntry from "../../common/speculation/tree_entry.wgsl?raw";
import source from "./accept_trees.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/trees/accept_trees",
  source: treeEntry + source,
  buffers: ["entries", "parents", "logit_rows", "rows", "sampled", "last_rows", "runs", "moves"],
  params: ["sequences"],
});

const WORKGROUP_SIZE = 64;
/**
 * Words of an entry: first of its rows of logits, their count, entries that its pages hold, word where
 * its page numbers start, and what kernels find: the path's last row, its position, steps of drafts,
 * the token drawn behind the path, and its position.
 */
export const TREE_ENTRY_WORDS = 9;

export interface AcceptTreesOptions {
  /** `[sequences, TREE_ENTRY_WORDS]` u32, of which the last five are written */
  readonly entries: Tensor;
  /** `[..]` u32, by row of logits: the number of its node's parent; that of a root is not read */
  readonly parents: Tensor;
  /** `[..]` u32: rows whose logits are wanted */
  readonly logitRows: Tensor;
  /** `[..]` of four u32: source, position, slot, and one more; drafts are token ids */
  readonly rows: Tensor;
  /** `[..]` u32: the token drawn from each row of logits */
  readonly sampled: Tensor;
  /** `[sequences]` u32: the last accepted row of each */
  readonly lastRows: Tensor;
  /** `[sequences, 2]` u32, as `moveEntries` takes them */
  readonly runs: Tensor;
  /** `[sequences * MAX_TREE_DEPTH, 2]` u32 */
  readonly moves: Tensor;
}

/**
 * Finds the path of each sequence's tree that the drawn tokens follow, and the moves that put its
 * entries behind each other. None is deeper than `MAX_TREE_DEPTH`.
 *
 * Binds the tensors now; the returned function records one launch over `sequences` sequences, each
 * of one row of logits at least.
 */
export function acceptTrees(
  recorder: Recorder,
  options: AcceptTreesOptions,
): (sequences: number) => void {
  const { entries, parents, logitRows, rows, sampled, lastRows, runs, moves } = options;
  const bound = kernel.bind(
    recorder,
    {
      entries,
      parents,
      logit_rows: logitRows,
      rows,
      sampled,
      last_rows: lastRows,
      runs,
      moves,
    },
    {
      constants: { WORKGROUP_SIZE, MAX_DEPTH: MAX_TREE_DEPTH },
      cost: ({ param }) => ({ bytes: 76 * param("sequences"), flops: 0 }),
    },
  );
  return (sequences) => {
    bound.set("sequences", sequences);
    bound.record(Math.ceil(sequences / WORKGROUP_SIZE));
  };
}
