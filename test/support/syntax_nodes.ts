/**
 * Nodes of the syntax trees of our sources, for tests of how code is written.
 *
 * @module
 */

/** A node as `parseAst` of Vite makes it. */
export interface Node {
  readonly type: string;
  readonly start: number;
  readonly [key: string]: unknown;
}

export const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && typeof (value as Node).type === "string";

/** A tree's nodes, each before those in it. */
export function* nodesOf(value: unknown): Generator<Node> {
  if (isNode(value)) yield value;
  if (typeof value !== "object" || value === null) return;
  for (const child of Object.values(value)) yield* nodesOf(child);
}
