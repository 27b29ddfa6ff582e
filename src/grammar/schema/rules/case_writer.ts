/**
 * What a case of arrays or objects is written with.
 *
 * @module
 */

import type { JsonOrder } from "../../../constraint.ts";
import type { Expression } from "../../expression.ts";
import type { CaseAnalysis } from "../cases/cases.ts";
import type { Conjunction } from "../cases/conjunctions.ts";
import type { Language } from "../strings/language.ts";
import type { Machine } from "./machine.ts";

export interface CaseWriter {
  readonly analysis: CaseAnalysis;
  /** Values that fit a conjunction. */
  readonly refer: (value: Conjunction) => Expression;
  /** The expression as a rule of its own, which many places share. */
  readonly share: (expression: Expression) => Expression;
  /** Texts of a format that is no regular language, inside of quotes. */
  readonly spell: (format: Language) => Expression;
  /** Lists that a machine makes. */
  readonly expand: <State>(machine: Machine<State>) => Expression;
  /** Of members. */
  readonly order: JsonOrder;
  /** Of the schema, for errors. */
  readonly path: string;
}
