/**
 * Atomic groups and possessive quantifiers, where they leave the language as it is.
 *
 * Both forbid to go back into what has matched. That changes nothing when there is only one way to
 * match: either no text of the group is the beginning of another one, or a possessive repeat of
 * such a body is never followed by something that could have been one more round. Anything else is
 * refused.
 *
 * @module
 */

import { automatonOf } from "../code_point_automaton.ts";
import { type CodePoints, codePoints, intersectSets } from "../code_points.ts";
import type { Expression } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { determinize } from "../regular.ts";
import type { Anchored, Commitment } from "./anchored.ts";

/** The part as an atomic group. */
export function commit(part: Anchored, position: number): Anchored {
  const { free, repeated, ...rest } = part;
  if (free === undefined || rest.start || rest.end || rest.both) return refuse(position);
  const body = repeated?.body;
  if (body !== undefined && !body.nullable && isPrefixFree(body.expression)) {
    if (repeated?.isFixed) return { ...rest, free };
    const points = firstPoints(body.expression);
    return { ...rest, free, commitments: [...(rest.commitments ?? []), { points, position }] };
  }
  if (!isPrefixFree(free.expression)) return refuse(position);
  return { ...rest, free };
}

/**
 * Checks what follows a commitment.
 *
 * @throws {GrammarError} when it can begin with what the commitment has taken, or when it says that
 * nothing was taken.
 */
export function checkCommitment({ points, position }: Commitment, following: Anchored): void {
  const { free, start, end, both } = following;
  if (start?.nullable || both?.nullable) refuse(position);
  for (const texts of [free, start, end, both]) {
    if (texts === undefined) continue;
    if (intersectSets(points, firstPoints(texts.expression)).length > 0) refuse(position);
  }
}

function refuse(position: number): never {
  throw new GrammarError(
    "Cannot use the atomic group or possessive quantifier: it would drop some of the texts",
    { position },
  );
}

/** Whether no text is the beginning of another one. */
function isPrefixFree(expression: Expression): boolean {
  if (expression.kind === "text" || expression.kind === "class") return true;
  const { states } = determinize(automatonOf(expression));
  return states.every(({ accepting, edges }) => !accepting || edges.length === 0);
}

/** The characters that texts begin with. */
function firstPoints(expression: Expression): CodePoints {
  if (expression.kind === "class") return expression.points;
  const { edges } = automatonOf(expression).states[0]!;
  return codePoints(edges.map(({ first, last }) => [first, last] as const));
}
