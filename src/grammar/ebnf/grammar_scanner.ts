/**
 * What the dialects of grammars have in common: errors by line and column, and bounds.
 *
 * @module
 */

import type { Marks } from "../constraints/marks.ts";
import type { Expression } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { MAX_REPETITIONS, TextScanner } from "../text_scanner.ts";

export interface Bounds {
  readonly min: number;
  /** May be Infinity. */
  readonly max: number;
}

/** A place in a grammar. */
export class GrammarScanner extends TextScanner {
  /** An error about the place, which it names by line and column too. */
  error(message: string, position = this.position): GrammarError {
    const before = this.source.slice(0, position);
    const lines = before.split(/\r\n|\r|\n/);
    const place = `line ${lines.length}, column ${lines.at(-1)!.length + 1}`;
    return new GrammarError(`${message}, ${place}`, { position });
  }

  /** @param what Completes "Cannot read the grammar: ". */
  malformed(what: string, position = this.position): GrammarError {
    return this.error(`Cannot read the grammar: ${what}`, position);
  }

  /**
   * The bounds of a repetition, from a match of the least number, what stands between, and the most.
   * An absent least number is 0, an absent most one has no bound, and one number alone is both.
   */
  bounds([, least, between, most]: RegExpExecArray, position: number): Bounds {
    const min = Number(least);
    const isOne = between === undefined;
    const max = isOne ? min : most === "" ? Number.POSITIVE_INFINITY : Number(most);
    if (min > max) throw this.malformed("the bounds are out of order", position);
    if (min > MAX_REPETITIONS || (Number.isFinite(max) && max > MAX_REPETITIONS)) {
      throw this.error(
        `Cannot use the bounds: more than ${MAX_REPETITIONS} repetitions are too many`,
        position,
      );
    }
    return { min, max };
  }
}

/**
 * A special token by its name, such as `<think>` or `<|eot|>`. Reads on from the `<`.
 *
 * @throws {GrammarError} when the vocabulary has none of this name.
 */
export function readToken(scanner: GrammarScanner, marks: Marks | undefined): Expression {
  const { position } = scanner;
  const name = scanner.match(/<[^<>\s]+>/y)?.[0];
  if (name === undefined) throw scanner.malformed('a token is written "<name>"', position);
  if (marks?.nameOf(name) === undefined) {
    throw scanner.error(`Cannot use the token "${name}": no special token has this name`, position);
  }
  return marks.spell(name);
}
