import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { MAX_TREE_NODES } from "../../attention/tree_paths.ts";
import orderedBits from "../../common/sampling/ordered_bits.wgsl?raw";
import workgroupBest from "../../common/sampling/workgroup_best.wgsl?raw";
import treeEntry from "../../common/speculation/tree_entry.wgsl?raw";
import source from "./choose_tree.wgsl?raw";
import { NO_PARENT } from "./grow_beams.ts";

const kernel = new Kernel({
  name: "speculation/trees/choose_tree",
  source: orderedBits + workgroupBest + treeEntry + source,
  buffers: ["pool", "entries", "ids", "ends"],
  params: ["count", "pool_size", "nodes", "first_id"],
});

const WORKGROUP_SIZE = 64;

export interface ChooseTreeOptions {
  /** `[sequences, poolSize, CANDIDATE_WORDS]`, as `growBeams` fills it */
  readonly pool: Tensor;
  /** `[sequences, TREE_ENTRY_WORDS]` u32, as `acceptTrees` leaves them */
  readonly entries: Tensor;
  /** `[..]` u32: tokens and parents of the nodes, behind other ids */
  readonly ids: Tensor;
  /** `[sequences, END_WORDS]` u32: count of nodes behind node 0, its token, its position */
  readonly ends: Tensor;
  readonly poolSize: number;
}

/** What a step chooses of each pool. */
export interface ChosenNodes {
  /** Candidates that it has. */
  readonly candidates: number;
  /** Nodes behind node 0: `candidates` at most, and fewer than `MAX_TREE_NODES`. */
  readonly nodes: number;
  /** Where they start in `ids`: of each sequence the tokens, then the parents as numbers of nodes. */
  readonly firstId: number;
}

/**
 * Makes nodes of the best candidates of each sequence, and says where its node 0 stands.
 *
 * Binds the tensors now; the returned function records one launch over `sequences` sequences.
 */
export function chooseTree(
  recorder: Recorder,
  { pool, entries, ids, ends, poolSize }: ChooseTreeOptions,
): (sequences: number, chosen: ChosenNodes) => void {
  const bound = kernel.bind(
    recorder,
    { pool, entries, ids, ends },
    {
      constants: {
        WORKGROUP_SIZE,
        BEST_BLOCK: Math.sqrt(WORKGROUP_SIZE),
        MAX_NODES: MAX_TREE_NODES,
        NO_PARENT,
      },
      params: { pool_size: poolSize },
      cost: ({ grid: [sequences], param }) => ({
        bytes: sequences * (20 + 4 * param("count") + 16 * param("nodes")),
        flops: 0,
      }),
    },
  );
  return (sequences, { candidates, nodes, firstId }) => {
    bound.set("count", candidates);
    bound.set("nodes", nodes);
    bound.set("first_id", firstId);
    bound.record(sequences);
  };
}
