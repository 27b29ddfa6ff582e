/**
 * `uniqueItems`: arrays in which the places alone keep the items apart, arrays whose items are a few
 * known values, of which each set is a state, and all others, whose items are remembered beside the
 * automaton.
 *
 * @module
 */

import { textsOf } from "../../automaton/regular.ts";
import type { Expression } from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";
import type { ArrayShape } from "../cases/array_shape.ts";
import type { CaseAnalysis } from "../cases/cases.ts";
import type { Conjunction } from "../cases/conjunctions.ts";
import {
  type BooleanFact,
  type ContainsFact,
  findUnwritten,
  type NumberFact,
} from "../cases/facts.ts";
import { readNumber } from "../json_text.ts";
import { canonicalText, type JsonObject, keepSpelling } from "../json_value.ts";
import { stringsOf } from "../keywords/string_keywords.ts";
import { listedNumbers, plainNumbers } from "../numbers/number_language.ts";
import type { CaseWriter } from "./case_writer.ts";
import type { Machine, Move } from "./machine.ts";
import { hasMoreValues } from "./value_count.ts";

/** Different values. Each set of them that an array may have is a state, so more are remembered. */
const MAX_VALUES = 8;

interface DistinctOptions {
  readonly shape: ArrayShape;
  readonly contains: readonly ContainsFact[];
  readonly writer: CaseWriter;
  /** Of the keyword, for errors. */
  readonly path: string;
}

/**
 * @returns What keeps the items apart: their places, a machine, or what is remembered of them.
 * @throws {GrammarError} when there may be fewer values than the array must have items.
 */
export function distinctItems(options: DistinctOptions): "apart" | "remembered" | DistinctMachine {
  const { shape, contains, writer } = options;
  const { analysis } = writer;
  if (areApart(shape, analysis)) return "apart";
  const known = contains.length === 0 ? knownItems(shape, analysis) : undefined;
  if (known !== undefined) return new DistinctMachine(shape, { ...known, writer });
  requireEnough(options);
  return "remembered";
}

/** Each place has more values than there are items before it. */
function requireEnough({
  shape: { prefix, rest, min },
  writer: { analysis },
  path,
}: DistinctOptions) {
  const places = Math.min(min, prefix.length);
  const isEnough =
    prefix.slice(0, places).every((place, i) => hasMoreValues(place, i, analysis)) &&
    (min <= prefix.length || hasMoreValues(rest, min - 1, analysis));
  if (isEnough) return;
  throw new GrammarError(
    `Cannot enforce "uniqueItems": there may be fewer than ${min} different items`,
    { path },
  );
}

interface KnownItems {
  readonly values: ReadonlyMap<string, JsonObject>;
  /** By place. */
  readonly allowed: readonly ReadonlySet<string>[];
}

function knownItems(
  { prefix, rest, max }: ArrayShape,
  analysis: CaseAnalysis,
): KnownItems | undefined {
  const places = [...prefix, rest].slice(0, Math.min(max, prefix.length + 1));
  const values = new Map<string, JsonObject>();
  const allowed: ReadonlySet<string>[] = [];
  for (const place of places) {
    const list = valuesOf(place, analysis);
    if (list === undefined) return undefined;
    for (const [text, value] of list) values.set(text, value);
    if (values.size > MAX_VALUES) return undefined;
    allowed.push(new Set(list.keys()));
  }
  return { values, allowed };
}

/** Whether no value can stand in two places. */
function areApart({ prefix, max }: ArrayShape, analysis: CaseAnalysis): boolean {
  if (max > prefix.length) return false;
  const places = prefix.slice(0, max);
  return places.every((a, i) =>
    places.slice(0, i).every((b) => analysis.isNever(analysis.conjunctions.and([a, b]))),
  );
}

/**
 * All values that fit, when they are few: null, booleans, listed numbers and strings; each as a
 * schema that nothing else fits, by its canonical text.
 */
function valuesOf(place: Conjunction, analysis: CaseAnalysis): Map<string, JsonObject> | undefined {
  if (place.never) return new Map();
  const cases = (type: Parameters<CaseAnalysis["casesOfAll"]>[1]) =>
    analysis.casesOfAll(place, type).filter((one) => findUnwritten(one) === undefined);
  if (cases("array").length + cases("object").length > 0) return undefined;
  const values: JsonObject[] = cases("null").length > 0 ? [{ const: null }] : [];
  for (const facts of cases("boolean")) {
    const isAllowed = (value: boolean) =>
      (facts as readonly BooleanFact[]).every((fact) => fact.values.includes(value));
    for (const value of [true, false].filter(isAllowed)) values.push({ const: value });
  }
  for (const facts of cases("number")) {
    const numbers = numbersOf(facts as readonly NumberFact[]);
    if (numbers === undefined) return undefined;
    for (const number of numbers) values.push(number);
  }
  for (const facts of cases("string")) {
    const texts = facts.length === 0 ? undefined : stringsOf(facts, MAX_VALUES);
    if (texts === undefined) return undefined;
    for (const text of texts) values.push({ const: text });
  }
  return new Map(values.map((value) => [canonicalText(value.const!), value]));
}

function numbersOf(facts: readonly NumberFact[]): JsonObject[] | undefined {
  const listed = facts.find((fact) => fact.kind === "numbers" && fact.holds);
  const texts =
    listed?.kind === "numbers"
      ? listedNumbers(listed, facts).map(({ text }) => text)
      : facts.some((fact) => fact.kind === "integer" && fact.holds)
        ? textsOf(plainNumbers(facts), 2 * MAX_VALUES)
        : undefined;
  return texts?.map((text) => {
    const value = { const: readNumber(text) };
    keepSpelling(value, "const", text);
    return value;
  });
}

interface State {
  readonly size: number;
  /** Bits of the values that were written. */
  readonly used: number;
}

class DistinctMachine implements Machine<State> {
  readonly start: State = { size: 0, used: 0 };
  readonly #shape: ArrayShape;
  readonly #items: readonly { readonly text: string; readonly item: Expression }[];
  readonly #allowed: readonly ReadonlySet<string>[];

  constructor(
    shape: ArrayShape,
    {
      values,
      allowed,
      writer: { analysis, refer },
    }: {
      readonly writer: CaseWriter;
    } & KnownItems,
  ) {
    this.#shape = shape;
    this.#allowed = allowed;
    const { root } = analysis.tree;
    this.#items = [...values].map(([text, value]) => {
      const node = analysis.derive(root, `value ${text}`, () => value);
      return { text, item: refer(analysis.conjunction(node)) };
    });
  }

  key({ size, used }: State): string {
    return `${size} ${used}`;
  }

  started({ size }: State): boolean {
    return size > 0;
  }

  accepts({ size }: State): boolean {
    return size >= this.#shape.min;
  }

  moves({ size, used }: State): Move<State>[] {
    if (size >= this.#shape.max) return [];
    const allowed = this.#allowed[Math.min(size, this.#allowed.length - 1)]!;
    return this.#items.flatMap(({ text, item }, i) => {
      const isFree = allowed.has(text) && (used & (1 << i)) === 0;
      return isFree ? [{ item, next: { size: size + 1, used: used | (1 << i) } }] : [];
    });
  }
}
