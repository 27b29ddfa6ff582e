/**
 * Whether the facts of a case exclude each other.
 *
 * Says so only when it is sure. That keeps the cases of a schema few, and shows that two schemas of
 * a `oneOf` have no value in common.
 *
 * @module
 */

import { largestOf, smallestOf } from "../../../extremes.ts";
import { isEmpty } from "../../automaton/regular.ts";
import { spendEffort } from "../../effort.ts";
import type { JsonType } from "../json_value.ts";
import {
  distinctLanguages,
  hasNoString,
  lengthBounds,
  listedTexts,
} from "../keywords/string_keywords.ts";
import { noNumberFits } from "../numbers/number_language.ts";
import type { Spend } from "../strings/language.ts";
import { mergeItems } from "./array_shape.ts";
import {
  type ArrayFact,
  type BooleanFact,
  type Case,
  EQUAL_ITEMS,
  type Fact,
  type NumberFact,
  type ObjectFact,
  type StringFact,
} from "./facts.ts";
import { allowsKey, memberValue } from "./object_shape.ts";
import type { SchemaCases } from "./schema_cases.ts";

/** Of each place of an array that is held against a fact. */
const PLACE_EFFORT = 0.3;

export function contradicts(facts: Case, type: JsonType, analysis: SchemaCases): boolean {
  if (facts.length === 0) return false;
  switch (type) {
    case "null":
      return false;
    case "boolean":
      return noBooleanFits(facts as readonly BooleanFact[]);
    case "number":
      return noNumberFits(facts as readonly NumberFact[], analysis.spend);
    case "string":
      return noStringFits(facts as readonly StringFact[], analysis.spend);
    case "array":
      return noArrayFits(facts as readonly ArrayFact[], analysis);
    case "object":
      return noObjectFits(facts as readonly ObjectFact[], analysis);
    default:
      return type satisfies never;
  }
}

function noBooleanFits(facts: readonly BooleanFact[]): boolean {
  return [true, false].every((value) => facts.some(({ values }) => !values.includes(value)));
}

function noStringFits(facts: readonly StringFact[], spend: Spend): boolean {
  const { min, max } = lengthBounds(facts);
  if (min > max) return true;
  const languages = distinctLanguages(facts);
  if (languages === undefined) return true;
  const isBounded = min > 0 || max < Number.POSITIVE_INFINITY;
  if (languages.length === 0 || (languages.length === 1 && !isBounded)) return false;
  const texts = listedTexts(facts, languages);
  if (texts !== undefined) return texts.length === 0;
  // No list has all texts, however short others may not be.
  const areListsRefused = languages.every(({ language, holds }) => !holds && language.texts);
  if (areListsRefused && max === Number.POSITIVE_INFINITY) return false;
  // Of some languages only a part is known.
  if (languages.some(({ language }) => !language.isWhole)) return false;
  return hasNoString(facts, spend);
}

function noArrayFits(facts: readonly ArrayFact[], analysis: SchemaCases): boolean {
  const { prefix, rest, min, max } = mergeItems(facts, analysis);
  if (min > max) return true;
  const isRepeated = facts.some(
    (fact: Fact) => fact.kind === "unwritten" && fact.what === EQUAL_ITEMS,
  );
  if (isRepeated && (max < 2 || facts.some(({ kind }) => kind === "unique"))) return true;
  for (let i = 0; i < Math.min(min, prefix.length + 1); i++) {
    if (analysis.isNever(prefix[i] ?? rest)) return true;
  }
  return facts.some((fact) => {
    if (fact.kind !== "contains" || fact.min === 0) return false;
    if (fact.min > fact.max || fact.from + fact.min > max) return true;
    const wanted = analysis.conjunction(fact.node, fact.holds);
    const places = [...prefix.slice(fact.from), rest];
    spendEffort(PLACE_EFFORT * places.length);
    return places.every((place) => analysis.isNever(analysis.conjunctions.and([place, wanted])));
  });
}

function noObjectFits(facts: readonly ObjectFact[], analysis: SchemaCases): boolean {
  const required = new Set(facts.flatMap((fact) => (fact.kind === "has" ? [fact.key] : [])));
  for (const key of required) {
    if (!allowsKey(facts, key) || analysis.isNever(memberValue(facts, key, analysis))) return true;
  }
  for (const fact of facts) {
    if (fact.kind === "count" && (required.size > fact.max || fact.min > fact.max)) return true;
    if (fact.kind === "some" && isEmpty(fact.language)) return true;
  }
  const least = largestOf(
    facts.map((fact) => (fact.kind === "count" ? fact.min : 0)),
    0,
  );
  const most = smallestOf(
    facts.map((f) => (f.kind === "count" ? f.max : Number.POSITIVE_INFINITY)),
  );
  return least > most;
}
