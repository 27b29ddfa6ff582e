/**
 * What the readers of keywords, the joined facts and the search for contradictions ask about the
 * schema around them.
 *
 * @module
 */

import type { CodePointAutomaton } from "../../expression.ts";
import type { JsonObject, JsonType } from "../json_value.ts";
import type { SchemaNode, SchemaTree } from "../schema_tree.ts";
import type { Language, Spend } from "../strings/language.ts";
import type { Conjunction, Conjunctions } from "./conjunctions.ts";
import type { Case } from "./facts.ts";

/** What part of a schema says of values of one type. */
export interface Constraint {
  readonly holds: () => readonly Case[];
  readonly fails: () => readonly Case[];
}

/** Cases that are joined with others, or a constraint that must fail beside them. */
export type JoinedPart = (() => readonly Case[]) | { readonly refuted: Constraint };

export interface CaseContext {
  readonly type: JsonType;
  /** Whether each case must tell which of the subschemas hold, for `unevaluated...` around it. */
  readonly annotate: boolean;
}

/** No value fits. */
export const NO_CASE: readonly Case[] = [];
/** Every value fits. */
export const EVERY_CASE: readonly Case[] = [[]];

/** The cases of a schema and of its parts, each found when it is asked for. */
export interface SchemaCases {
  readonly tree: SchemaTree;
  readonly conjunctions: Conjunctions;
  /** Counts work that is about to be done. */
  readonly spend: Spend;
  /** The conjunction of one schema; a schema that only refers to another one is that one. */
  conjunction(node: SchemaNode, holds?: boolean): Conjunction;
  /** A schema that stands for a part of another one, the same for the same place. */
  derive(from: SchemaNode, name: string, make: () => JsonObject): SchemaNode;
  /** The conjunction that at least one of the schemas fits. */
  anyOf(nodes: readonly SchemaNode[]): Conjunction;
  /** Cases of values that fit the schema, or that do not. */
  casesOf(node: SchemaNode, holds: boolean, context: CaseContext): readonly Case[];
  /** Cases in which all parts hold. Later parts are not read when no case is left. */
  both(node: SchemaNode, type: JsonType, parts: readonly JoinedPart[]): readonly Case[];
  /** Keys other than these; the same automaton for the same ones. */
  keysBeside(names: readonly string[]): CodePointAutomaton;
  /** Whether surely no value fits. */
  isNever(conjunction: Conjunction): boolean;
  /** The format that all strings which fit are of, where it is no regular language. */
  formatOf(conjunction: Conjunction): Language | undefined;
  /** The strings that fit, or undefined when every string does. */
  languageOf(conjunction: Conjunction): CodePointAutomaton | undefined;
}
