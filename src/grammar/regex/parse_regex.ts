/**
 * Regular expression -> `Expression`, exactly or not at all.
 *
 * ```ts
 * parseRegex("[0-9]{3}-[0-9]{4}"); // texts that are such a number
 * parseRegex("^x-", { match: "search" }); // texts that contain a match, as `pattern` in JSON schema
 * ```
 *
 * A pattern that ECMAScript accepts with the flag `u` means what it means there: `\d` and `\w` are
 * ASCII, `\s` is Unicode white space, `.` is anything but a line terminator, `$` is the very end.
 * Beyond that, as people write patterns:
 *
 * | written | meaning |
 * |---|---|
 * | `\-`, `\_`, `\"`, ... | the character itself, for all but letters and digits |
 * | `]`, `{` and `}` where they close or count nothing | the character itself |
 * | `[]`, `[^]` | nothing, any character; refused where Python would find a later `]` |
 * | `[\w-.]` | a dash beside a set is a dash |
 * | `{,n}` | up to `n` times, as in Python |
 * | `(?P<name>...)`, `(?<name>...)` | a group |
 * | `(?i)`, `(?s)`, `(?x)`, `(?m)`, `(?i-s)` | flags from here to the end of the group |
 * | `(?i:...)` | flags for this group |
 * | `(?#...)` | a comment |
 * | `\A`, `\Z`, `\z` | begin and very end of the text |
 * | `\UHHHHHHHH` | a code point, as in Python |
 * | `(?=...)`, `(?!...)`, `(?<=...)`, `(?<!...)` | lookahead and lookbehind, of any length |
 * | `\b`, `\B` | an edge of an ASCII word, or none |
 * | `(?>...)`, `a*+`, `a++`, `a?+`, `a{2,3}+` | only where they do not change the language |
 *
 * Lazy quantifiers have the language of greedy ones, and case is ignored by simple folding, as the
 * flags `iu` do. A pattern is read into an `Expression`, with counts as counts, as long as its
 * anchors can be seen to by sorting texts by where they must stand; with other assertions it is
 * read again into an automaton (`assertions`). The parser refuses, and names: backreferences,
 * recursion, conditions, POSIX classes, a lookahead of more than one character inside a lookbehind,
 * other letters behind a backslash.
 *
 * Works without recursion, so that deep nesting needs no deep stack, and refuses what would take
 * long: more than 20 properties, thousands of classes with properties or without regard to case.
 *
 * @module
 */

import { ANY_CODE_POINT } from "../automaton/code_points.ts";
import { type Expression, NEVER, regular, repeat } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { concatenate, either } from "./anchored.ts";
import { AssertionMet, Assertions } from "./assertions/assertions.ts";
import { resolveAssertions } from "./assertions/resolve_assertions.ts";
import { type Anchored, textsOf } from "./regex_part.ts";
import { RegexReader } from "./regex_reader.ts";

export interface RegexOptions {
  /**
   * Whether the whole text must match, which is the default, some part of it, or a part of a text
   * of which more is known elsewhere: then nothing may depend on what stands beside the part.
   */
  readonly match?: "whole" | "search" | "part" | undefined;
}

/**
 * The language of a regular expression.
 *
 * @returns Without rules and single bytes, so that `automatonOf` takes it too.
 * @throws {GrammarError} with the position, for what is malformed or cannot be enforced.
 */
export function parseRegex(pattern: string, { match = "whole" }: RegexOptions = {}): Expression {
  const read = (assertions?: Assertions): Expression => {
    const parsed = new RegexReader(pattern, assertions).read();
    if (match === "search") return textAround(parsed);
    const { start, end, both } = parsed;
    if (match === "part" && (start ?? end ?? both) !== undefined) refuseInPart();
    return wholeText(parsed);
  };
  try {
    return read();
  } catch (error) {
    if (!(error instanceof AssertionMet)) throw error;
    if (match === "part") refuseInPart();
  }
  const assertions = new Assertions();
  return regular(resolveAssertions(read(assertions), assertions.list));
}

function refuseInPart(): never {
  throw new GrammarError(
    "Cannot use anchors, lookahead, lookbehind and word boundaries in a part of a grammar: they " +
      "would depend on the text beside it",
  );
}

function wholeText(parsed: Anchored): Expression {
  return either(textsOf(parsed))?.expression ?? NEVER;
}

/** Texts with a match somewhere. */
function textAround(parsed: Anchored): Expression {
  const { free, start, end } = parsed;
  const any = repeat({ kind: "class", points: ANY_CODE_POINT });
  if ([free, start, end].some((texts) => texts?.nullable === true)) return any;
  const around: Anchored = { free: { expression: any, nullable: true } };
  // A possessive repeat at the very end takes what it wants: anything may follow the match.
  const { commitments: _, ...open } = parsed;
  return wholeText(concatenate([around, open, around]));
}
