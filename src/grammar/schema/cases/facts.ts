/**
 * What can be known of a value of one type, as the smallest statements there are.
 *
 * A `Case` is a list of facts about values of one type that hold together. A schema says of each
 * type a list of cases, one of which must hold; an empty list means that no value of the type fits,
 * and a list with an empty case that every value does. `cases.ts` reads them off a schema, and the
 * `*_grammar.ts` files turn each into an expression.
 *
 * @module
 */

import type { CodePointAutomaton } from "../../expression.ts";
import type { Decimal } from "../numbers/decimal.ts";
import type { SchemaNode } from "../schema_tree.ts";
import type { Language } from "../strings/language.ts";
import type { Conjunction } from "./conjunctions.ts";

export type Fact = BooleanFact | NumberFact | StringFact | ArrayFact | ObjectFact | UnwrittenFact;

/**
 * What values there are of, but no grammar writes: they are left out, and told of. A schema that
 * such a value fits still keeps others of a `oneOf` from having it.
 */
export interface UnwrittenFact {
  readonly kind: "unwritten";
  /** The values that are left out. */
  readonly what: string;
  /** Of the keyword. */
  readonly path: string;
}

/** What two equal items of a list are left out as. */
export const EQUAL_ITEMS = "lists with two equal items";

export function findUnwritten(facts: Case): UnwrittenFact | undefined {
  return facts.find((fact) => fact.kind === "unwritten");
}

export type Case = readonly Fact[];

export interface BooleanFact {
  readonly kind: "boolean";
  readonly values: readonly boolean[];
}

export type NumberFact =
  | {
      readonly kind: "integer";
      readonly holds: boolean;
      /** Whether `1e2` is none, nor `1.0`: draft-04 tells whole numbers by how they are written. */
      readonly isPlain?: boolean;
    }
  | {
      readonly kind: "bound";
      readonly side: "lower" | "upper";
      readonly value: Decimal;
      /** Whether the bound itself is outside. */
      readonly strict: boolean;
    }
  | {
      readonly kind: "multiple";
      readonly of: Decimal;
      readonly holds: boolean;
      /** Of the keyword, for errors. */
      readonly path: string;
    }
  | {
      readonly kind: "numbers";
      /** All different. */
      readonly values: readonly ListedNumber[];
      readonly holds: boolean;
    };

/** A number of `enum` or `const`. */
export interface ListedNumber {
  readonly value: Decimal;
  /** As the schema writes it. */
  readonly text: string;
}

export type StringFact =
  | { readonly kind: "length"; readonly min: number; readonly max: number }
  | {
      readonly kind: "language";
      readonly language: Language;
      readonly holds: boolean;
    };

export type ArrayFact = ItemsFact | ContainsFact | SizeFact | UniqueFact;

/** Item `i` fits `prefix[i]`, all others `rest`. */
export interface ItemsFact {
  readonly kind: "items";
  readonly prefix: readonly Conjunction[];
  /** Undefined when the schema says nothing of them. */
  readonly rest: Conjunction | undefined;
  /** Whether `unevaluatedItems` counts these items as known. */
  readonly evaluates: boolean;
}

/** From `min` to `max` of the items behind the first `from` fit or, if not `holds`, do not fit. */
export interface ContainsFact {
  readonly kind: "contains";
  readonly node: SchemaNode;
  readonly holds: boolean;
  readonly from: number;
  readonly min: number;
  readonly max: number;
  readonly evaluates: boolean;
}

export interface SizeFact {
  readonly kind: "size";
  readonly min: number;
  readonly max: number;
}

/** No two items are the same. */
export interface UniqueFact {
  readonly kind: "unique";
  /** Of the keyword, for errors. */
  readonly path: string;
}

export type ObjectFact = MembersFact | HasFact | NamesFact | SomeFact | CountFact;

/** What members must fit: those with a name, those whose key a pattern matches, all others. */
export interface MembersFact {
  readonly kind: "members";
  readonly named: ReadonlyMap<string, Conjunction>;
  readonly patterns: readonly PatternMembers[];
  /** Undefined when the schema says nothing of them. */
  readonly additional: Conjunction | undefined;
  /** Whether `unevaluatedProperties` counts these members as known. */
  readonly evaluates: boolean;
}

export interface PatternMembers {
  readonly language: CodePointAutomaton;
  readonly value: Conjunction;
}

/** There is a member with this key, and its value fits. */
export interface HasFact {
  readonly kind: "has";
  readonly key: string;
  readonly value: Conjunction;
}

/** Every key is of this language. */
export interface NamesFact {
  readonly kind: "names";
  /** Where there is a format, as far as it is regular. */
  readonly language: CodePointAutomaton;
  /** One that is more than its regular part. */
  readonly format?: Language;
}

/** There is a member with a key of this language whose value fits. */
export interface SomeFact {
  readonly kind: "some";
  readonly language: CodePointAutomaton;
  readonly value: Conjunction;
}

/** From `min` to `max` members. */
export interface CountFact {
  readonly kind: "count";
  readonly min: number;
  readonly max: number;
  /** Of the keyword, for errors. */
  readonly path: string;
}
