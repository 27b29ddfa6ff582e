/**
 * Digits in order: texts of digits that mean less than, the same as or more than given ones.
 *
 * @module
 */

import {
  characters,
  choice,
  EMPTY,
  type Expression,
  NEVER,
  optional,
  repeat,
  sequence,
  text,
} from "../../expression.ts";

export type Relation = "less" | "equal" | "greater";

const ZERO = 0x30;
const NINE = 0x39;
export const DIGIT = characters([[ZERO, NINE]]);
export const DIGITS = repeat(DIGIT);
const ZEROS = repeat(text("0"));
const PLUS = optional(text("+"));
const MINUS = text("-");

/** One digit that stands in the relation to another one. */
function compareDigit(digit: string, relation: "less" | "greater", lowest = ZERO): Expression {
  const point = digit.charCodeAt(0);
  return characters([
    relation === "less" ? [lowest, point - 1] : [Math.max(point + 1, lowest), NINE],
  ]);
}

/** Whole numbers without leading zeros; `whole` is one too. */
export function compareWhole(whole: string, relation: "less" | "greater"): Expression {
  const { length } = whole;
  let sameLength: Expression = NEVER;
  for (let i = length - 1; i >= 0; i--) {
    const lowest = i === 0 && length > 1 ? ZERO + 1 : ZERO;
    const left = length - 1 - i;
    sameLength = choice([
      sequence([
        compareDigit(whole[i]!, relation, lowest),
        repeat(DIGIT, { min: left, max: left }),
      ]),
      sequence([text(whole[i]!), sameLength]),
    ]);
  }
  const nonzero = characters([[ZERO + 1, NINE]]);
  if (relation === "greater") {
    return choice([sameLength, sequence([nonzero, repeat(DIGIT, { min: length })])]);
  }
  if (length === 1) return sameLength;
  const shorter = choice([text("0"), sequence([nonzero, repeat(DIGIT, { max: length - 2 })])]);
  return choice([sameLength, shorter]);
}

/** What may stand behind a whole number: nothing, or a point and digits. `fraction` does not end in 0. */
export function compareFraction(fraction: string, relation: Relation): Expression {
  const point = text(".");
  const { length } = fraction;
  if (relation === "equal") {
    if (length === 0) return optional(sequence([point, text("0"), ZEROS]));
    return sequence([point, text(fraction), ZEROS]);
  }
  if (relation === "less") {
    if (length === 0) return NEVER;
    let behind: Expression = NEVER;
    for (let i = length - 1; i >= 0; i--) {
      const end = i < length - 1 ? EMPTY : NEVER;
      behind = choice([
        sequence([compareDigit(fraction[i]!, "less"), DIGITS]),
        sequence([text(fraction[i]!), choice([end, behind])]),
      ]);
    }
    return choice([EMPTY, sequence([point, behind])]);
  }
  let behind: Expression = sequence([ZEROS, compareDigit("0", "greater"), DIGITS]);
  for (let i = length - 1; i >= 0; i--) {
    behind = choice([
      sequence([compareDigit(fraction[i]!, "greater"), DIGITS]),
      sequence([text(fraction[i]!), behind]),
    ]);
  }
  return sequence([point, behind]);
}

/** Exponents, with or without sign and leading zeros. */
export function compareExponent(exponent: number, relation: Relation): Expression {
  const digits = String(Math.abs(exponent));
  const positive = (body: Expression) => sequence([PLUS, ZEROS, body]);
  const negative = (body: Expression) => sequence([MINUS, ZEROS, body]);
  const every = sequence([DIGIT, DIGITS]);
  if (relation === "equal") {
    if (exponent === 0) return choice([positive(text("0")), negative(text("0"))]);
    return exponent > 0 ? positive(text(digits)) : negative(text(digits));
  }
  if (relation === "greater") {
    if (exponent >= 0) return positive(compareWhole(digits, "greater"));
    return choice([sequence([PLUS, every]), negative(compareWhole(digits, "less"))]);
  }
  if (exponent <= 0) return negative(compareWhole(digits, "greater"));
  return choice([sequence([MINUS, every]), positive(compareWhole(digits, "less"))]);
}
