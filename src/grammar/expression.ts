/**
 * What a constraint is written in, whatever language the client wrote it in.
 *
 * A regular expression, an EBNF grammar and a JSON schema all become a `Grammar`: named rules, each
 * an `Expression`, plain data that is printable in a test. `compile_automaton.ts` turns it into an automaton
 * over the bytes of UTF-8. The text of a whole completion must be one that the root rule matches,
 * from its first byte to its last.
 *
 * | kind | matches |
 * |---|---|
 * | `text` | exactly this text |
 * | `class` | one character of a set of code points |
 * | `bytes` | one byte of a set, for what is not characters |
 * | `sequence` | its parts one after another; no part is the empty text |
 * | `choice` | any of its options; no option is nothing at all |
 * | `repeat` | `body` from `min` to `max` times |
 * | `unordered` | one or more of its parts in any order, each once unless it may come again |
 * | `rule` | what the rule of that name matches |
 * | `regular` | what an automaton over code points accepts, its characters counted or not |
 *
 * Rules may refer to each other and to themselves. Left recursion (a rule that begins with itself)
 * is refused (`withoutLeftRecursion` in `ebnf` rewrites it), and so is a name without a rule. Choices are not ordered and repeats not greedy: a
 * grammar is the set of its texts. Rules that no finite text satisfies count as nothing at all.
 *
 * Intersection, difference and complement exist for regular languages only: `automatonOf` in
 * `code_point_automaton.ts` turns an expression into a `CodePointAutomaton`, `regular.ts` computes
 * with those, `insideJsonString` in `json_string.ts` spells one as JSON does, and a `regular`
 * expression brings the result back in here.
 *
 * What is matched within a rule is remembered once for all places that refer to the rule, so give
 * what stands in many places, such as a JSON string with its quotes, a rule. Prefer a `repeat` with
 * bounds to a `regular` that counts: it is counted, not written out.
 *
 * @module
 */

import { type CodePointRange, type CodePoints, codePoints } from "./automaton/code_points.ts";

export type Expression =
  | TextExpression
  | ClassExpression
  | BytesExpression
  | SequenceExpression
  | ChoiceExpression
  | RepeatExpression
  | UnorderedExpression
  | RuleExpression
  | RegularExpression;

export interface TextExpression {
  readonly kind: "text";
  /** Not empty, without lone surrogates. */
  readonly text: string;
}

export interface ClassExpression {
  readonly kind: "class";
  /** Without any, nothing matches. */
  readonly points: CodePoints;
}

export interface BytesExpression {
  readonly kind: "bytes";
  /** First and last byte of each range, both inside. */
  readonly ranges: readonly (readonly [first: number, last: number])[];
}

export interface SequenceExpression {
  readonly kind: "sequence";
  readonly parts: readonly Expression[];
}

export interface ChoiceExpression {
  readonly kind: "choice";
  readonly options: readonly Expression[];
}

export interface RepeatExpression {
  readonly kind: "repeat";
  readonly body: Expression;
  /** Whole number from 0. */
  readonly min: number;
  /** Whole number from `min`, or Infinity. */
  readonly max: number;
}

/** What was written is counted and remembered, not written out: there may be hundreds of parts. */
export interface UnorderedExpression {
  readonly kind: "unordered";
  readonly parts: readonly UnorderedPart[];
  /** Stands between two of them. */
  readonly separator: Expression;
  /** Parts in all. Whole number from 1. */
  readonly min: number;
  /** Whole number from `min`, no less than there are required parts, or Infinity. */
  readonly max: number;
}

export interface UnorderedPart {
  /** Does not match the empty text. */
  readonly body: Expression;
  readonly isRequired: boolean;
  /** Whether it may come more than once; no required part does. */
  readonly isRepeatable: boolean;
}

export interface RuleExpression {
  readonly kind: "rule";
  readonly name: string;
}

export interface RegularExpression {
  readonly kind: "regular";
  readonly automaton: CodePointAutomaton;
  /** Bounds of what its texts stand for, which are counted and not written out. */
  readonly counted?: CountedCharacters | undefined;
}

/**
 * How many characters a text of a regular language stands for, which may be spelled by more. Edges of
 * its automaton by one half of a surrogate pair, which no text has, say where one begins. Behind each
 * state some number of characters leads to an end that the bounds allow, unless those that must come
 * are too many.
 */
