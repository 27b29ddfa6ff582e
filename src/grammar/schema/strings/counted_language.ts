/**
 * Strings of a regular language whose characters are counted beside its automaton.
 *
 * @module
 */

import type { CodePoints } from "../../automaton/code_points.ts";
import {
  type CodePointAutomaton,
  type CodePointEdge,
  type CodePointState,
  characterBegins,
  type Expression,
  regular,
} from "../../expression.ts";
import { insideJsonString } from "../../json_string.ts";
import type { Bounds, Lengths } from "./lengths.ts";

/** The strings of a language that have a length between bounds. */
export interface CountedLanguage extends Bounds {
  readonly language: CodePointAutomaton;
  readonly lengths: Lengths;
}

/**
 * What stands between the quotes of a JSON string. From a state of its own each character begins
 * that leads to where as many others must follow.
 *
 * @param plain Characters that are written as they are and in no other way.
 */
export function countedExpression(
  { language, lengths, min, max }: CountedLanguage,
  plain: CodePoints,
): Expression {
  const more: CodePointState[] = [];
  const states = language.states.map(({ accepting, edges }) => {
    const byNeed = new Map<number, CodePointEdge[]>();
    for (const edge of edges) {
      const need = lengths.shortest[edge.target]!;
      if (need < Number.POSITIVE_INFINITY) byNeed.set(need, [...(byNeed.get(need) ?? []), edge]);
    }
    const begins = [...byNeed].map(([need, list]) => {
      const begun = more.push({ accepting: false, edges: list }) - 1;
      return characterBegins(need, language.states.length + begun);
    });
    return { accepting, edges: begins };
  });
  const spelled = insideJsonString({ states: [...states, ...more] }, plain);
  return regular(spelled, { min, max });
}
