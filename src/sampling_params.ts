/**
 * How a caller wants a completion drawn, ended and constrained: plain data of every request.
 *
 * @module
 */
import type { JsonOrder, JsonUnknown } from "./constraint.ts";

/** How the next token is chosen and when a sequence ends. Absent fields take the default named. */
export interface SamplingParams {
  /** Completion tokens at most; `null` fills the context. Default 128. */
  readonly maxNewTokens?: number | null;
  /** Completion tokens before an end-of-sequence token or `stopTokenIds`, below `maxNewTokens`. Default 0. */
  readonly minNewTokens?: number;
  /** Divides the logits; 0 is greedy. Default 1. */
  readonly temperature?: number;
  /** Smallest set of tokens whose probability reaches this, in (0, 1]. Default 1. */
  readonly topP?: number;
  /** Number of likeliest tokens to draw from; -1 is all. Default -1. */
  readonly topK?: number;
  /** Least probability, as a share of the likeliest token's, in [0, 1]. Default 0. */
  readonly minP?: number;
  /** Taken off a logit for each time the token was generated, in [-2, 2]. Default 0. */
  readonly frequencyPenalty?: number;
  /** Taken off a logit once the token was generated, in [-2, 2]. Default 0. */
  readonly presencePenalty?: number;
  /**
   * Divides the logit of a token that occurs in the prompt or was generated, or multiplies it when
   * it is negative; in [0, 2], and 0 is taken as 1e-20. Default 1.
   */
  readonly repetitionPenalty?: number;
  /** Token id -> what is added to its logit. Default none. */
  readonly logitBias?: Readonly<Record<number, number>>;
  /** Ends the text before the first of these strings; an empty one is none. Default none. */
  readonly stop?: string | readonly string[];
  /** Ends the sequence after any of these tokens. Default none. */
  readonly stopTokenIds?: readonly number[];
  /** Goes on after the end-of-sequence token and after `stopTokenIds`. Default false. */
  readonly ignoreEos?: boolean;
  /** Leaves the stop string, or the text of the token that ended the sequence, in. Default false. */
  readonly noStopTrim?: boolean;
  /** Leaves special tokens out of the text. Default true. */
  readonly skipSpecialTokens?: boolean;
  /** Special tokens that stay in the text, by name: marks of a form that is read from it. Default none. */
  readonly shownSpecialTokens?: readonly string[];
  /**
   * JSON schema that the completion must fit, as JSON text, an object or a boolean; "$$ANY$$" is any
   * JSON value. At most one of this, `regex`, `ebnf`, `structuralTag` and `choice`, and "" is none. What
   * cannot be enforced exactly is refused.
   */
  readonly jsonSchema?: string | boolean | Readonly<Record<string, unknown>>;
  /** Regular expression that the whole completion must match. */
  readonly regex?: string;
  /** Grammar that the whole completion must match: EBNF from the rule `root`, or Lark's from `start`. */
  readonly ebnf?: string;
  /**
   * Free text with structured parts, as JSON text: `{"structures": [{"begin", "schema", "end"}],
   * "triggers": [..]}`, where a structure that begins with a trigger follows wherever that comes up,
   * or `{"format": {"type": ..}}` (docs/structured-output.md has the formats).
   */
  readonly structuralTag?: string;
  /** Texts of which the whole completion must be one. */
  readonly choice?: readonly string[];
  /**
   * Keywords that a JSON schema's dialect does not have, and unknown formats: "ignore" takes
   * them as annotations and warns, "refuse" refuses the schema. Default: the engine's `jsonUnknown`.
   */
  readonly jsonUnknown?: JsonUnknown;
  /**
   * Of members that a JSON schema names: "any", or "schema" for the order of `properties`, all others
   * behind them. Default: the engine's `jsonOrder`.
   */
  readonly jsonOrder?: JsonOrder;
  /** Makes the draws reproducible, an unsigned 32-bit number. Default: the engine picks one. */
  readonly seed?: number;
}

/**
 * The sampling parameters that say what a completion must be, of which a request has at most one, and
 * the kind of grammar that each is.
 */
export const CONSTRAINT_KINDS = {
  jsonSchema: "json_schema",
  regex: "regex",
  ebnf: "ebnf",
  structuralTag: "structural_tag",
  choice: "choice",
} as const satisfies Partial<Record<keyof SamplingParams, string>>;

export type ConstraintName = keyof typeof CONSTRAINT_KINDS;

/** The parameters alone. */
export const CONSTRAINTS = Object.keys(CONSTRAINT_KINDS) as readonly ConstraintName[];

/** Those of them that are set: an empty text is none. */
export function constraintsIn(params: SamplingParams): readonly ConstraintName[] {
  return CONSTRAINTS.filter((name) => params[name] !== undefined && params[name] !== "");
}
