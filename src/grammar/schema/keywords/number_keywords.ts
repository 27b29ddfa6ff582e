/**
 * Keywords for numbers: bounds, multiples and formats.
 *
 * @module
 */

import type { NumberFact } from "../cases/facts.ts";
import type { Constraint } from "../cases/schema_cases.ts";
import { decimalValue, type ExactNumber, isNumber, isObject } from "../json_value.ts";
import { NUMBER_FORMATS, type WholeRange } from "../numbers/number_formats.ts";
import type { SchemaNode } from "../schema_tree.ts";

export function numberConstraints({ value, path }: SchemaNode): Constraint[] {
  if (!isObject(value)) return [];
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum, multipleOf, format } = value;
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
  const range = typeof format === "string" ? NUMBER_FORMATS.get(format) : undefined;
  if (range !== undefined) constraints.push(wholeWithin(range));
  return constraints;
}

function wholeWithin({ lower, upper }: WholeRange): Constraint {
  const limits: readonly NumberFact[] = [
    { kind: "bound", side: "lower", value: lower, strict: false },
    { kind: "bound", side: "upper", value: upper, strict: false },
  ];
  return {
    holds: () => [[{ kind: "integer", holds: true }, ...limits]],
    fails: () => [
      [{ kind: "integer", holds: false }],
      [{ kind: "bound", side: "upper", value: lower, strict: true }],
      [{ kind: "bound", side: "lower", value: upper, strict: true }],
    ],
  };
}

function bound(side: "lower" | "upper", limit: number | ExactNumber, strict: boolean): Constraint {
  const value = decimalValue(limit);
  const other = side === "lower" ? "upper" : "lower";
  return {
    holds: () => [[{ kind: "bound", side, value, strict }]],
    fails: () => [[{ kind: "bound", side: other, value, strict: !strict }]],
  };
}
