/**
 * Sets of numbers as the texts that spell them.
 *
 * Two notations are offered. Plain: `-12.50`, every spelling of a value. Scientific: `1.25e1`, with
 * one digit other than 0 before the point, as JavaScript prints very large and very small numbers.
 * All spellings with an exponent cannot be had, for whether `100e-2` is 1 takes counting. Only where
 * a schema says nothing of a number is every spelling of JSON accepted.
 *
 * Numbers that a schema lists are written as it writes them, and in no other way: a model that may
 * write `1.000` for 1 may never come to the end of it.
 *
 * Each other fact is turned into texts of values that fit it, and always into the shortest plain spelling
 * of every such value, so that texts of several facts at once exist when values do.
 *
 * @module
 */

import { automatonOf } from "../../automaton/code_point_automaton.ts";
import { accepts, difference, intersection, isEmpty } from "../../automaton/regular.ts";
import {
  type CodePointAutomaton,
  characters,
  choice,
  type Expression,
  NEVER,
  optional,
  regular,
  repeat,
  sequence,
  text,
} from "../../expression.ts";
import type { ListedNumber, NumberFact } from "../cases/facts.ts";
import { intersectAll, type Spend } from "../strings/language.ts";
import { compareDecimals, type Decimal, decimalOf, decimalText, digitsOf } from "./decimal.ts";
import {
  compareExponent,
  compareFraction,
  compareWhole,
  DIGIT,
  DIGITS,
  type Relation,
} from "./digit_order.ts";
import { multiplesOf } from "./multiples.ts";

/** Texts in both notations. */
interface Spelled {
  readonly plain: Expression;
  readonly scientific: Expression;
}

const NONZERO = characters([[0x31, 0x39]]);
const MINUS = text("-");
const E = characters([
  [0x45, 0x45],
  [0x65, 0x65],
]);
const SIGN = characters([
  [0x2b, 0x2b],
  [0x2d, 0x2d],
]);
const WHOLE = choice([text("0"), sequence([NONZERO, DIGITS])]);
const FRACTION = optional(sequence([text("."), DIGIT, DIGITS]));
const EXPONENT = sequence([E, optional(SIGN), DIGIT, DIGITS]);

/**
 * Digits that an answer may have before the point, behind it and in the exponent: those of integers
 * of 128 bits, and more than any double is printed with. Without an end a weak model finds none.
 */
const MAX_WHOLE = 40;
const MAX_FRACTION = 24;
const MAX_EXPONENT = 4;

/** Every spelling that JSON has (RFC 8259, section 6), up to so many digits. */
export const JSON_NUMBER = sequence([
  optional(MINUS),
  choice([text("0"), sequence([NONZERO, repeat(DIGIT, { max: MAX_WHOLE - 1 })])]),
  optional(sequence([text("."), repeat(DIGIT, { min: 1, max: MAX_FRACTION })])),
  optional(sequence([E, optional(SIGN), repeat(DIGIT, { min: 1, max: MAX_EXPONENT })])),
]);

/** Magnitudes, that is numbers without their sign. */
const MAGNITUDES: Spelled = {
  plain: sequence([WHOLE, FRACTION]),
  scientific: sequence([NONZERO, FRACTION, EXPONENT]),
};
const NOTHING: Spelled = { plain: NEVER, scientific: NEVER };
/** Whole numbers that JavaScript prints in scientific notation, which begins at 1e21. */
const LARGE_EXPONENT = 21;
const INTEGERS: Spelled = {
  plain: sequence([optional(MINUS), WHOLE]),
  scientific: sequence([
    optional(MINUS),
    NONZERO,
    optional(sequence([text("."), repeat(DIGIT, { min: 1, max: LARGE_EXPONENT })])),
    E,
    choice([compareExponent(LARGE_EXPONENT, "equal"), compareExponent(LARGE_EXPONENT, "greater")]),
  ]),
};
const FRACTIONS: Spelled = {
  plain: sequence([optional(MINUS), WHOLE, text("."), DIGITS, NONZERO, DIGITS]),
  scientific: sequence([optional(MINUS), NONZERO, FRACTION, E, compareExponent(0, "less")]),
};

function either(sets: readonly Spelled[]): Spelled {
  return {
    plain: choice(sets.map(({ plain }) => plain)),
    scientific: choice(sets.map(({ scientific }) => scientific)),
  };
}

function negative({ plain, scientific }: Spelled): Spelled {
  return { plain: sequence([MINUS, plain]), scientific: sequence([MINUS, scientific]) };
}

/** Magnitudes that stand in a relation to that of `value`. */
function compareMagnitude(value: Decimal, relation: Relation): Spelled {
  const { whole, fraction } = digitsOf(value);
  const equalWhole = text(whole);
  const plain = choice([
    sequence([equalWhole, compareFraction(fraction, relation)]),
    relation === "equal" ? NEVER : sequence([compareWhole(whole, relation), FRACTION]),
  ]);
  return { plain, scientific: compareScientific(value, relation) };
}

