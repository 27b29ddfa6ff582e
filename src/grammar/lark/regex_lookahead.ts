/**
 * Expressions of terminals with lookahead: cut where they look ahead, so that what is looked for may
 * reach beyond the terminal.
 *
 * A lookahead counts where no bar stands beside it, outside of groups: `/(?!if\b)[a-z]+/`,
 * `/"[^"]*"(?=:)/`. Inside of groups, and for lookbehind, parsing refuses it.
 *
 * @module
 */

import type { Lookaheads } from "../ebnf/lookaheads.ts";
import { type Expression, sequence } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { parseRegex } from "../regex/parse_regex.ts";

/** A character with its backslash, what begins or ends a group or class, or other text. */
const PIECE = /\\[\s\S]|\(\?[=!]|\(\?<[=!]|[()|[\]^]|[^\\()|[\]^]+|[\s\S]/g;
/** Flags from here on, which would hold behind a cut too. */
const FLAGS = /\(\?[a-z]*(?:-[a-z]+)?\)/y;
/** Pieces that look at the text before them. */
const LOOKS_BACK: ReadonlySet<string> = new Set(["\\b", "\\B", "^", "(?<=", "(?<!"]);
/** The same where it is behind a character of the lookahead itself, and so looks at that. */
const WORDS = /^(?:\(\?:)?[A-Za-z0-9_]+(?:\|[A-Za-z0-9_]+)*\)?\\b$/;

interface Cut {
  /** Absent of what is no lookahead. */
  readonly negated?: boolean;
  readonly source: string;
}

export interface RegexLookaheadOptions {
  readonly lookaheads: Lookaheads;
  /** Of all of it. */
  readonly flags: string;
  /** Where the expression stands. */
  readonly position: number;
}

/** @throws {GrammarError} for what is malformed or would look at the text before it. */
export function parseTerminal(
  pattern: string,
  { lookaheads, flags, position }: RegexLookaheadOptions,
): Expression {
  const withFlags = (source: string) => (flags === "" ? source : `(?${flags}:${source})`);
  const cuts = flags.includes("x") ? [{ source: pattern }] : cut(pattern);
  const parts = cuts.map(({ source, negated }: Cut): Expression => {
    if (negated === undefined) return parseRegex(withFlags(source), { match: "part" });
    if (looksBack(source) && !WORDS.test(source)) {
      throw new GrammarError(
        "Cannot use the lookahead: what it looks for looks at the text before it",
      );
    }
    // The whole rest, as an end or an edge of a word in it is one of the rest.
    const body = parseRegex(withFlags(`(?:${source})[^]*`));
    return lookaheads.add({ body, negated, position, isWhole: true });
  });
  return sequence(parts);
}

function looksBack(source: string): boolean {
  for (const { piece } of piecesOf(source)) if (LOOKS_BACK.has(piece)) return true;
  return false;
}

/** Pieces of a pattern that stand in no class, by where they begin. */
function* piecesOf(pattern: string): Generator<{ readonly piece: string; readonly index: number }> {
  let isInClass = false;
  for (const { 0: piece, index } of pattern.matchAll(PIECE)) {
    if (isInClass) isInClass = piece !== "]";
    else if (piece === "[") isInClass = true;
    else yield { piece, index };
  }
}

/** The whole pattern where it is not to be cut. */
function cut(pattern: string): readonly Cut[] {
  const whole = [{ source: pattern }];
  const cuts: Cut[] = [];
  let depth = 0;
  let from = 0;
  let begun: { readonly at: number; readonly negated: boolean } | undefined;
  for (const { piece, index } of piecesOf(pattern)) {
    FLAGS.lastIndex = index;
    if ((depth === 0 && piece === "|") || FLAGS.test(pattern)) return whole;
    if (piece.startsWith("(")) {
      if (depth === 0 && (piece === "(?=" || piece === "(?!")) {
        if (index > from) cuts.push({ source: pattern.slice(from, index) });
        begun = { at: index + piece.length, negated: piece === "(?!" };
      }
      depth += 1;
    }
    if (piece !== ")") continue;
    depth -= 1;
    if (depth > 0 || begun === undefined) continue;
    cuts.push({ source: pattern.slice(begun.at, index), negated: begun.negated });
    begun = undefined;
    from = index + 1;
  }
  if (cuts.length === 0 || begun !== undefined || depth !== 0) return whole;
  if (from < pattern.length) cuts.push({ source: pattern.slice(from) });
  return cuts;
}
