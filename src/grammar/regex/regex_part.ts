/**
 * A part of a regular expression: its texts, sorted by where they must stand, and what it forbids
 * beside it.
 *
 * @module
 */

import type { CodePoints } from "../automaton/code_points.ts";
import { EMPTY, type Expression } from "../expression.ts";
import type { Effort } from "./effort.ts";

/** An expression, and what has to be known of it. */
export interface Texts {
  readonly expression: Expression;
  /** Whether it matches the empty text. */
  readonly nullable: boolean;
  /** Of its parts those that can stand at the very beginning; a text and a class have no parts. */
  readonly leftmost?: readonly Texts[];
}

/** What is absent has no text. */
export interface Anchored {
  readonly free?: Texts | undefined;
  /** Texts that must begin where the whole text begins. */
  readonly start?: Texts | undefined;
  /** Texts that must end where the whole text ends. */
  readonly end?: Texts | undefined;
  readonly both?: Texts | undefined;
  /** Possessive repeats at the right edge, which forbid what may follow. */
  readonly commitments?: readonly Commitment[] | undefined;
  /** Whether a `^` at the left edge would also match behind a line break. */
  readonly lineStart?: boolean | undefined;
  /** Whether a `$` at the right edge would also match before a line break. */
  readonly lineEnd?: boolean | undefined;
  /** Whether it is an assertion, which no quantifier may follow. */
  readonly isAssertion?: boolean | undefined;
  /** What a greedy quantifier repeats, when the part is nothing else. */
  readonly repeated?: Repeated | undefined;
}

export interface Repeated {
  readonly body: Texts | undefined;
  /** Whether the number of rounds is given. */
  readonly isFixed: boolean;
}

/** What stands at `position` takes all it can, so what follows must not begin with `points`. */
export interface Commitment {
  readonly points: CodePoints;
  readonly position: number;
  /** Of the pattern. */
  readonly effort: Effort;
}

/** The empty text alone. */
export const ONLY_EMPTY: Texts = { expression: EMPTY, nullable: true };

export function textsOf(parts: Anchored): (Texts | undefined)[] {
  return [parts.free, parts.start, parts.end, parts.both];
}
