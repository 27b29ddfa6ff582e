/**
 * Where the nodes of the prefix cache go in a drawing: a row for each node, each below its parent,
 * from left to right as far as its tokens reach.
 *
 * @module
 */
import type { CacheTree, CacheTreeNode } from "wisp-llm";

export interface TreeRow {
  readonly node: CacheTreeNode;
  /** Tokens in front of it, and up to its end. */
  readonly start: number;
  readonly end: number;
  /** Row of its parent; undefined where nothing comes before. */
  readonly parentRow: number | undefined;
}

export interface TreeLayout {
  /** Children follow their parent, the branch that was used last first. */
  readonly rows: readonly TreeRow[];
  /** Tokens of the longest prefix that is drawn. */
  readonly width: number;
  /** Nodes for which there was no row. */
  readonly hidden: number;
}

/** @param maxRows Nodes that were used last are drawn, with what comes before them. */
export function layOutTree({ nodes }: CacheTree, maxRows: number): TreeLayout {
  // A parent comes before its children in the list, so that the beginning of it is a tree as well.
  const shown = nodes.slice(0, maxRows);
  const children = new Map<number, number[]>();
  for (const [index, { parent }] of shown.entries()) {
    const siblings = children.get(parent);
    if (siblings === undefined) children.set(parent, [index]);
    else siblings.push(index);
  }
  const rows: TreeRow[] = [];
  const place = (index: number, parentRow: number | undefined) => {
    const node = shown[index]!;
    const start = parentRow === undefined ? 0 : rows[parentRow]!.end;
    const row = rows.push({ node, start, end: start + node.tokens, parentRow }) - 1;
    for (const child of children.get(index) ?? []) place(child, row);
  };
  for (const root of children.get(-1) ?? []) place(root, undefined);
  const width = rows.reduce((most, { end }) => Math.max(most, end), 0);
  return { rows, width, hidden: nodes.length - rows.length };
}
