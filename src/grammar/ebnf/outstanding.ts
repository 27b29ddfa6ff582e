/**
 * What is left to match of the lookaheads that a text has met, as one state.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import { GrammarError } from "../grammar_error.ts";
import { HOPELESS, MET, type Obligations } from "../regex/assertions/obligations.ts";

/** Different sets of lookaheads that are being looked for. */
export const MAX_OUTSTANDING = 1_000;
const PIECE_EFFORT = 0.5;

/** Characters from `first` to `last` lead to a state. */
export interface Piece {
  readonly first: number;
  readonly last: number;
  readonly state: number;
}

/** No lookahead is looked for. */
export const NOTHING_OUTSTANDING = 0;

export class Outstanding {
  readonly #obligations: Obligations;
  readonly #states: (readonly number[])[] = [[]];
  readonly #numbers = new Map<string, number>([["", NOTHING_OUTSTANDING]]);

  constructor(obligations: Obligations) {
    this.#obligations = obligations;
  }

  /** The state with one more obligation; nothing where that can never be met. */
  with(state: number, obligation: number): number | undefined {
    if (obligation === HOPELESS) return undefined;
    return obligation === MET ? state : this.#number([...this.#states[state]!, obligation]);
  }

  allowsEnd(state: number): boolean {
    return this.#states[state]!.every((one) => this.#obligations.allowsEnd(one));
  }

  /** Where the characters of a range lead to, by all ways. */
  step(state: number, first: number, last: number): readonly Piece[] {
    let open: { first: number; last: number; left: readonly number[] }[] = [
      { first, last, left: [] },
    ];
    for (const obligation of this.#states[state]!) {
      open = open.flatMap((piece) => {
        const edges = this.#obligations.edges(obligation, piece.first, piece.last);
        spendEffort(PIECE_EFFORT * (1 + edges.length));
        return edges.map((edge) => ({
          first: Math.max(piece.first, edge.first),
          last: Math.min(piece.last, edge.last),
          left: edge.target === MET ? piece.left : [...piece.left, edge.target],
        }));
      });
    }
    return open.map(({ left, ...range }) => ({ ...range, state: this.#number(left) }));
  }

  #number(obligations: readonly number[]): number {
    const sorted = [...new Set(obligations)].sort((a, b) => a - b);
    const key = sorted.join();
    let known = this.#numbers.get(key);
    if (known === undefined) {
      known = this.#states.push(sorted) - 1;
      if (known >= MAX_OUTSTANDING) {
        throw new GrammarError(
          `Cannot use the lookaheads: more than ${MAX_OUTSTANDING} sets of them are looked for at once`,
        );
      }
      this.#numbers.set(key, known);
    }
    return known;
  }
}
