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

import { automatonOf } from "../automaton/code_point_automaton.ts";
import {
  ANY_CODE_POINT,
  type CodePointRange,
  type CodePoints,
  codePoints,
  intersectSets,
  MAX_CODE_POINT,
} from "../automaton/code_points.ts";
import type { Expression } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { isMark } from "./assertions/assertions.ts";
import type { Effort } from "./effort.ts";
import type { Anchored, Commitment, Texts } from "./regex_part.ts";

/** Of building an automaton, and of each of its states. */
const AUTOMATON_EFFORT = 20_000;
const STATE_EFFORT = 10;

export interface CommitOptions {
  readonly position: number;
  readonly effort: Effort;
}

/** The part as an atomic group. */
export function commit(part: Anchored, options: CommitOptions): Anchored {
  const { free, repeated, ...rest } = part;
  if (free === undefined || rest.start || rest.end || rest.both) return refuse(options);
  const body = repeated?.body;
  if (body !== undefined && !body.nullable && isPrefixFree(body.expression, options)) {
    if (repeated?.isFixed) return { ...rest, free };
    const commitment = { ...options, points: firstPoints([body], options) };
    return { ...rest, free, commitments: [...(rest.commitments ?? []), commitment] };
  }
  if (!isPrefixFree(free.expression, options)) return refuse(options);
  return { ...rest, free };
}

/**
 * Checks what follows.
 *
 * @throws {GrammarError} when it can begin with what a commitment has taken, or when it says that
 * nothing was taken.
 */
export function checkCommitments(
  commitments: readonly Commitment[] | undefined,
  following: Anchored,
): void {
  const any = commitments?.[0];
  if (commitments === undefined || any === undefined) return;
  if (following.start?.nullable || following.both?.nullable) refuse(any);
  const { free, start, end, both } = following;
  const beginnings = [free, start, end, both].filter((texts) => texts !== undefined);
  const points = firstPoints(beginnings, any);
  for (const commitment of commitments) {
    commitment.effort.spend(1 + points.length, commitment.position);
    if (intersectSets(commitment.points, points).length > 0) refuse(commitment);
  }
}

function refuse({ position }: { readonly position: number }): never {
  throw new GrammarError(
    "Cannot use the atomic group or possessive quantifier: it would drop some of the texts",
    { position },
  );
}

/**
 * Whether no text is the beginning of another one. It is if the automaton, read twice side by side,
 * can end here while it goes on there.
 */
function isPrefixFree(expression: Expression, { position, effort }: CommitOptions): boolean {
  if (expression.kind === "text" || expression.kind === "class") return true;
  effort.spend(AUTOMATON_EFFORT, position);
  const { states } = automatonOf(expression);
  effort.spend(STATE_EFFORT * states.length, position);
  // An assertion looks at what a text of the group goes on with.
  if (states.some(({ edges }) => edges.some(({ first }) => first > MAX_CODE_POINT))) return false;
  const pairs = new Set([0]);
  for (const pair of pairs) {
    const here = states[Math.floor(pair / states.length)]!;
    const there = states[pair % states.length]!;
    if (here.accepting && there.edges.length > 0) return false;
    effort.spend(1 + here.edges.length * there.edges.length, position);
    for (const one of here.edges) {
      for (const other of there.edges) {
        if (one.first > other.last || other.first > one.last) continue;
        pairs.add(one.target * states.length + other.target);
      }
    }
  }
  return true;
}

/** The characters that texts begin with. */
function firstPoints(texts: readonly Texts[], { position, effort }: CommitOptions): CodePoints {
  const first: CodePointRange[] = [];
  const seen = new Set(texts);
  for (const { expression, leftmost } of seen) {
    effort.spend(1, position);
    if (expression.kind === "text") {
      const point = expression.text.codePointAt(0)!;
      first.push([point, point]);
    } else if (expression.kind === "class") {
      // Behind an assertion may come anything.
      if (isMark(expression.points)) return ANY_CODE_POINT;
      effort.spend(expression.points.length, position);
      for (const range of expression.points) first.push(range);
    } else {
      for (const part of leftmost ?? []) seen.add(part);
    }
  }
  return codePoints(first);
}
