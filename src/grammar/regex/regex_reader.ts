/**
 * Reads a regular expression from left to right and puts its parts together.
 *
 * @module
 */

import { ANY_CODE_POINT, type CodePoints, MAX_CODE_POINT } from "../automaton/code_points.ts";
import { spendEffort } from "../effort.ts";
import { choice, type Expression, sequence } from "../expression.ts";
import { MAX_REPETITIONS } from "../text_scanner.ts";
import { alternate, concatenate, literal, type RepeatBounds, repeatAnchored } from "./anchored.ts";
import { AssertionMet, type Assertions, type Look } from "./assertions/assertions.ts";
import { LINE_BREAKS, NOT_LINE_BREAKS, shorthandSet, withOtherCases } from "./character_sets.ts";
import { commit } from "./commitment.ts";
import { RegexScanner, readClass, readEscape } from "./escapes.ts";
import { type Anchored, ONLY_EMPTY, type Texts } from "./regex_part.ts";

/** One character of the set. */
function oneOf(points: CodePoints): Anchored {
  return { free: { expression: { kind: "class", points }, nullable: false } };
}

/** Stands for all marks, so that a possessive quantifier before any of them is seen. */
const ANY_MARK: Texts = {
  expression: { kind: "class", points: [[MAX_CODE_POINT + 1, MAX_CODE_POINT + 1]] },
  nullable: false,
};

/** A part of marks alone. */
function assertion(marks: Expression): Anchored {
  return {
    free: { expression: marks, nullable: false, leftmost: [ANY_MARK] },
    isAssertion: true,
  };
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
  /** What it says of its place, when it is a lookahead or lookbehind. */
  readonly look: Pick<Look, "kind" | "negated"> | undefined;
  /** Flags outside. */
  readonly flags: Flags;
  readonly options: Anchored[];
  /** Of the option being read. */
  parts: Anchored[];
  /** Whether a quantifier may follow. */
  repeatable: boolean;
}

type GroupOptions = Partial<Pick<Group, "atomic" | "look">>;

