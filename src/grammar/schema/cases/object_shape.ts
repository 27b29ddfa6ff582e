/**
 * All facts of a case about objects, joined: what each key must fit.
 *
 * Keys that the schema names stand for themselves. All other keys fall into classes: those that the
 * same patterns match have values that fit the same.
 *
 * @module
 */

import { smallestOf } from "../../../extremes.ts";
import { accepts, complement, intersection, isEmpty } from "../../automaton/regular.ts";
import { spendEffort } from "../../effort.ts";
import type { CodePointAutomaton } from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";
import type { Language } from "../strings/language.ts";
import type { Conjunction } from "./conjunctions.ts";
import type { CountFact, MembersFact, NamesFact, ObjectFact, SomeFact } from "./facts.ts";
import type { SchemaCases } from "./schema_cases.ts";

/** Classes of keys that the schema does not name. */
const MAX_CLASSES = 256;
/** Of each fact that is looked at for a key. */
const FACT_EFFORT = 0.3;

export interface NamedMember {
  readonly key: string;
  readonly value: Conjunction;
  readonly required: boolean;
  /** Which of the shape's `somes` have this key. */
  readonly somes: readonly number[];
}

export interface KeyClass {
  readonly language: CodePointAutomaton;
  /** What keys are written as, where that is more than the language. */
  readonly format?: Language;
  readonly value: Conjunction;
  readonly somes: readonly number[];
}

export interface ObjectShape {
  /** In the order of the schema. */
  readonly named: readonly NamedMember[];
  readonly classes: readonly KeyClass[];
  /** For each, some member must fit it. */
  readonly somes: readonly SomeFact[];
  readonly min: number;
  readonly max: number;
  /** Of the keyword that gave `min`, for errors. */
  readonly minPath: string;
}

/** Whether all facts about keys allow this one. */
export function allowsKey(facts: readonly ObjectFact[], key: string): boolean {
  const has = ({ format, language }: NamesFact) =>
    format === undefined ? accepts(language, key) : format.has(key);
  return facts.every((fact) => fact.kind !== "names" || has(fact));
}

/** What the value of a key must fit when the key is there. */
export function memberValue(
  facts: readonly ObjectFact[],
  key: string,
  { conjunctions }: SchemaCases,
): Conjunction {
  spendEffort(FACT_EFFORT * facts.length);
  const parts = facts.flatMap((fact): (Conjunction | undefined)[] => {
    if (fact.kind === "has") return fact.key === key ? [fact.value] : [];
    if (fact.kind !== "members") return [];
    const named = fact.named.get(key);
    const matching = fact.patterns.filter(({ language }) => accepts(language, key));
    if (named === undefined && matching.length === 0) return [fact.additional];
    return [named, ...matching.map(({ value }) => value)];
  });
  return conjunctions.and(parts.filter((part) => part !== undefined));
}

export function mergeMembers(facts: readonly ObjectFact[], analysis: SchemaCases): ObjectShape {
  const somes = facts.filter((fact): fact is SomeFact => fact.kind === "some");
  const counts = facts.filter((fact): fact is CountFact => fact.kind === "count");
  const tightest = counts.reduce<CountFact | undefined>(
    (best, fact) => (best === undefined || fact.min > best.min ? fact : best),
    undefined,
  );
  const keys = namesOf(facts);
  const required = new Set(facts.flatMap((fact) => (fact.kind === "has" ? [fact.key] : [])));
  const named = keys.map((key) => ({
    key,
    value: allowsKey(facts, key) ? memberValue(facts, key, analysis) : analysis.conjunctions.never,
    required: required.has(key),
    somes: [...somes.keys()].filter((i) => accepts(somes[i]!.language, key)),
  }));
  return {
    // A key that must not be there is not offered; one that must be there makes the case impossible.
    named: named.filter(({ value, required: isRequired }) => isRequired || !value.never),
    classes: classesOf(facts, keys, analysis),
    somes,
    min: tightest?.min ?? 0,
    max: smallestOf(counts.map(({ max }) => max)),
    minPath: tightest?.path ?? "",
  };
}

