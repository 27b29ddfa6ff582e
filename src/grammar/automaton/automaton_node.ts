/**
 * A node of an automaton over bytes, and what leads on from it.
 *
 * @module
 */

export interface AutomatonNode {
  readonly edges: readonly ByteEdge[];
  /** Nodes that are reached without a byte. */
  readonly silent: readonly number[];
  readonly calls: readonly Call[];
  /** Indices of counted repeats that may begin here. */
  readonly repeats: readonly number[];
  /** What happens here to lists in any order, and to characters that are counted. */
  readonly roles: readonly ListRole[];
  /** Whether the rule or the round ends here. */
  readonly returns: boolean;
}

/**
 * A list begins here; a part of the list on top of the stack has ended; its next one begins; one of the
 * characters that are counted on top of the stack begins, which `need` others must follow.
 */
export type ListRole =
  | { readonly kind: "character begins"; readonly target: number; readonly need: number }
  | { readonly kind: "list begins"; readonly list: number }
  | { readonly kind: "part ends"; readonly part: number }
  | { readonly kind: "part begins" };

export interface ByteEdge {
  readonly first: number;
  readonly last: number;
  readonly target: number;
}

export interface Call {
  /** First node of the rule. */
  readonly start: number;
  /** Where to go on behind it. */
  readonly back: number;
}
