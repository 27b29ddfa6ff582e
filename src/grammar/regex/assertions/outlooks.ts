/**
 * What must come next: a set of characters, and whether the text may end instead.
 *
 * @module
 */

import {
  ANY_CODE_POINT,
  type CodePoints,
  intersectSets,
  invert,
  rangesKey,
  unite,
} from "../../automaton/code_points.ts";
import { spendEffort } from "../../effort.ts";

/** Equal ones are one object. */
export interface Outlook {
  readonly id: number;
  readonly points: CodePoints;
  /** Whether the text may end here. */
  readonly edge: boolean;
}

/** Of each range of a new one. */
const RANGE_EFFORT = 0.1;

/** All outlooks of one pattern. */
export class Outlooks {
  readonly #known = new Map<string, Outlook>();
  readonly #joined = new Map<string, Outlook>();
  /** Whatever comes. */
  readonly any = this.of(ANY_CODE_POINT, true);
  /** Nothing fits, not even the end. */
  readonly none = this.of([], false);

  of(points: CodePoints, edge: boolean): Outlook {
    const key = rangesKey(edge ? 1 : 0, points);
    let known = this.#known.get(key);
    if (known === undefined) {
      spendEffort(1 + RANGE_EFFORT * points.length);
      known = { id: this.#known.size, points, edge };
      this.#known.set(key, known);
    }
    return known;
  }

  both(a: Outlook, b: Outlook): Outlook {
    if (a === b || b === this.any) return a;
    if (a === this.any) return b;
    return this.#join("&", a, b, () =>
      this.of(intersectSets(a.points, b.points), a.edge && b.edge),
    );
  }

  either(a: Outlook, b: Outlook): Outlook {
    if (a === b || b === this.none) return a;
    if (a === this.none) return b;
    return this.#join("|", a, b, () => this.of(unite([a.points, b.points]), a.edge || b.edge));
  }

  not(a: Outlook): Outlook {
    return this.#join("!", a, a, () => this.of(invert(a.points), !a.edge));
  }

  #join(operator: string, a: Outlook, b: Outlook, make: () => Outlook): Outlook {
    const key = `${a.id}${operator}${b.id}`;
    let known = this.#joined.get(key);
    if (known === undefined) {
      spendEffort(1 + RANGE_EFFORT * (a.points.length + b.points.length));
      known = make();
      this.#joined.set(key, known);
    }
    return known;
  }
}
