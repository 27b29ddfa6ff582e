/**
 * The rows of a batch with draft trees, as attention reads them: every decode row says where its
 * path stands, and one of no tree has a path that changes nothing.
 *
 * @module
 */
import { NO_TREE, PATH_WORDS, writePath } from "../../../kernels/attention/tree_paths.ts";
import { KernelError } from "../../errors.ts";
import type { BatchSequence } from "../batch.ts";
import { treePaths } from "../draft_tree.ts";

/** Words of a row: source, position, slot, index of its sequence's first page in `pageTables`. */
const ROW_WORDS = 4;
const POSITION = 1;
const FIRST_PAGE = 3;

export interface TreeRowsOptions {
  readonly maxRows: number;
  /** Nodes of a sequence's tree at most, 0 without trees. */
  readonly maxTreeNodes: number;
  /** The word of `pageTables` where the path of row 0 stands. */
  readonly firstWord: number;
}

/** Filled anew for every batch that has trees. */
export class TreeRows {
  /** `[maxRows, PATH_WORDS]` */
  readonly paths: Uint32Array<ArrayBuffer>;
  readonly #maxTreeNodes: number;
  readonly #firstWord: number;

  constructor({ maxRows, maxTreeNodes, firstWord }: TreeRowsOptions) {
    this.paths = new Uint32Array(maxTreeNodes > 0 ? maxRows * PATH_WORDS : 0);
    this.#maxTreeNodes = maxTreeNodes;
    this.#firstWord = firstWord;
  }

  /**
   * Writes the paths of all decode rows, and changes the rows, which are written as if there were no
   * trees: nodes get their positions, and every decode row the place of its path.
   *
   * @param padding Rows behind those of the sequences.
   * @returns Words of `paths` that are used.
   * @throws {KernelError} when a tree is none, or its nodes are not the sequence's rows.
   */
  fill(sequences: readonly BatchSequence[], rows: Uint32Array, padding: number): number {
    let end = 0;
    for (const sequence of sequences) {
      const { queryStart, queryLength } = sequence;
      end = Math.max(end, queryStart + queryLength);
      if (sequence.phase !== "prefill") this.#fillSequence(sequence, rows);
      else if (sequence.tree !== undefined) throw new KernelError("draft tree", "rows of a prompt");
    }
    for (let row = end; row < end + padding; row++) this.#setPath(rows, row, NO_TREE);
    return (end + padding) * PATH_WORDS;
  }

  #fillSequence(
    { queryStart, queryLength, position, tree, continues }: BatchSequence,
    rows: Uint32Array,
  ): void {
    // The GPU writes the path itself, behind the first page.
    const base = continues?.depth === undefined && tree === undefined ? NO_TREE : position;
    const paths = tree && treePaths(tree, this.#maxTreeNodes);
    if (paths !== undefined && paths.length !== queryLength) {
      throw new KernelError("draft tree", `${queryLength} rows for ${paths.length} nodes`);
    }
    for (let i = 0; i < queryLength; i++) {
      const row = queryStart + i;
      const nodes = paths?.[i];
      if (nodes !== undefined) rows[row * ROW_WORDS + POSITION] = position + nodes.length - 1;
      this.#setPath(rows, row, base, nodes);
    }
  }

  #setPath(rows: Uint32Array, row: number, base: number, nodes?: readonly number[]): void {
    const at = row * ROW_WORDS + FIRST_PAGE;
    writePath(this.paths, row * PATH_WORDS, {
      firstPage: rows[at]!,
      base,
      ...(nodes && { nodes }),
    });
    rows[at] = this.#firstWord + row * PATH_WORDS;
  }
}
