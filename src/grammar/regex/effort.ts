/**
 * Bounds the work that a pattern causes beyond reading it, so that no request holds up another.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import { GrammarError } from "../grammar_error.ts";

/** Units, about a microsecond each. */
const MAX_EFFORT = 1_000_000;

/** The work of one pattern. */
export class Effort {
  #left = MAX_EFFORT;

  /** @throws {GrammarError} when the pattern has caused too much. */
  spend(units: number, position: number): void {
    spendEffort(units);
    this.#left -= units;
    if (this.#left >= 0) return;
    throw new GrammarError(
      "Cannot read the regular expression: its properties, classes or atomic groups take too " +
        "much work",
      { position },
    );
  }
}
