import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { NO_TREE, PATH_WORDS } from "../../attention/tree_paths.ts";
import treeEntry from "../../common/speculation/tree_entry.wgsl?raw";
import source from "./start_trees.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/trees/start_trees",
  source: treeEntry + source,
  buffers: ["entries", "rows", "page_tables"],
  params: ["sequences", "page_size", "max_positions", "padding_slot", "padding_page", "first_path"],
});

const WORKGROUP_SIZE = 64;

export interface StartTreesOptions {
  /** `[sequences, TREE_ENTRY_WORDS]` u32, as `acceptTrees` leaves them; their positions go one on */
  readonly entries: Tensor;
  /** `[sequences]` of four u32: source, position, slot, path */
  readonly rows: Tensor;
  /** `[..]` u32: page numbers, and from `firstPath` on `[sequences, PATH_WORDS]` paths */
  readonly pageTables: Tensor;
  readonly pageSize: number;
  /** Positions of a sequence at most. */
  readonly maxPositions: number;
  /** Where rows of padding are in the cache, and their first page-table entry. */
  readonly paddingSlot: number;
  readonly paddingPage: number;
  readonly firstPath: number;
}

/**
 * Makes `rows` those of the tokens that were drawn behind the accepted paths, or padding where a
 * sequence has no further place. `growBeams` then puts candidates behind them.
 *
 * Binds the tensors now; the returned function records one launch over `sequences` sequences.
 */
export function startTrees(
  recorder: Recorder,
  options: StartTreesOptions,
): (sequences: number) => void {
  const { entries, rows, pageTables } = options;
  const { pageSize, maxPositions, paddingSlot, paddingPage, firstPath } = options;
  const bound = kernel.bind(
    recorder,
    { entries, rows, page_tables: pageTables },
    {
      constants: { WORKGROUP_SIZE, NO_TREE, PATH_WORDS },
      params: {
        page_size: pageSize,
        max_positions: maxPositions,
        padding_slot: paddingSlot,
        padding_page: paddingPage,
        first_path: firstPath,
      },
      cost: ({ param }) => ({ bytes: 88 * param("sequences"), flops: 0 }),
    },
  );
  return (sequences) => {
    bound.set("sequences", sequences);
    bound.record(Math.ceil(sequences / WORKGROUP_SIZE));
  };
}