/** Values other than 0, so each has one first digit and one exponent. */
function compareScientific({ coefficient, exponent }: Decimal, relation: Relation): Expression {
  if (coefficient === 0n) return relation === "greater" ? MAGNITUDES.scientific : NEVER;
  const digits = coefficient.toString();
  const power = exponent + digits.length - 1;
  const [first, fraction] = [digits[0]!, digits.slice(1)];
  const sameExponent = sequence([E, compareExponent(power, "equal")]);
  const sameFirst = sequence([text(first), compareFraction(fraction, relation), sameExponent]);
  if (relation === "equal") return sameFirst;
  const point = first.charCodeAt(0);
  const otherFirst = characters([relation === "less" ? [0x31, point - 1] : [point + 1, 0x39]]);
  return choice([
    sameFirst,
    sequence([otherFirst, FRACTION, sameExponent]),
    sequence([NONZERO, FRACTION, E, compareExponent(power, relation)]),
  ]);
}

/** Numbers that stand in a relation to `value`. */
function compare(value: Decimal, relation: Relation): Spelled {
  const isZero = value.coefficient === 0n;
  if (relation === "equal") {
    const same = compareMagnitude(value, "equal");
    return isZero ? either([same, negative(same)]) : value.negative ? negative(same) : same;
  }
  if (relation === "greater") {
    if (!value.negative) return compareMagnitude(value, "greater");
    return either([MAGNITUDES, negative(compareMagnitude(value, "less"))]);
  }
  if (value.negative || isZero) return negative(compareMagnitude(value, "greater"));
  return either([compareMagnitude(value, "less"), negative(MAGNITUDES)]);
}

const EVERYTHING = either([MAGNITUDES, negative(MAGNITUDES)]);

function spell(fact: NumberFact): Spelled {
  switch (fact.kind) {
    case "integer":
      if (!fact.holds) return FRACTIONS;
      return fact.isPlain === true ? { ...INTEGERS, scientific: NEVER } : INTEGERS;
    case "bound": {
      const beyond = compare(fact.value, fact.side === "lower" ? "greater" : "less");
      return fact.strict ? beyond : either([beyond, compare(fact.value, "equal")]);
    }
    case "numbers": {
      const members = either([NOTHING, ...fact.values.map(({ value }) => compare(value, "equal"))]);
      if (fact.holds) return members;
      const without = (all: Expression, some: Expression) =>
        regular(difference(automatonOf(all), automatonOf(some)));
      return {
        plain: without(EVERYTHING.plain, members.plain),
        scientific: without(EVERYTHING.scientific, members.scientific),
      };
    }
    case "multiple":
      return { plain: regular(multiplesOf(fact)), scientific: NEVER };
    default:
      return fact satisfies never;
  }
}

/** Without facts that others imply. */
function simplify(facts: readonly NumberFact[]): NumberFact[] {
  const whole = facts.some((fact) => fact.kind === "integer" && fact.holds);
  const tightest = {
    lower: undefined as NumberFact | undefined,
    upper: undefined as NumberFact | undefined,
  };
  const rest: NumberFact[] = [];
  for (const fact of facts) {
    if (fact.kind === "bound") {
      if (isTighter(fact, tightest[fact.side])) tightest[fact.side] = fact;
    } else if (fact.kind === "multiple" && fact.holds && whole && dividesOne(fact.of)) {
      // Every whole number is a multiple of 0.5.
    } else if (!(fact.kind === "integer" && rest.some((other) => isSameInteger(other, fact)))) {
      rest.push(fact);
    }
  }
  return [...rest, ...Object.values(tightest).filter((fact) => fact !== undefined)];
}

function isSameInteger(
  fact: NumberFact,
  other: NumberFact & { readonly kind: "integer" },
): boolean {
  if (fact.kind !== "integer" || fact.holds !== other.holds) return false;
  return (fact.isPlain === true) === (other.isPlain === true);
}

function isTighter(fact: NumberFact, known: NumberFact | undefined): boolean {
  if (fact.kind !== "bound" || known?.kind !== "bound") return true;
  const order = compareDecimals(fact.value, known.value);
  if (order === 0) return fact.strict;
  return fact.side === "lower" ? order > 0 : order < 0;
}

function dividesOne({ coefficient, exponent }: Decimal): boolean {
  return exponent <= 0 && 10n ** BigInt(-exponent) % coefficient === 0n;
}

let doubles: CodePointAutomaton | undefined;

/** Numbers in scientific notation that doubles hold without loss of digits. */
function withinDoubles(): CodePointAutomaton {
  const within = (value: number, relation: Relation) => {
    const magnitudes = [relation, "equal" as const].map((each) =>
      compareScientific(decimalOf(value), each),
    );
    return automatonOf(sequence([optional(MINUS), choice(magnitudes)]));
  };
  doubles ??= intersectAll([within(2 ** -1022, "greater"), within(Number.MAX_VALUE, "less")]);
  return doubles;
}

let lengths: CodePointAutomaton | undefined;

/** Automata of more states count as it is, as those of multiples do. */
const MAX_COUNTED = 500;

/**
 * Those texts of a set of numbers that are not too long, or the whole set: if it has no others, or
 * would become too large.
 */
