import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { MAX_TREE_DEPTH, PATH_WORDS } from "../../attention/tree_paths.ts";
import { STAYS } from "../continue_rows.ts";
import source from "./continue_trees.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/trees/continue_trees",
  source,
  buffers: ["continued", "ends", "ids", "rows", "page_tables", "parents", "draws"],
  params: ["rows", "page_size"],
});

const WORKGROUP_SIZE = 64;
/** Words of a row's entry: its tree's end or `STAYS`, its node, the nodes' tokens and parents, its logits. */
export const CONTINUED_NODE_WORDS = 5;

export interface ContinueTreesOptions {
  /** `[rows, CONTINUED_NODE_WORDS]` u32 */
  readonly continued: Tensor;
  /** `[.., END_WORDS]` u32, as `chooseTree` has left them */
  readonly ends: Tensor;
  /** `[..]` u32: tokens and parents of nodes, as `chooseTree` has left them */
  readonly ids: Tensor;
  /** `[rows]` of four u32: source, position, slot, path, of which the last is read */
  readonly rows: Tensor;
  /** `[..]` page numbers, and paths, of which the first words are read */
  readonly pageTables: Tensor;
  /** `[..]` u32, as `acceptTrees` takes them */
  readonly parents: Tensor;
  /** `[.., DRAW_WORDS]`: how the logits of each row are drawn from */
  readonly draws: Tensor;
  readonly pageSize: number;
}

/**
 * Writes token, position, slot and path of rows that are nodes of the trees that the step before has
 * chosen, their parents, and the position of what is drawn from their logits. The pages have to reach so
 * far.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function continueTrees(
  recorder: Recorder,
  options: ContinueTreesOptions,
): (rows: number) => void {
  const { continued, ends, ids, rows, pageTables, parents, draws, pageSize } = options;
  const bound = kernel.bind(
    recorder,
    { continued, ends, ids, rows, page_tables: pageTables, parents, draws },
    {
      constants: { WORKGROUP_SIZE, STAYS, PATH_WORDS, MAX_DEPTH: MAX_TREE_DEPTH },
      params: { page_size: pageSize },
      cost: ({ param }) => ({ bytes: 108 * param("rows"), flops: 0 }),
    },
  );
  return (count) => {
    bound.set("rows", count);
    bound.record(Math.ceil(count / WORKGROUP_SIZE));
  };
}
