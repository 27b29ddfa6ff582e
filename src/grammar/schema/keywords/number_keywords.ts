/**
 * Keywords for numbers: bounds and multiples.
 *
 * @module
 */

import type { NumberFact } from "../cases/facts.ts";
import type { Constraint } from "../cases/schema_cases.ts";
import { decimalValue, type ExactNumber, isNumber, isObject } from "../json_value.ts";
import type { SchemaNode } from "../schema_tree.ts";

export function numberConstraints({ value, path }: SchemaNode): Constraint[] {
  if (!isObject(value)) return [];
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum, multipleOf } = value;
  const constraints: Constraint[] = [];
  const addBound = (side: "lower" | "upper", limit: unknown, strict: boolean): void => {
    if (isNumber(limit)) constraints.push(bound(side, limit, strict));
  };
  addBound("lower", minimum, exclusiveMinimum === true);
  addBound("lower", exclusiveMinimum, true);
  addBound("upper", maximum, exclusiveMaximum === true);
  addBound("upper", exclusiveMaximum, true);
  if (isNumber(multipleOf)) {
    const fact = (holds: boolean): NumberFact => ({
      kind: "multiple",
      of: decimalValue(multipleOf),
      holds,
      path: `${path}/multipleOf`,
    });
    constraints.push({ holds: () => [[fact(true)]], fails: () => [[fact(false)]] });
  }
  return constraints;
}

function bound(side: "lower" | "upper", limit: number | ExactNumber, strict: boolean): Constraint {
  const value = decimalValue(limit);
  const other = side === "lower" ? "upper" : "lower";
  return {
    holds: () => [[{ kind: "bound", side, value, strict }]],
    fails: () => [[{ kind: "bound", side: other, value, strict: !strict }]],
  };
}
