/**
 * What a regular expression says about a place without taking a character of it: `^`, `$`, `\b`,
 * lookahead and lookbehind.
 *
 * While a pattern is read, an assertion is a character beyond all code points, its mark, so that
 * everything else treats it like any other part. `resolveAssertions` makes texts of marks and
 * characters into texts of characters.
 *
 * @module
 */

import { automatonOf } from "../../automaton/code_point_automaton.ts";
import {
  ANY_CODE_POINT,
  type CodePointRange,
  type CodePoints,
  codePoints,
  invert,
  MAX_CODE_POINT,
  rangesKey,
  unite,
} from "../../automaton/code_points.ts";
import type { CodePointEdge, Expression } from "../../expression.ts";
import { repeat, sequence } from "../../expression.ts";

/** What the reader throws where anchors at the edges do not do: it then reads with marks. */
export class AssertionMet extends Error {}

/** Holds where the next character is of a set, or the text ends if `edge` says so. */
export interface PeekAhead {
  readonly kind: "peek ahead";
  readonly points: CodePoints;
  readonly edge: boolean;
}

/** Holds where the character before is of a set, or the text begins if `edge` says so. */
export interface PeekBehind {
  readonly kind: "peek behind";
  readonly points: CodePoints;
  readonly edge: boolean;
}

/** Holds where a text of the body begins, or ends, or where none does. */
export interface Look {
  readonly kind: "ahead" | "behind";
  readonly negated: boolean;
  /** With marks; behind a body ahead anything may follow. */
  readonly body: MarkedAutomaton;
  /** Of its group in the pattern. */
  readonly position: number;
}

export type Assertion = PeekAhead | PeekBehind | Look;

/** An automaton over code points and marks. */
export type MarkedAutomaton = readonly MarkedState[];

export interface MarkedState {
  readonly accepting: boolean;
  readonly edges: readonly MarkedEdge[];
  /** Ways that take no character, where an assertion holds. */
  readonly asserts: readonly { readonly assertion: number; readonly target: number }[];
}

/** All characters that lead to a place. */
export interface MarkedEdge {
  readonly points: CodePoints;
  readonly target: number;
}

/** The automaton of an expression that may have marks. */
export function markedAutomaton(expression: Expression): MarkedAutomaton {
  return automatonOf(expression).states.map(({ accepting, edges }) => ({
    accepting,
    edges: byTarget(edges.filter(({ first }) => first <= MAX_CODE_POINT)),
    asserts: edges
      .filter(({ first }) => first > MAX_CODE_POINT)
      .map(({ first, target }) => ({ assertion: first - MAX_CODE_POINT - 1, target })),
  }));
}

/** Edges that lead to the same place as one. */
export function byTarget(edges: readonly CodePointEdge[]): readonly MarkedEdge[] {
  const ranges = new Map<number, CodePointRange[]>();
  for (const { first, last, target } of edges) {
    const known = ranges.get(target);
    if (known === undefined) ranges.set(target, [[first, last]]);
    else known.push([first, last]);
  }
  return [...ranges].map(([target, list]) => ({ points: codePoints(list), target }));
}

/** The same with other characters. */
export function withPoints(
  states: MarkedAutomaton,
  change: (points: CodePoints) => CodePoints,
): MarkedAutomaton {
  return states.map(({ accepting, edges, asserts }) => ({
    accepting,
    edges: edges.map(({ points, target }) => ({ points: change(points), target })),
    asserts,
  }));
}

/** Whether a character of a class is a mark. */
export function isMark(points: CodePoints): boolean {
  return (points[0]?.[0] ?? 0) > MAX_CODE_POINT;
}

const ANY_TEXT = repeat({ kind: "class", points: ANY_CODE_POINT });

/** The assertions of one pattern, those inside others before them. */
export class Assertions {
  readonly list: Assertion[] = [];
  readonly #marks = new Map<string, Expression>();

  peek(kind: (PeekAhead | PeekBehind)["kind"], points: CodePoints, edge: boolean): Expression {
    const key = `${kind} ${rangesKey(edge ? 1 : 0, points)}`;
    return this.#mark(key, () => ({ kind, points, edge }));
  }

  /** @param source What says the same wherever it stands in the pattern. */
  look(
    { kind, negated, position }: Omit<Look, "body">,
    { body, source }: { readonly body: Expression | undefined; readonly source: string },
  ): Expression {
    const peek = `peek ${kind}` as const;
    const one = body === undefined ? { points: [], edge: false } : this.#oneCharacter(body, peek);
    if (one !== undefined) {
      const { points, edge } = one;
      return negated ? this.peek(peek, invert(points), !edge) : this.peek(peek, points, edge);
    }
    return this.#mark(`${kind} ${negated} ${source}`, () => {
      const whole = kind === "ahead" ? sequence([body!, ANY_TEXT]) : body!;
      return { kind, negated, position, body: markedAutomaton(whole) };
    });
  }

  /** The set of what is one character or an edge of the text, in all its texts. */
  #oneCharacter(
    body: Expression,
    peek: (PeekAhead | PeekBehind)["kind"],
  ): { readonly points: CodePoints; readonly edge: boolean } | undefined {
    const options = body.kind === "choice" ? body.options : [body];
    const sets: CodePoints[] = [];
    let edge = false;
    for (const option of options) {
      if (option.kind === "text") {
        const point = option.text.codePointAt(0)!;
        if (String.fromCodePoint(point) !== option.text) return undefined;
        sets.push([[point, point]]);
      } else if (option.kind !== "class") {
        return undefined;
      } else if (isMark(option.points)) {
        const assertion = this.list[option.points[0]![0] - MAX_CODE_POINT - 1]!;
        if (assertion.kind !== peek) return undefined;
        sets.push(assertion.points);
        edge ||= assertion.edge;
      } else {
        sets.push(option.points);
      }
    }
    return { points: unite(sets), edge };
  }

  #mark(key: string, make: () => Assertion): Expression {
    let known = this.#marks.get(key);
    if (known === undefined) {
      const mark = MAX_CODE_POINT + this.list.push(make());
      known = { kind: "class", points: [[mark, mark]] };
      this.#marks.set(key, known);
    }
    return known;
  }
}
