/**
 * Keywords for strings: lengths, patterns and formats, all of them regular languages.
 *
 * @module
 */

import { automatonOf } from "../../automaton/code_point_automaton.ts";
import { ANY_CODE_POINT } from "../../automaton/code_points.ts";
import { isEmpty, textsOf } from "../../automaton/regular.ts";
import { spendEffort } from "../../effort.ts";
import { type CodePointAutomaton, characters, type Expression, repeat } from "../../expression.ts";
import type { Case, StringFact } from "../cases/facts.ts";
import type { Constraint } from "../cases/schema_cases.ts";
import { isObject } from "../json_value.ts";
import type { SchemaNode } from "../schema_tree.ts";
import type { CountedLanguage } from "../strings/counted_language.ts";
import { formatLength, formatParts, isEnforcedFormat } from "../strings/formats.ts";
import {
  automatonOfOtherTexts,
  automatonOfTexts,
  intersectAll,
  type Language,
  type Spend,
} from "../strings/language.ts";
import { type Bounds, canBeCounted, hasLength, lengthsOf } from "../strings/lengths.ts";
import { patternLanguage } from "../strings/patterns.ts";

/** Of each fact that a listed text is held against. */
const TEXT_EFFORT = 0.05;
const ANY_CHARACTER = characters(ANY_CODE_POINT);

export function stringConstraints({ value, path }: SchemaNode): Constraint[] {
  if (!isObject(value)) return [];
  const { minLength, maxLength, pattern, format } = value;
  const constraints: Constraint[] = [];
  if (typeof minLength === "number") {
    constraints.push({
      holds: () => [[{ kind: "length", min: minLength, max: Number.POSITIVE_INFINITY }]],
      fails: () => (minLength > 0 ? [[{ kind: "length", min: 0, max: minLength - 1 }]] : []),
    });
  }
  if (typeof maxLength === "number") constraints.push(atMost(maxLength));
  if (typeof pattern === "string") {
    const fact = (holds: boolean): readonly Case[] => [
      [{ kind: "language", language: patternLanguage(pattern, `${path}/pattern`), holds }],
    ];
    constraints.push({ holds: () => fact(true), fails: () => fact(false) });
  }
  if (typeof format === "string" && isEnforcedFormat(format)) {
    for (const one of formatConstraints(format, `${path}/format`)) constraints.push(one);
  }
  return constraints;
}

function formatConstraints(format: string, path: string): Constraint[] {
  const parts = formatParts(format);
  const [language] = parts;
  if (language === undefined || parts.length > 1) {
    return [
      {
        holds: () => parts.map((language) => [{ kind: "language", language, holds: true }]),
        fails: () => [[{ kind: "unwritten", what: `texts that are no ${format}`, path }]],
      },
    ];
  }
  const most = formatLength(format);
  const ofLanguage = (holds: boolean): readonly Case[] => [[{ kind: "language", language, holds }]];
  const constraint = { holds: () => ofLanguage(true), fails: () => ofLanguage(false) };
  return most === undefined ? [constraint] : [constraint, atMost(most)];
}

function atMost(max: number): Constraint {
  return {
    holds: () => [[{ kind: "length", min: 0, max }]],
    fails: () => [[{ kind: "length", min: max + 1, max: Number.POSITIVE_INFINITY }]],
  };
}

/** Lengths that all facts allow. */
export function lengthBounds(facts: Case): Bounds {
  let [min, max] = [0, Number.POSITIVE_INFINITY];
  for (const fact of facts) {
    if (fact.kind === "language" && fact.holds) max = Math.min(max, fact.language.bound);
    if (fact.kind !== "length") continue;
    min = Math.max(min, fact.min);
    max = Math.min(max, fact.max);
  }
  return { min, max };
}

type LanguageFact = StringFact & { readonly kind: "language" };

/** Each language of a case once; nothing when one of them must hold and must not. */
export function distinctLanguages(facts: Case): readonly LanguageFact[] | undefined {
  const known = new Map<Language, LanguageFact>();
  for (const fact of facts) {
    if (fact.kind !== "language") continue;
    const same = known.get(fact.language);
    if (same === undefined) known.set(fact.language, fact);
    else if (same.holds !== fact.holds) return undefined;
  }
  return [...known.values()];
}