export interface CountedCharacters {
  readonly min: number;
  readonly max: number;
}

/** So many more than this one are the characters that must follow the one that begins, at least. */
const CHARACTER_BEGINS = 0xd800;

/** An edge that reads nothing: a character begins, which `need` others must follow, up to 2,047. */
export function characterBegins(need: number, target: number): CodePointEdge {
  const point = CHARACTER_BEGINS + need;
  return { first: point, last: point, target };
}

/** What an edge says of the character that begins with it; nothing of one that reads a text. */
export function needBehind({ first }: CodePointEdge): number | undefined {
  const need = first - CHARACTER_BEGINS;
  return need >= 0 && need < 0x800 ? need : undefined;
}

/** Ways on from a state, and whether a character that is counted begins with them. */
export function waysFrom(
  { states }: CodePointAutomaton,
  state: number,
): readonly { readonly edge: CodePointEdge; readonly begins: boolean }[] {
  return states[state]!.edges.flatMap((edge) => {
    const begins = needBehind(edge) !== undefined;
    const edges = begins ? states[edge.target]!.edges : [edge];
    return edges.map((one) => ({ edge: one, begins }));
  });
}

/** A regular language over code points. It may have several ways to read one text. */
export interface CodePointAutomaton {
  /** The first one is the start. */
  readonly states: readonly CodePointState[];
}

export interface CodePointState {
  /** Whether a text may end here. */
  readonly accepting: boolean;
  readonly edges: readonly CodePointEdge[];
}

/** Leads to `target`, an index into `states`, by any code point from `first` to `last`. */
export interface CodePointEdge {
  readonly first: number;
  readonly last: number;
  readonly target: number;
}

export interface Grammar {
  readonly rules: ReadonlyMap<string, Expression>;
  /** Name of the rule that a whole completion matches. */
  readonly root: string;
  /** What was ignored of the source, in sentences. Default none. */
  readonly warnings?: readonly string[] | undefined;
}

/** The empty text. */
export const EMPTY: Expression = { kind: "sequence", parts: [] };

/** Nothing at all: no text matches. */
export const NEVER: Expression = { kind: "choice", options: [] };

/** Exactly this text, which may be empty. */
export function text(value: string): Expression {
  return value === "" ? EMPTY : { kind: "text", text: value };
}

/** One character of the ranges, in any order. Surrogates are left out. */
export function characters(ranges: Iterable<CodePointRange>): Expression {
  return { kind: "class", points: codePoints(ranges) };
}

export function bytes(...ranges: BytesExpression["ranges"]): Expression {
  return { kind: "bytes", ranges };
}

export function sequence(parts: readonly Expression[]): Expression {
  return parts.length === 1 ? parts[0]! : { kind: "sequence", parts };
}

export function choice(options: readonly Expression[]): Expression {
  return options.length === 1 ? options[0]! : { kind: "choice", options };
}

/** @param max Infinity for no bound, which is the default. */
export function repeat(
  body: Expression,
  {
    min = 0,
    max = Number.POSITIVE_INFINITY,
  }: { readonly min?: number; readonly max?: number } = {},
): Expression {
  return { kind: "repeat", body, min, max };
}

/** The body or the empty text. */
export function optional(body: Expression): Expression {
  return repeat(body, { max: 1 });
}

export function rule(name: string): RuleExpression {
  return { kind: "rule", name };
}

export function regular(automaton: CodePointAutomaton, counted?: CountedCharacters): Expression {
  return counted === undefined
    ? { kind: "regular", automaton }
    : { kind: "regular", automaton, counted };
}

/** A grammar of one rule, for what needs no names. */
export function grammarOf(expression: Expression): Grammar {
  return { rules: new Map([["root", expression]]), root: "root" };
}

/** The expressions that one is made of. */
export function childrenOf(expression: Expression): readonly Expression[] {
  switch (expression.kind) {
    case "sequence":
      return expression.parts;
    case "choice":
      return expression.options;
    case "repeat":
      return [expression.body];
    case "unordered":
      return [...expression.parts.map(({ body }) => body), expression.separator];
    default:
      return [];
  }
}
