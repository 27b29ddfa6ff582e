/**
 * Cases of strings -> expressions.
 *
 * @module
 */

import { automatonOf } from "../code_point_automaton.ts";
import {
  type CodePointAutomaton,
  type Expression,
  NEVER,
  regular,
  repeat,
  rule,
  sequence,
  text,
} from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { insideJsonString } from "../json_string.ts";
import type { Case } from "./facts.ts";
import { QUOTE } from "./json_grammar.ts";
import { automatonOfTexts } from "./language.ts";
import { caseLanguage, lengthsOf } from "./string_keywords.ts";

/** Groups inside one another. */
const MAX_DEPTH = 1_000;

/** Strings that fit a case. */
export function stringExpression(facts: Case): Expression {
  if (facts.length === 0) return rule("string");
  return sequence(QUOTE, contentOf(facts), QUOTE);
}

function contentOf(facts: Case): Expression {
  const languages = facts.flatMap((fact) => (fact.kind === "language" ? [fact] : []));
  const [only] = languages;
  if (only === undefined) {
    const { min, max } = lengthsOf(facts);
    return min > max ? NEVER : repeat(rule("character"), { min, max });
  }
  if (languages.some(({ holds, language }) => holds && language.isPlain)) {
    return facts.length === 1 ? only.language.expression : regular(caseLanguage(facts));
  }
  // A repeat stays one, where an automaton would write it out.
  if (facts.length === 1 && only.holds) return insideQuotes(only.language.expression);
  return regular(insideJsonString(caseLanguage(facts)));
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

/** Characters that no writer of JSON escapes. */
const UNESCAPED = /[ !#-.0-[\]-~]+/g;

/**
 * A key that the schema names, with its quotes. Letters and what else is always written as it is
 * has no other spelling here: eight times as large, the grammar would be of no more use.
 */
export function namedKeyExpression(key: string, path: string): Expression {
  const parts: Expression[] = [];
  let at = 0;
  const addEscaped = (part: string): void => {
    if (part === "") return;
    parts.push(regular(insideJsonString(automatonOfTexts([part], path))));
  };
  for (const { 0: run, index } of key.matchAll(UNESCAPED)) {
    addEscaped(key.slice(at, index));
    parts.push(text(run));
    at = index + run.length;
  }
  addEscaped(key.slice(at));
  return sequence(QUOTE, ...parts, QUOTE);
}

/** A key of a language, with its quotes. */
export function keyExpression(language: CodePointAutomaton): Expression {
  return sequence(QUOTE, regular(insideJsonString(language)), QUOTE);
}
