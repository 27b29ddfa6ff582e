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
 * | `(?>...)`, `a*+`, `a++`, `a?+`, `a{2,3}+` | only where they do not change the language |
 *
 * Lazy quantifiers have the language of greedy ones, and case is ignored by simple folding, as the
 * flags `iu` do. Anchors may stand anywhere and mean what they say, only those of the flag `m` must
 * be at the edges. The parser refuses, and names: lookahead and lookbehind, backreferences, `\b`
 * and `\B`, recursion, conditions, POSIX classes, other letters behind a backslash.
 *
 * Works without recursion, so that deep nesting needs no deep stack, and refuses what would take
 * long: more than 20 properties, thousands of classes with properties or without regard to case.
 *
 * @module
 */

import { ANY_CODE_POINT, type CodePoints } from "../automaton/code_points.ts";
import { spendEffort } from "../effort.ts";
import { type Expression, NEVER, repeat } from "../expression.ts";
import { MAX_REPETITIONS } from "../text_scanner.ts";
import {
  alternate,
  concatenate,
  either,
  literal,
  type RepeatBounds,
  repeatAnchored,
} from "./anchored.ts";
import { NOT_LINE_BREAKS, withOtherCases } from "./character_sets.ts";
import { commit } from "./commitment.ts";
import { RegexScanner, readClass, readEscape } from "./escapes.ts";
import { type Anchored, ONLY_EMPTY, textsOf } from "./regex_part.ts";

export interface RegexOptions {
  /** Whether the whole text must match, which is the default, or some part of it. */
  readonly match?: "whole" | "search" | undefined;
}

/**
 * The language of a regular expression.
 *
 * @returns Without rules and single bytes, so that `automatonOf` takes it too.
 * @throws {GrammarError} with the position, for what is malformed or cannot be enforced.
 */