function shortTexts(numbers: CodePointAutomaton): CodePointAutomaton {
  if (numbers.states.length > MAX_COUNTED) return numbers;
  lengths ??= automatonOf(JSON_NUMBER);
  const short = intersection(numbers, lengths);
  return isEmpty(short) ? numbers : short;
}

/** By what is known of a number: of many numbers the same. */
export type KnownNumbers = Map<string, Expression>;

let integers: Expression | undefined;

/** The numbers that fit all facts. */
export function numberExpression(
  facts: readonly NumberFact[],
  expressions: KnownNumbers = new Map(),
): Expression {
  const listed = facts.find((fact) => fact.kind === "numbers" && fact.holds);
  if (listed?.kind === "numbers") {
    return choice(listedNumbers(listed, facts).map((one) => text(one.text)));
  }
  const known = simplify(facts);
  if (known.length === 0) return JSON_NUMBER;
  const [first] = known;
  if (known.length > 1 || first?.kind !== "integer" || !first.holds || first.isPlain) {
    const key = known.map(keyOf).join();
    const expression = expressions.get(key) ?? expressionOf(known);
    expressions.set(key, expression);
    return expression;
  }
  // Most numbers of schemas are these.
  integers ??= expressionOf(known);
  return integers;
}

function keyOf(fact: NumberFact): string {
  switch (fact.kind) {
    case "integer":
      return `integer ${fact.holds} ${fact.isPlain === true}`;
    case "bound":
      return `${fact.side} ${decimalText(fact.value)} ${fact.strict}`;
    case "multiple":
      return `multiple ${decimalText(fact.of)} ${fact.holds}`;
    case "numbers":
      return `numbers ${fact.values.map(({ value }) => decimalText(value)).join(" ")} ${fact.holds}`;
    default:
      return fact satisfies never;
  }
}

/** Whether only whole numbers fit that programs do not write in scientific notation. */
function isSmallInteger(known: readonly NumberFact[]): boolean {
  const limit = decimalOf(10 ** LARGE_EXPONENT);
  const isBounded = (side: "lower" | "upper") =>
    known.some((fact) => {
      if (fact.kind !== "bound" || fact.side !== side) return false;
      const isBeyondZero = fact.value.negative === (side === "lower");
      const magnitude = { ...fact.value, negative: false };
      return !isBeyondZero || compareDecimals(magnitude, limit) < 0;
    });
  const isInteger = known.some((fact) => fact.kind === "integer" && fact.holds);
  return isInteger && isBounded("lower") && isBounded("upper");
}

function expressionOf(known: readonly NumberFact[]): Expression {
  const parts = known.map(spell);
  const plain = regular(shortTexts(intersectAll(parts.map((part) => automatonOf(part.plain)))));
  if (isSmallInteger(known)) return plain;
  const scientific = parts.map((part) => automatonOf(part.scientific));
  // `1e-400` would be 0 to most readers, and so below its bound.
  return choice([plain, regular(shortTexts(intersectAll([...scientific, withinDoubles()])))]);
}

/** Whether no number fits all facts. */
export function noNumberFits(facts: readonly NumberFact[], spend: Spend): boolean {
  if (facts.length < 2) return false;
  const listed = facts.find((fact) => fact.kind === "numbers" && fact.holds);
  if (listed?.kind !== "numbers") return isEmpty(plainNumbers(facts, spend));
  return listedNumbers(listed, facts, spend).length === 0;
}

const WRITTEN_WHOLE = /^-?\d+$/;

/** Those listed numbers that fit all facts. */
export function listedNumbers(
  listed: NumberFact & { readonly kind: "numbers" },
  facts: readonly NumberFact[],
  spend?: Spend,
): ListedNumber[] {
  const others = simplify(facts)
    .filter((fact) => fact !== listed)
    .map((fact) => plainAutomaton(fact, spend));
  const isPlain = facts.some((fact) => fact.kind === "integer" && fact.isPlain === true);
  return listed.values.filter(
    ({ value, text: written }) =>
      (!isPlain || WRITTEN_WHOLE.test(written)) &&
      others.every((automaton) => accepts(automaton, decimalText(value))),
  );
}

/** A state of a number goes on by ten digits. */
const STATE_COST = 10;
const plainAutomata = new WeakMap<NumberFact, CodePointAutomaton>();

function plainAutomaton(fact: NumberFact, spend?: Spend): CodePointAutomaton {
  let automaton = plainAutomata.get(fact);
  if (automaton === undefined) {
    const { plain } = spell(fact);
    automaton = plain.kind === "regular" ? plain.automaton : automatonOf(plain);
    spend?.(STATE_COST * automaton.states.length);
    plainAutomata.set(fact, automaton);
  }
  return automaton;
}

/** The plain spellings that fit all facts. */
export function plainNumbers(facts: readonly NumberFact[], spend?: Spend): CodePointAutomaton {
  const parts = simplify(facts).map((fact) => plainAutomaton(fact, spend));
  return intersectAll(parts.length > 0 ? parts : [automatonOf(EVERYTHING.plain)], spend);
}