/** Keys of `properties` come first, then those that are only required. */
function namesOf(facts: readonly ObjectFact[]): string[] {
  const keys = new Set<string>();
  for (const fact of facts) {
    if (fact.kind === "members") for (const key of fact.named.keys()) keys.add(key);
  }
  for (const fact of facts) if (fact.kind === "has") keys.add(fact.key);
  return [...keys];
}

function classesOf(
  facts: readonly ObjectFact[],
  named: readonly string[],
  analysis: SchemaCases,
): KeyClass[] {
  const { conjunctions } = analysis;
  if (facts.some((fact) => fact.kind === "members" && isClosed(fact))) return [];
  const format = onlyFormat(facts, named);
  if (format !== undefined) {
    const values = facts.flatMap((fact) =>
      fact.kind === "members" && fact.additional ? [fact.additional] : [],
    );
    const value = conjunctions.and(values);
    return value.never ? [] : [{ language: format.automaton, format, value, somes: [] }];
  }
  let language = analysis.keysBeside(named);
  for (const fact of facts) {
    if (fact.kind === "names") language = intersection(language, fact.language);
  }
  let classes: KeyClass[] = [{ language, value: conjunctions.any, somes: [] }];
  for (const fact of facts) {
    if (fact.kind === "members") classes = splitByMembers(classes, fact, analysis);
  }
  facts
    .filter((fact): fact is SomeFact => fact.kind === "some")
    .forEach((fact, i) => {
      const sides = sidesOf(fact.language);
      classes = classes.flatMap((one) => {
        const [inside, outside] = split(one, sides);
        return [...inside.map((part) => ({ ...part, somes: [...part.somes, i] })), ...outside];
      });
    });
  return classes;
}

/** The format of all keys, where nothing else tells them apart. */
function onlyFormat(facts: readonly ObjectFact[], named: readonly string[]): Language | undefined {
  const names = facts.filter((fact): fact is NamesFact => fact.kind === "names");
  const isPlain = facts.every(
    (fact) => fact.kind !== "some" && (fact.kind !== "members" || fact.patterns.length === 0),
  );
  return isPlain && names.length === 1 && named.length === 0 ? names[0]!.format : undefined;
}

/** Whether only keys with a name are allowed. */
function isClosed({ patterns, additional }: MembersFact): boolean {
  return patterns.length === 0 && additional?.never === true;
}

function splitByMembers(
  classes: readonly KeyClass[],
  { patterns, additional }: MembersFact,
  { conjunctions }: SchemaCases,
): KeyClass[] {
  let parts = classes.map((one) => ({ one, matched: false }));
  const narrow = (one: KeyClass, value: Conjunction | undefined): KeyClass =>
    value === undefined ? one : { ...one, value: conjunctions.and([one.value, value]) };
  for (const { language, value } of patterns) {
    const sides = sidesOf(language);
    parts = parts.flatMap(({ one, matched }) => {
      const [inside, outside] = split(one, sides);
      return [
        ...inside.map((part) => ({ one: narrow(part, value), matched: true })),
        ...outside.map((part) => ({ one: part, matched })),
      ];
    });
    if (parts.length > MAX_CLASSES) {
      throw new GrammarError(
        'Cannot enforce "patternProperties": too many patterns may match the same keys',
      );
    }
  }
  return parts
    .map(({ one, matched }) => (matched ? one : narrow(one, additional)))
    .filter(({ value }) => !value.never);
}

/** What is in a language and what is not. */
interface Sides {
  readonly inside: CodePointAutomaton;
  readonly outside: CodePointAutomaton;
}

function sidesOf(language: CodePointAutomaton): Sides {
  return { inside: language, outside: complement(language) };
}

function split(
  one: KeyClass,
  { inside, outside }: Sides,
): readonly [inside: KeyClass[], outside: KeyClass[]] {
  const part = (side: CodePointAutomaton) => {
    const language = intersection(one.language, side);
    return isEmpty(language) ? [] : [{ ...one, language }];
  };
  return [part(inside), part(outside)];
}