export function parseRegex(pattern: string, { match = "whole" }: RegexOptions = {}): Expression {
  const parsed = new RegexParser(pattern).parse();
  return match === "whole" ? wholeText(parsed) : textAround(parsed);
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

/** One character of the set. */
function oneOf(points: CodePoints): Anchored {
  return { free: { expression: { kind: "class", points }, nullable: false } };
}

interface Flags {
  readonly ignoreCase: boolean;
  readonly dotAll: boolean;
  readonly multiline: boolean;
  readonly verbose: boolean;
}

const NO_FLAGS: Flags = { ignoreCase: false, dotAll: false, multiline: false, verbose: false };

const FLAG_NAMES: Readonly<Record<string, keyof Flags>> = {
  i: "ignoreCase",
  s: "dotAll",
  m: "multiline",
  x: "verbose",
};

/** A group that is open. */
interface Group {
  readonly position: number;
  readonly atomic: boolean;
  /** Flags outside. */
  readonly flags: Flags;
  readonly options: Anchored[];
  /** Of the option being read. */
  parts: Anchored[];
  /** Whether a quantifier may follow. */
  repeatable: boolean;
}

/** Groups that are refused, by what stands behind `(?`. */
const REFUSED_GROUPS: readonly (readonly [RegExp, string])[] = [
  [/[=!]/y, "lookahead"],
  [/<[=!]/y, "lookbehind"],
  [/P=/y, "a backreference"],
  [/P>|R|&|[+-]?[0-9]/y, "recursion"],
  [/\(/y, "a condition"],
  [/\|/y, "a branch reset"],
];

/** Not before a quantifier or a comment, and without surrogates that are no pair. */
const LITERAL_RUN = /[^\\^$.*+?()[\]{}|\p{Surrogate}]+(?![*+?{]|\(\?#)/uy;

/** Of each part, and of each group besides. */
const PART_EFFORT = 0.5;
const GROUP_EFFORT = 4;

const GROUP_NAME = /P?<[\p{ID_Start}$_][\p{ID_Continue}$]*>/uy;

class RegexParser {
  readonly #scanner: RegexScanner;
  readonly #groups: Group[] = [];
  #group: Group;
  #flags = NO_FLAGS;

  constructor(pattern: string) {
    this.#scanner = new RegexScanner(pattern);
    this.#group = this.#makeGroup(0, false);
  }

  parse(): Anchored {
    while (!this.#scanner.atEnd) this.#step();
    if (this.#groups.length > 0) {
      throw this.#scanner.malformed('a group begins and ")" is missing', this.#group.position);
    }
    return this.#finishGroup();
  }

  #makeGroup(position: number, atomic: boolean): Group {
    const flags = this.#flags;
    return { position, atomic, flags, options: [], parts: [], repeatable: false };
  }

  #finishGroup(): Anchored {
    spendEffort(GROUP_EFFORT);
    const { options, parts, atomic, position } = this.#group;
    const whole = alternate([...options, concatenate(parts)]);
    return atomic ? commit(whole, { position, effort: this.#scanner.effort }) : whole;
  }

  /** @param repeatable Whether a quantifier may follow. Default for all but anchors. */
  #add(part: Anchored, repeatable = part.free !== undefined): void {
    this.#group.parts.push(part);
    this.#group.repeatable = repeatable;
  }

  #step(): void {
    spendEffort(PART_EFFORT);
    const { position } = this.#scanner;
    const character = this.#scanner.next();
    switch (character) {
      case "(":
        this.#openGroup(position);
        break;
      case ")":
        this.#closeGroup(position);
        break;
      case "|":
        this.#group.options.push(concatenate(this.#group.parts));
        this.#group.parts = [];
        this.#group.repeatable = false;
        break;
      case "*":
        this.#quantify({ min: 0, max: Number.POSITIVE_INFINITY }, position);
        break;
      case "+":
        this.#quantify({ min: 1, max: Number.POSITIVE_INFINITY }, position);
        break;
      case "?":
        this.#quantify({ min: 0, max: 1 }, position);
        break;
      case "{":
        this.#readBrace(position);
        break;
      default:
        if (this.#flags.verbose && this.#skipVerbose(character)) break;
        this.#add(this.#readRun(position) ?? this.#readPart(character, position));
    }
  }

  /** Several characters at once that mean themselves, up to one that may be repeated. */
  #readRun(position: number): Anchored | undefined {
    if (this.#flags.ignoreCase || this.#flags.verbose) return undefined;
    this.#scanner.position = position;
    const text = this.#scanner.match(LITERAL_RUN)?.[0];
    if (text !== undefined) return { free: literal(text) };
    this.#scanner.next();
    return undefined;
  }

  #onLine(position: number): number | undefined {
    return this.#flags.multiline ? position : undefined;
  }

  /** White space and comments of the flag `x`. */
  #skipVerbose(character: string): boolean {
    if (character === "#") this.#scanner.match(/[^\n]*/y);
    return character === "#" || /[ \t\n\r\v\f]/.test(character);
  }

  /** What stands for one character, or an anchor. */
  #readPart(character: string, position: number): Anchored {
    switch (character) {
      case "^":
        return { start: ONLY_EMPTY, lineStart: this.#onLine(position) };
      case "$":
        return { end: ONLY_EMPTY, lineEnd: this.#onLine(position) };
      case ".":
        return oneOf(this.#flags.dotAll ? ANY_CODE_POINT : NOT_LINE_BREAKS);
      case "[":
        return this.#readClass(position);
      case "\\":
        return this.#readEscape(position);
      default:
        return this.#literal(character.codePointAt(0)!);
    }
  }

  #readClass(position: number): Anchored {
    const scanner = this.#scanner;
    const close = scanner.position + (scanner.sees("^") ? 1 : 0);
    if (scanner.source[close] === "]" && scanner.source.includes("]", close + 1)) {
      throw scanner.unsupported(
        'a class that begins with "]": it ends there in ECMAScript but not in Python, write "\\]"',
        position,
      );
    }
    return oneOf(readClass(scanner, this.#flags.ignoreCase));
  }

  #literal(point: number): Anchored {
    if (this.#flags.ignoreCase) {
      const points = withOtherCases([[point, point]]);
      if (points.length > 1 || points[0]?.[0] !== points[0]?.[1]) return oneOf(points);
    }
    // UTF-8 cannot spell half a surrogate pair, so nothing matches it.
    if (point >= 0xd800 && point < 0xe000) return oneOf([]);
    return { free: literal(String.fromCodePoint(point)) };
  }

  #readEscape(position: number): Anchored {
    const scanner = this.#scanner;
    if (scanner.skip("A")) return { start: ONLY_EMPTY };
    if (scanner.match(/[Zz]/y) !== undefined) return { end: ONLY_EMPTY };
    const boundary = scanner.match(/[bB]/y)?.[0];
    if (boundary !== undefined) {
      throw scanner.unsupported(
        `the word boundary "\\${boundary}": it depends on the character beside it`,
        position,
      );
    }
    const value = readEscape(scanner, this.#flags.ignoreCase);
    return typeof value === "number" ? this.#literal(value) : oneOf(value);
  }

  #openGroup(position: number): void {
    const scanner = this.#scanner;
    if (!scanner.skip("?") || scanner.skip(":") || scanner.match(GROUP_NAME) !== undefined) {
      this.#enterGroup(position);
    } else if (scanner.skip(">")) {
      this.#enterGroup(position, true);
    } else if (scanner.skip("#")) {
      const comment = scanner.match(/[^)]*\)/y);
      if (comment === undefined) throw scanner.malformed("a comment does not end", position);
    } else {
      this.#refuseGroup(position);
      const flags = scanner.match(/(?!\))([A-Za-z]*)(?:-([A-Za-z]+))?([:)])/y);
      if (flags === undefined) {
        throw scanner.malformed('"(?" begins no group that is known', position);
      }
      this.#readFlags(flags, position);
    }
  }

  #enterGroup(position: number, atomic = false): void {
    this.#groups.push(this.#group);
    this.#group = this.#makeGroup(position, atomic);
  }

  #closeGroup(position: number): void {
    const outer = this.#groups.pop();
    if (outer === undefined) throw this.#scanner.malformed('")" closes no group', position);
    const part = this.#finishGroup();
    this.#flags = this.#group.flags;
    this.#group = outer;
    this.#add(part, true);
  }

  #readFlags([, on = "", off = "", end]: RegExpExecArray, position: number): void {
    const outside = this.#flags;
    const changes: Partial<Record<keyof Flags, boolean>> = {};
    for (const [letters, value] of [
      [on, true],
      [off, false],
    ] as const) {
      for (const letter of letters) {
        const name = FLAG_NAMES[letter];
        if (name === undefined)
          throw this.#scanner.unsupported(
            `the flag "${letter}": only ${Object.keys(FLAG_NAMES).join(", ")} are known`,
            position,
          );
        changes[name] = value;
      }
    }
    this.#group.repeatable = false;
    if (end === ":") this.#enterGroup(position);
    this.#flags = { ...outside, ...changes };
  }

  /** Refuses what is known but cannot be enforced, behind `(?`. */
  #refuseGroup(position: number): void {
    for (const [expression, name] of REFUSED_GROUPS) {
      const begin = this.#scanner.match(expression)?.[0];
      if (begin !== undefined)
        throw this.#scanner.unsupported(
          `${name} "(?${begin}": a constraint cannot enforce it`,
          position,
        );
    }
  }

  #readBrace(position: number): void {
    const bounds = this.#scanner.match(/(?!\})([0-9]*)(,?)([0-9]*)\}/y);
    if (bounds === undefined) {
      this.#add(this.#literal(0x7b));
      return;
    }
    const [, least = "", comma, most = ""] = bounds;
    const min = Number(least);
    const max = comma === "" ? min : most === "" ? Number.POSITIVE_INFINITY : Number(most);
    if (Math.max(min, Number.isFinite(max) ? max : 0) > MAX_REPETITIONS) {
      throw this.#scanner.unsupported(
        `the bounds of the repetition: more than ${MAX_REPETITIONS} repetitions are too many`,
        position,
      );
    }
    if (min > max) throw this.#scanner.malformed("the bounds are out of order", position);
    this.#quantify({ min, max }, position);
  }

  #quantify(bounds: RepeatBounds, position: number): void {
    const scanner = this.#scanner;
    const group = this.#group;
    const part = group.repeatable ? group.parts.pop() : undefined;
    if (part === undefined) {
      const quantifier = scanner.since(position);
      throw scanner.malformed(`nothing to repeat before "${quantifier}"`, position);
    }
    const repeated = repeatAnchored(part, bounds);
    if (scanner.skip("?")) this.#add({ ...repeated, repeated: undefined }, false);
    else if (scanner.skip("+"))
      this.#add(commit(repeated, { position, effort: scanner.effort }), false);
    else this.#add(repeated, false);
  }
}