/** Groups that are refused, by what stands behind `(?`. */
const REFUSED_GROUPS: readonly (readonly [RegExp, string])[] = [
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

/** Lookaheads and lookbehinds of fewer characters that say the same are one. */
const MAX_KEY = 200;

const GROUP_NAME = /P?<[\p{ID_Start}$_][\p{ID_Continue}$]*>/uy;

/** Reads one pattern. */
export class RegexReader {
  readonly #scanner: RegexScanner;
  readonly #groups: Group[] = [];
  #group: Group;
  #flags = NO_FLAGS;
  /** Takes assertions as marks. Absent: anchors at the edges of texts have to do. */
  readonly #assertions: Assertions | undefined;
  /** Lookbehinds that are open. */
  #behind = 0;

  constructor(pattern: string, assertions?: Assertions) {
    this.#scanner = new RegexScanner(pattern);
    this.#assertions = assertions;
    this.#group = this.#makeGroup(0);
  }

  read(): Anchored {
    while (!this.#scanner.atEnd) this.#step();
    if (this.#groups.length > 0) {
      throw this.#scanner.malformed('a group begins and ")" is missing', this.#group.position);
    }
    return this.#finishGroup();
  }

  #makeGroup(position: number, { atomic = false, look }: GroupOptions = {}): Group {
    const flags = this.#flags;
    return { position, atomic, look, flags, options: [], parts: [], repeatable: false };
  }

  #finishGroup(): Anchored {
    spendEffort(GROUP_EFFORT);
    const { options, parts, atomic, position } = this.#group;
    const whole = alternate([...options, concatenate(parts)]);
    return atomic ? this.#commit(whole, position) : whole;
  }

  #commit(part: Anchored, position: number): Anchored {
    if (this.#behind > 0) {
      throw this.#scanner.unsupported(
        "the atomic group or possessive quantifier inside a lookbehind: dialects disagree on it",
        position,
      );
    }
    return commit(part, { position, effort: this.#scanner.effort });
  }

  /** @param repeatable Whether a quantifier may follow. Default for all but assertions. */
  #add(part: Anchored, repeatable = part.free !== undefined && part.isAssertion !== true): void {
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

  /** White space and comments of the flag `x`. */
  #skipVerbose(character: string): boolean {
    if (character === "#") this.#scanner.match(/[^\n]*/y);
    return character === "#" || /[ \t\n\r\v\f]/.test(character);
  }

  /** What stands for one character, or an anchor. */
  #readPart(character: string, position: number): Anchored {
    switch (character) {
      case "^":
        return this.#anchor("behind", this.#flags.multiline);
      case "$":
        return this.#anchor("ahead", this.#flags.multiline);
      case ".":
        return oneOf(this.#flags.dotAll ? ANY_CODE_POINT : NOT_LINE_BREAKS);
      case "[":
        return this.#readClass(position);
      case "\\":
        return this.#readEscape();
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

  /** @param onLine Whether a line break will do for the edge of the text. */
  #anchor(kind: Look["kind"], onLine: boolean): Anchored {
    if (this.#assertions !== undefined) {
      const points = onLine ? LINE_BREAKS : [];
      return assertion(this.#assertions.peek(`peek ${kind}`, points, true));
    }
    return kind === "behind"
      ? { start: ONLY_EMPTY, lineStart: onLine }
      : { end: ONLY_EMPTY, lineEnd: onLine };
  }

  /** `\b`, or `\B`: a word's character on one side and none, or also one, on the other. */
  #boundary(isInside: boolean): Anchored {
    if (this.#assertions === undefined) throw new AssertionMet();
    const words = shorthandSet("w", this.#flags.ignoreCase)!;
    const others = shorthandSet("W", this.#flags.ignoreCase)!;
    const side = (kind: Look["kind"], isWord: boolean) =>
      this.#assertions!.peek(`peek ${kind}`, isWord ? words : others, !isWord);
    const ways = [true, false].map((isWord) =>
      sequence([side("behind", isWord), side("ahead", isWord === isInside)]),
    );
    return assertion(choice(ways));
  }

  #readEscape(): Anchored {
    const scanner = this.#scanner;
    if (scanner.skip("A")) return this.#anchor("behind", false);
    if (scanner.match(/[Zz]/y) !== undefined) return this.#anchor("ahead", false);
    const boundary = scanner.match(/[bB]/y)?.[0];
    if (boundary !== undefined) return this.#boundary(boundary === "B");
    const value = readEscape(scanner, this.#flags.ignoreCase);
    return typeof value === "number" ? this.#literal(value) : oneOf(value);
  }

  #openGroup(position: number): void {
    const scanner = this.#scanner;
    if (!scanner.skip("?") || scanner.skip(":") || scanner.match(GROUP_NAME) !== undefined) {
      this.#enterGroup(position);
    } else if (scanner.skip(">")) {
      this.#enterGroup(position, { atomic: true });
    } else if (scanner.skip("#")) {
      const comment = scanner.match(/[^)]*\)/y);
      if (comment === undefined) throw scanner.malformed("a comment does not end", position);
    } else if (!this.#openLook(position)) {
      this.#refuseGroup(position);
      const flags = scanner.match(/(?!\))([A-Za-z]*)(?:-([A-Za-z]+))?([:)])/y);
      if (flags === undefined) {
        throw scanner.malformed('"(?" begins no group that is known', position);
      }
      this.#readFlags(flags, position);
    }
  }

  #openLook(position: number): boolean {
    const [, behind, sign] = this.#scanner.match(/(<?)([=!])/y) ?? [];
    if (sign === undefined) return false;
    if (this.#assertions === undefined) throw new AssertionMet();
    if (behind === "<") this.#behind += 1;
    const kind = behind === "<" ? "behind" : "ahead";
    this.#enterGroup(position, { look: { kind, negated: sign === "!" } });
    return true;
  }

  #enterGroup(position: number, options?: GroupOptions): void {
    this.#groups.push(this.#group);
    this.#group = this.#makeGroup(position, options);
  }

  #closeGroup(position: number): void {
    const outer = this.#groups.pop();
    if (outer === undefined) throw this.#scanner.malformed('")" closes no group', position);
    const part = this.#finishGroup();
    const { flags, look } = this.#group;
    this.#flags = flags;
    if (look !== undefined) {
      const mark = this.#closeLook(part, look);
      this.#group = outer;
      this.#add(mark);
      return;
    }
    this.#group = outer;
    this.#add(part, true);
  }

  #closeLook({ free }: Anchored, { kind, negated }: Pick<Look, "kind" | "negated">): Anchored {
    if (kind === "behind") this.#behind -= 1;
    const { position } = this.#group;
    const isShort = this.#scanner.position - position < MAX_KEY;
    const text = isShort ? this.#scanner.since(position) : `at ${position}`;
    const source = `${Object.values(this.#flags).join()} ${text}`;
    const look = { kind, negated, position };
    return assertion(this.#assertions!.look(look, { body: free?.expression, source }));
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
    else if (scanner.skip("+")) this.#add(this.#commit(repeated, position), false);
    else this.#add(repeated, false);
  }
}
