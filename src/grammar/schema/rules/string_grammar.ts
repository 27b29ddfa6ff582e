/**
 * Cases of strings -> expressions.
 *
 * @module
 */

import { automatonOf } from "../../automaton/code_point_automaton.ts";
import {
  type CodePointAutomaton,
  type CodePointEdge,
  type CodePointState,
  characterBegins,
  type Expression,
  NEVER,
  regular,
  repeat,
  rule,
  sequence,
  text,
} from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";
import { insideJsonString, PLAIN_ASCII } from "../../json_string.ts";
import type { Case } from "../cases/facts.ts";
import {
  type CountedLanguage,
  caseLanguage,
  countedLanguage,
  distinctLanguages,
  lengthBounds,
} from "../keywords/string_keywords.ts";
import { automatonOfTexts, type Language } from "../strings/language.ts";
import { QUOTE } from "./json_grammar.ts";

/** Groups inside one another. */
const MAX_DEPTH = 1_000;

/** States of a language whose letters may be escaped too, which no program does. */
const MOST_ESCAPED = 24;

/** Strings that fit a case. */
export function stringExpression(facts: Case): Expression {
  if (facts.length === 0) return rule("string");
  return sequence([QUOTE, contentOf(facts), QUOTE]);
}

function contentOf(facts: Case): Expression {
  const languages = distinctLanguages(facts) ?? [];
  const [only] = languages;
  if (only === undefined) {
    const { min, max } = lengthBounds(facts);
    return min > max ? NEVER : repeat(rule("character"), { min, max });
  }
  const isAlone = languages.length === 1 && facts.every(({ kind }) => kind === "language");
  const isPlain = languages.some(({ language }) => language.isPlain);
  const counted = countedLanguage(facts);
  if (counted !== undefined) return countedExpression(counted, isPlain);
  if (isPlain) {
    if (isAlone && only.holds) {
      return only.language.content ?? plainExpression(only.language);
    }
    return regular(insideJsonString(caseLanguage(facts), PLAIN_ASCII));
  }
  // A repeat stays one, where an automaton would write it out.
  if (isAlone && only.holds) return insideQuotes(only.language.expression);
  const language = caseLanguage(facts);
  // Each state has escapes of its own: a pattern of bounded length would be mostly these.
  return language.states.length > MOST_ESCAPED
    ? regular(insideJsonString(language, PLAIN_ASCII))
    : regular(insideJsonString(language));
}

/** From a state of its own each character begins that leads to where as many others must follow. */
function countedExpression(
  { language, lengths, min, max }: CountedLanguage,
  isPlain: boolean,
): Expression {
  const isLarge = isPlain || language.states.length > MOST_ESCAPED;
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
  const spelled = insideJsonString({ states: [...states, ...more] }, isLarge ? PLAIN_ASCII : []);
  return regular(spelled, { min, max });
}

/** Of formats, which are the same for all schemas. */
const plainExpressions = new WeakMap<Language, Expression>();

function plainExpression(language: Language): Expression {
  let expression = plainExpressions.get(language);
  if (expression === undefined) {
    expression = regular(insideJsonString(language.automaton, PLAIN_ASCII));
    plainExpressions.set(language, expression);
  }
  return expression;
}

/** Every spelling inside a JSON string of the texts that an expression without rules matches. */
function insideQuotes(expression: Expression, depth = 0): Expression {
  if (depth > MAX_DEPTH) throw new GrammarError("Cannot use the pattern: its groups nest too deep");
  const inner = (part: Expression) => insideQuotes(part, depth + 1);
  switch (expression.kind) {
    case "sequence":
      return { kind: "sequence", parts: expression.parts.map(inner) };
    case "choice":
      return { kind: "choice", options: expression.options.map(inner) };
    case "repeat":
      return { ...expression, body: inner(expression.body) };
    default:
      return regular(insideJsonString(automatonOf(expression)));
  }
}

const keyExpressions = new WeakMap<CodePointAutomaton, Expression>();

/**
 * A key of a language, with its quotes. Programs do not escape letters of keys, so that is not
 * offered.
 */
export function keyExpression(language: CodePointAutomaton): Expression {
  let expression = keyExpressions.get(language);
  if (expression === undefined) {
    expression = sequence([QUOTE, regular(insideJsonString(language, PLAIN_ASCII)), QUOTE]);
    keyExpressions.set(language, expression);
  }
  return expression;
}

const PLAIN_KEY = /^[ !#-[\]-~]*$/;

/** One key, with its quotes. */
export function namedKeyExpression(key: string, path: string): Expression {
  if (PLAIN_KEY.test(key)) return text(`"${key}"`);
  return keyExpression(automatonOfTexts([key], path));
}
