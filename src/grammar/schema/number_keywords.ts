/**
 * Keywords for numbers: bounds and multiples.
 *
 * @module
 */

import type { Constraint } from "./cases.ts";
import { decimalOf } from "./decimal.ts";
import type { SchemaNode } from "./document.ts";
import type { NumberFact } from "./facts.ts";
import { isObject } from "./json_value.ts";

export function numberConstraints({ value, path }: SchemaNode): Constraint[] {
  if (!isObject(value)) return [];
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum, multipleOf } = value;
  const constraints: Constraint[] = [];
  const addBound = (side: "lower" | "upper", limit: unknown, strict: boolean): void => {
    if (typeof limit === "number") constraints.push(bound(side, limit, strict));
  };
  addBound("lower", minimum, exclusiveMinimum === true);
  addBound("lower", exclusiveMinimum, true);
  addBound("upper", maximum, exclusiveMaximum === true);
  addBound("upper", exclusiveMaximum, true);
  if (typeof multipleOf === "number") {
    const fact = (holds: boolean): NumberFact => ({
      kind: "multiple",
      of: decimalOf(multipleOf),
      holds,
      path: `${path}/multipleOf`,
    });
    constraints.push({ holds: () => [[fact(true)]], fails: () => [[fact(false)]] });
  }
  return constraints;
}

function bound(side: "lower" | "upper", limit: number, strict: boolean): Constraint {
  const value = decimalOf(limit);
  const other = side === "lower" ? "upper" : "lower";
  return {
    holds: () => [[{ kind: "bound", side, value, strict }]],
    fails: () => [[{ kind: "bound", side: other, value, strict: !strict }]],
  };
}
