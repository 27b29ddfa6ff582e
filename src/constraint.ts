/**
 * What the text of a completion must be, as plain data.
 *
 * @module
 */

/** What becomes of unknown keywords and formats of a JSON schema. */
export const JSON_UNKNOWN = ["ignore", "refuse"] as const;

export type JsonUnknown = (typeof JSON_UNKNOWN)[number];

/** In which order the members of objects that a JSON schema names may come. */
export const JSON_ORDERS = ["any", "schema"] as const;

export type JsonOrder = (typeof JSON_ORDERS)[number];

/**
 * What becomes of text that a constraint leaves no choice about: "forced" takes tokens that are the
 * only allowed ones without a step, "retokenize" all of the text in the tokens that the tokenizer
 * would write it with, "off" takes every token from a step.
 */
export const JSON_JUMPS = ["forced", "retokenize", "off"] as const;

export type JsonJump = (typeof JSON_JUMPS)[number];

/** How a model writes down its thoughts. */
export interface Thinking {
  /** What they stand between, special tokens by their names. */
  readonly begin: string;
  readonly end: string;
  /** Whether the prompt has begun them already. Otherwise there may be none. */
  readonly isOpen: boolean;
}

/** The languages that a constraint may be written in, most of them called as the request fields. */
export type ConstraintKind =
  | "json_schema"
  | "regex"
  | "ebnf"
  | "structural_tag"
  | "choice"
  | "tools";

/** What the whole text of a completion must be. */
export interface Constraint {
  readonly kind: ConstraintKind;
  /** The schema as JSON, the pattern, the grammar, or what else the kind has. */
  readonly source: string;
  /** Thoughts that come first, and that the constraint does not speak of. */
  readonly thinking?: Thinking | undefined;
  /** Of the JSON schemas in it, in place of the engine's. */
  readonly jsonUnknown?: JsonUnknown | undefined;
  /** The same. */
  readonly jsonOrder?: JsonOrder | undefined;
}

/** How an engine came by the grammar of a constraint. */
export interface GrammarCompilation {
  /** Whether it was that of an earlier request. */
  readonly isCached: boolean;
  /** Seconds that it took, without any wait for a turn. */
  readonly seconds: number;
  /** What was ignored of it, in sentences. Default none. */
  readonly warnings?: readonly string[];
}
