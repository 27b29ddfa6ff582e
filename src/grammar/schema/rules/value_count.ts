/**
 * Whether there are many different values that fit: surely, or it is not known.
 *
 * @module
 */

import { textsOf } from "../../automaton/regular.ts";
import { spendEffort } from "../../effort.ts";
import { mergeItems } from "../cases/array_shape.ts";
import type { CaseAnalysis } from "../cases/cases.ts";
import type { Conjunction } from "../cases/conjunctions.ts";
import {
  type ArrayFact,
  type BooleanFact,
  type Case,
  findUnwritten,
  type NumberFact,
  type ObjectFact,
} from "../cases/facts.ts";
import { mergeMembers, type ObjectShape } from "../cases/object_shape.ts";
import { JSON_TYPES, type JsonType } from "../json_value.ts";
import { stringsOf } from "../keywords/string_keywords.ts";
import { compareDecimals } from "../numbers/decimal.ts";
import { listedNumbers, plainNumbers } from "../numbers/number_language.ts";

/** Objects and arrays in each other that are looked into. */
const MAX_LEVELS = 8;
const CASE_EFFORT = 5;
const MANY = Number.POSITIVE_INFINITY;

/** @returns Whether more than so many different values are sure to fit. */
export function hasMoreValues(value: Conjunction, count: number, analysis: CaseAnalysis): boolean {
  return new ValueCount(count, analysis).of(value, 0) > count;
}

class ValueCount {
  readonly #limit: number;
  readonly #analysis: CaseAnalysis;

  constructor(limit: number, analysis: CaseAnalysis) {
    this.#limit = limit;
    this.#analysis = analysis;
  }

  /** At least so many; no more than the limit are counted. Values of different types differ. */
  of(value: Conjunction, level: number): number {
    if (value.never || level > MAX_LEVELS) return 0;
    if (value === this.#analysis.conjunctions.any) return MANY;
    return JSON_TYPES.reduce((sum, type) => {
      if (sum > this.#limit) return sum;
      // Cases may have values in common.
      const counts = this.#analysis
        .casesOfAll(value, type)
        .map((one) => this.#ofCase(type, one, level));
      return counts.reduce((most, count) => Math.max(most, count), 0) + sum;
    }, 0);
  }

  #ofCase(type: JsonType, facts: Case, level: number): number {
    spendEffort(CASE_EFFORT);
    if (findUnwritten(facts) !== undefined) return 0;
    if (facts.length === 0 && type !== "null" && type !== "boolean") return MANY;
    switch (type) {
      case "null":
        return 1;
      case "boolean":
        return [true, false].filter((value) =>
          (facts as readonly BooleanFact[]).every((fact) => fact.values.includes(value)),
        ).length;
      case "number":
        return this.#numbers(facts as readonly NumberFact[]);
      case "string":
        return stringsOf(facts, this.#limit)?.length ?? MANY;
      case "array":
        return this.#arrays(facts as readonly ArrayFact[], level);
      case "object":
        return this.#objects(facts as readonly ObjectFact[], level);
      default:
        return type satisfies never;
    }
  }

  #numbers(facts: readonly NumberFact[]): number {
    const listed = facts.find((fact) => fact.kind === "numbers" && fact.holds);
    if (listed?.kind === "numbers") return listedNumbers(listed, facts).length;
    if (facts.some((fact) => fact.kind === "integer" && fact.holds)) {
      // Zero is spelled in two ways.
      const texts = textsOf(plainNumbers(facts), this.#limit + 2);
      return texts === undefined
        ? MANY
        : new Set(texts.map((text) => text.replace(/^-0$/, "0"))).size;
    }
    if (facts.some((fact) => fact.kind !== "bound")) return 1;
    const bounds = (side: "lower" | "upper") =>
      facts.flatMap((fact) => (fact.kind === "bound" && fact.side === side ? [fact.value] : []));
    const isWide = bounds("lower").every((lower) =>
      bounds("upper").every((upper) => compareDecimals(lower, upper) < 0),
    );
    return isWide ? MANY : 1;
  }

  #arrays(facts: readonly ArrayFact[], level: number): number {
    if (facts.some(({ kind }) => kind === "contains")) return 0;
    const { prefix, rest, min, max } = mergeItems(facts, this.#analysis);
    if (min > max) return 0;
    if (facts.some(({ kind }) => kind === "unique")) {
      // How many items may differ is not known; one differs from all others.
      if (min > 1) return 0;
      return min === 0 || this.of(prefix[0] ?? rest, level + 1) > 0 ? 1 : 0;
    }
    const places = [
      ...prefix.slice(0, Math.min(min, prefix.length)),
      ...(min > prefix.length ? [rest] : []),
    ];
    const counts = places.map((place) => this.of(place, level + 1));
    if (counts.includes(0)) return 0;
    const next = min < prefix.length ? prefix[min]! : rest;
    const canGrow = max > min && this.of(next, level + 1) > 0;
    const isEndless = canGrow && max === MANY && min >= prefix.length;
    const most = counts.reduce((all, count) => Math.max(all, count), 1);
    return isEndless ? MANY : most + (canGrow ? 1 : 0);
  }

  #objects(facts: readonly ObjectFact[], level: number): number {
    const shape = mergeMembers(facts, this.#analysis);
    const required = shape.named.filter((member) => member.required);
    if (shape.somes.length > 0 || shape.min > shape.max) return 0;
    const counts = required.map(({ value }) => this.of(value, level + 1));
    if (counts.includes(0)) return 0;
    if (!this.#hasKeys(shape, level)) return 0;
    const hasRoom = shape.max > required.length;
    const others = hasRoom
      ? shape.named
          .filter((member) => !member.required)
          .map(({ value }) => this.of(value, level + 1) + 1)
      : [];
    const isOpen =
      hasRoom &&
      shape.classes.some(
        ({ language, value }) =>
          this.of(value, level + 1) > 0 && textsOf(language, this.#limit) === undefined,
      );
    return isOpen ? MANY : [...counts, ...others].reduce((most, count) => Math.max(most, count), 1);
  }

  /** Whether there are as many members as must be. */
  #hasKeys({ named, classes, min }: ObjectShape, level: number): boolean {
    const exists = (value: Conjunction) => this.of(value, level + 1) > 0;
    let left = min - named.filter(({ required }) => required).length;
    if (left <= 0) return true;
    left -= named.filter(({ required, value }) => !required && exists(value)).length;
    for (const { language, value } of classes) {
      if (left <= 0) return true;
      if (exists(value)) left -= textsOf(language, left)?.length ?? left;
    }
    return left <= 0;
  }
}
