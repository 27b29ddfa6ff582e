import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { NO_TREE, PATH_WORDS } from "../../attention/tree_paths.ts";
import orderedBits from "../../common/sampling/ordered_bits.wgsl?raw";
import workgroupBest from "../../common/sampling/workgroup_best.wgsl?raw";
import treeEntry from "../../common/speculation/tree_entry.wgsl?raw";
import source from "./grow_beams.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/trees/grow_beams",
  source: orderedBits + workgroupBest + treeEntry + source,
  buffers: [
    "entries",
    "probabilities",
    "tokens",
    "pool",
    "beams",
    "rows",
    "parent_rows",
    "page_tables",
  ],
  params: [
    "topk",
    "pool_size",
    "page_size",
    "max_positions",
    "padding_slot",
    "padding_page",
    "first_path",
  ],
});

const WORKGROUP_SIZE = 64;
/** Beams of a sequence at most: a workgroup has an invocation for each. */
export const MAX_BEAMS = WORKGROUP_SIZE;
/** Words of a candidate: score, token, and its parent or `NO_PARENT`. */
export const CANDIDATE_WORDS = 3;
/** In place of a parent: the candidate follows the newest token. */
export const NO_PARENT = 0xffffffff;

export interface GrowBeamsOptions {
  /** `[sequences, TREE_ENTRY_WORDS]` u32, as `acceptTrees` leaves them */
  readonly entries: Tensor;
  /** `[sequences, beams, topk]` f32, of one beam in the first step */
  readonly probabilities: Tensor;
  /** `[sequences, beams, topk]` u32 */
  readonly tokens: Tensor;
  /** `[sequences, poolSize, CANDIDATE_WORDS]` */
  readonly pool: Tensor;
  /** `[sequences, topk]` u32 */
  readonly beams: Tensor;
  /** `[sequences, topk]` of four u32: source, position, slot, path */
  readonly rows: Tensor;
  /** `[sequences, topk]` u32 */
  readonly parentRows: Tensor;
  /** `[..]` u32: page numbers, and from `firstPath` on `[sequences, topk, PATH_WORDS]` paths */
  readonly pageTables: Tensor;
  /** Candidates after each beam, `MAX_BEAMS` at most, and beams. */
  readonly topk: number;
  /** Candidates of a sequence in all steps. */
  readonly poolSize: number;
  readonly pageSize: number;
  /** Positions of a sequence at most. */
  readonly maxPositions: number;
  /** Where rows of padding are in the cache, and their first page-table entry. */
  readonly paddingSlot: number;
  readonly paddingPage: number;
  readonly firstPath: number;
}

/**
 * Takes a step's candidates into the pool, and makes rows of the best of them.
 *
 * Binds the tensors now; the returned function records one launch over `sequences` sequences, of which
 * each counts its steps. A node's number, `step * topk` and more, fits a byte.
 */
export function growBeams(
  recorder: Recorder,
  options: GrowBeamsOptions,
): (sequences: number) => void {
  const { entries, probabilities, tokens, pool, beams, rows, parentRows, pageTables } = options;
  const { topk, poolSize, pageSize, maxPositions, paddingSlot, paddingPage, firstPath } = options;
  const bound = kernel.bind(
    recorder,
    {
      entries,
      probabilities,
      tokens,
      pool,
      beams,
      rows,
      parent_rows: parentRows,
      page_tables: pageTables,
    },
    {
      constants: {
        WORKGROUP_SIZE,
        BEST_BLOCK: Math.sqrt(WORKGROUP_SIZE),
        MAX_BEAMS,
        NO_PARENT,
        NO_TREE,
        PATH_WORDS,
      },
      params: {
        topk,
        pool_size: poolSize,
        page_size: pageSize,
        max_positions: maxPositions,
        padding_slot: paddingSlot,
        padding_page: paddingPage,
        first_path: firstPath,
      },
      // The host does not say which step it is: the first one has fewer candidates.
      cost: ({ grid: [sequences] }) => ({
        bytes: sequences * (20 * topk ** 2 + 64 * topk + 32),
        flops: sequences * topk ** 2,
      }),
    },
  );
  return (sequences) => bound.record(sequences);
}

/** The candidates of the steps before one. */
export const poolStart = (step: number, topk: number): number =>
  step === 0 ? 0 : topk + (step - 1) * topk ** 2;