/** Those texts of a list that fit, where there is one. */
export function listedTexts(
  facts: Case,
  languages: readonly LanguageFact[],
): readonly string[] | undefined {
  const listed = languages.find(({ holds, language }) => holds && language.texts !== undefined);
  if (listed === undefined) return undefined;
  const { min, max } = lengthBounds(facts);
  spendEffort(TEXT_EFFORT * listed.language.texts!.size * facts.length);
  const isBounded = min > 0 || max < Number.POSITIVE_INFINITY;
  return [...listed.language.texts!].filter((text) => {
    const length = isBounded ? Array.from(text).length : min;
    if (length < min || length > max) return false;
    return languages.every(({ language, holds }) => language.has(text) === holds);
  });
}

/** The one format that the strings of all cases are of, where it is no regular language. */
export function nestingFormat(cases: readonly Case[]): Language | undefined {
  const [fact, ...others] = cases.flat();
  if (fact?.kind !== "language" || !fact.holds || others.length > 0) return undefined;
  return fact.language.content === undefined ? undefined : fact.language;
}

/** States that a case takes at most with its lengths written out. */
const FEW_STATES = 48;

/** @returns Nothing where a case has no bounds, is small, or cannot be counted. */
export function countedLanguage(facts: Case, spend?: Spend): CountedLanguage | undefined {
  const { min, max } = lengthBounds(facts);
  const bound = max < Number.POSITIVE_INFINITY ? max : min;
  const others = facts.filter((fact) => fact.kind !== "length");
  const isListed = distinctLanguages(facts)?.some(({ holds, language }) => holds && language.texts);
  if (bound === 0 || others.length === 0 || isListed || min > max) return undefined;
  const language = languageWithin(others, ANY_LENGTH, spend);
  if (language.states.length * bound <= FEW_STATES) return undefined;
  const lengths = lengthsOf(language);
  if (lengths === undefined || !canBeCounted(lengths, { min, max })) return undefined;
  return { language, lengths, min, max };
}

/** Whether no string fits a case. */
export function hasNoString(facts: Case, spend?: Spend): boolean {
  const counted = countedLanguage(facts, spend);
  if (counted !== undefined) return !hasLength(counted.lengths, counted);
  return isEmpty(caseLanguage(facts, spend));
}

/** Longer texts than the shortest ones that are looked at to find many. */
const MORE_LENGTH = 12;

/** All strings that fit a case; nothing when there are more than `limit`. */
export function stringsOf(facts: Case, limit: number): readonly string[] | undefined {
  const counted = countedLanguage(facts);
  if (counted === undefined) return textsOf(caseLanguage(facts), limit);
  const max = Math.max(counted.min, counted.lengths.shortest[0]!) + MORE_LENGTH;
  const isAll = max >= counted.max;
  const short = isAll ? facts : [...facts, { kind: "length", min: 0, max } as const];
  const texts = textsOf(caseLanguage(short), limit);
  return texts === undefined || isAll ? texts : textsOf(caseLanguage(facts), limit);
}

const NO_TEXT: CodePointAutomaton = { states: [{ accepting: false, edges: [] }] };

/** All strings that fit a case, as one automaton. */
export function caseLanguage(facts: Case, spend?: Spend): CodePointAutomaton {
  return languageWithin(facts, lengthBounds(facts), spend);
}

const ANY_LENGTH: Bounds = { min: 0, max: Number.POSITIVE_INFINITY };

function languageWithin(
  facts: Case,
  { min, max }: Bounds,
  spend: Spend | undefined,
): CodePointAutomaton {
  const languages = distinctLanguages(facts);
  if (languages === undefined) return NO_TEXT;
  const texts = listedTexts(facts, languages);
  if (texts !== undefined) return automatonOfTexts(texts, "");
  const wanted = languages.filter(({ holds }) => holds).map(({ language }) => language.automaton);
  if (min > 0 || max < Number.POSITIVE_INFINITY || wanted.length === 0) {
    wanted.push(automatonOf(lengthExpression(ANY_CHARACTER, min, max)));
  }
  const refused = languages.filter(({ holds }) => !holds);
  // Texts that are listed are left out together: one after another they cost their number squared.
  const listed = refused.flatMap(({ language }) => [...(language.texts ?? [])]);
  if (listed.length > 0) wanted.push(automatonOfOtherTexts(listed, ""));
  const joined = intersectAll(wanted, spend);
  return refused
    .filter(({ language }) => language.texts === undefined)
    .reduce((rest, { language }) => {
      spend?.(language.automaton.states.length);
      return intersectAll([rest, language.complement], spend);
    }, joined);
}

function lengthExpression(body: Expression, min: number, max: number): Expression {
  return min > max ? { kind: "choice", options: [] } : repeat(body, { min, max });
}
