/**
 * Cases of strings -> expressions.
 *
 * @module
 */

import { automatonOf } from "../../automaton/code_point_automaton.ts";
import type { CodePoints } from "../../automaton/code_points.ts";
import {
  type CodePointAutomaton,
  type Expression,
  NEVER,
  regular,
  repeat,
  rule,
  sequence,
  text,
} from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";
import { insideJsonString, PLAIN_ASCII, UNESCAPED } from "../../json_string.ts";
import type { Case } from "../cases/facts.ts";
import {
  caseLanguage,
  countedLanguage,
  distinctLanguages,
  lengthBounds,
} from "../keywords/string_keywords.ts";
import { countedExpression } from "../strings/counted_language.ts";
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
  const { content, least, most } = only.language;
  const isShort = facts.every((fact) => {
    return fact.kind !== "length" || (fact.min <= least && fact.max >= most);
  });
  const isAlone = languages.length === 1 && isShort;
  if (isAlone && only.holds && content !== undefined) return content;
  const isPlain = languages.some(({ language }) => language.isPlain);
  const plain = languages.some(({ language }) => language.isPart) ? UNESCAPED : PLAIN_ASCII;
  const counted = countedLanguage(facts);
  if (counted !== undefined) {
    const isLarge = isPlain || counted.language.states.length > MOST_ESCAPED;
    return countedExpression(counted, isLarge ? plain : []);
  }
  if (isPlain) {
    if (isAlone && only.holds) return plainExpression(only.language, plain);
    return regular(insideJsonString(caseLanguage(facts), plain));
  }
  // A repeat stays one, where an automaton would write it out.
  if (isAlone && only.holds) return insideQuotes(only.language.expression);
  const language = caseLanguage(facts);
  // Each state has escapes of its own: a pattern of bounded length would be mostly these.
  return language.states.length > MOST_ESCAPED
    ? regular(insideJsonString(language, PLAIN_ASCII))
    : regular(insideJsonString(language));
}

/** Of formats, which are the same for all schemas. */
const plainExpressions = new WeakMap<Language, Expression>();

function plainExpression(language: Language, plain: CodePoints): Expression {
  let expression = plainExpressions.get(language);
  if (expression === undefined) {
    expression = language.spelled?.() ?? regular(insideJsonString(language.automaton, plain));
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
