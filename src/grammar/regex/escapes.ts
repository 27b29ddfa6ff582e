/**
 * What a backslash and the characters behind it mean in a regular expression, inside a class and
 * outside of one.
 *
 * @module
 */

import {
  type CodePointRange,
  type CodePoints,
  codePoints,
  invert,
  unite,
} from "../automaton/code_points.ts";
import { GrammarError } from "../grammar_error.ts";
import { TextScanner } from "../text_scanner.ts";
import { propertySet, shorthandSet, withOtherCases } from "./character_sets.ts";
import { Effort } from "./effort.ts";

/** Of a property that no pattern has used before, and of finding the other cases of a class. */
const PROPERTY_EFFORT = 50_000;
const CASES_EFFORT = 200;

/** A place in a pattern. */
export class RegexScanner extends TextScanner {
  readonly effort = new Effort();
  /** Sets of the properties seen so far, by how they are written and read. */
  readonly properties = new Map<string, CodePoints>();

  /** @param what Completes "Cannot read the regular expression: ". */
  malformed(what: string, position = this.position): GrammarError {
    return new GrammarError(`Cannot read the regular expression: ${what}`, { position });
  }

  /** @param what Completes "Cannot use ": what it is, a colon, and why or what to write instead. */
  unsupported(what: string, position: number): GrammarError {
    return new GrammarError(`Cannot use ${what}`, { position });
  }
}

const CONTROL_LETTERS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13 };

/**
 * Java's names of POSIX classes, which ECMAScript calls errors, and what to write for their ASCII.
 * They are not taken as such, as other languages give some of these names all of Unicode.
 */
const POSIX_PROPERTIES: ReadonlyMap<string, string> = new Map([
  ["Alnum", "A-Za-z0-9"],
  ["Blank", " \\t"],
  ["Cntrl", "\\x00-\\x1f\\x7f"],
  ["Digit", "0-9"],
  ["Graph", "!-~"],
  ["Print", " -~"],
  ["Punct", "!-\\/:-@\\[-`{-~"],
  ["Space", "\\t-\\r "],
  ["XDigit", "0-9A-Fa-f"],
]);

/** A code point, or a set for what stands for several characters. */
export type Escape = number | CodePoints;

/**
 * Reads on from behind the backslash.
 *
 * @throws {GrammarError} for what is no character, and for letters that mean nothing.
 */
export function readEscape(scanner: RegexScanner, ignoreCase: boolean): Escape {
  const position = scanner.position - 1;
  const character = scanner.next();
  if (character === "") throw scanner.malformed("it ends in a backslash", position);
  if (!/[0-9A-Za-z]/.test(character)) return character.codePointAt(0)!;
  const control = CONTROL_LETTERS[character];
  if (control !== undefined) return control;
  const set = shorthandSet(character, ignoreCase);
  if (set !== undefined) return set;
  switch (character) {
    case "p":
    case "P":
      return readProperty(scanner, { position, negated: character === "P", ignoreCase });
    case "u":
      return readUnicode(scanner, position);
    case "x":
      return readHex(scanner, { position, expression: /([0-9A-Fa-f]{2})/y, name: "\\xHH" });
    case "U":
      return readHex(scanner, { position, expression: /([0-9A-Fa-f]{8})/y, name: "\\UHHHHHHHH" });
    case "c":
      return readControl(scanner, position);
    case "0":
      if (!/[0-9]/.test(scanner.peek())) return 0;
      throw scanner.unsupported('octal escapes: write "\\xHH"', position);
    case "k":
    case "g":
      throw scanner.unsupported(
        `the backreference "\\${character}": what it repeats is known only once it is written`,
        position,
      );
    default:
      if (/[1-9]/.test(character)) {
        throw scanner.unsupported(
          `the backreference "\\${character}": what it repeats is known only once it is written`,
          position,
        );
      }
      throw scanner.unsupported(`the escape "\\${character}": it has no one meaning`, position);
  }
}

function incomplete(scanner: RegexScanner, name: string, position: number): GrammarError {
  return scanner.malformed(`"${name}" is incomplete`, position);
}

function readControl(scanner: RegexScanner, position: number): number {
  const letter = scanner.match(/[A-Za-z]/y)?.[0];
  if (letter === undefined) throw incomplete(scanner, "\\c", position);
  return letter.charCodeAt(0) % 32;
}

interface HexEscape {
  readonly position: number;
  readonly expression: RegExp;
  readonly name: string;
}

function readHex(scanner: RegexScanner, { position, expression, name }: HexEscape): number {
  const digits = scanner.match(expression)?.[1];
  if (digits === undefined) throw incomplete(scanner, name, position);
  const point = Number.parseInt(digits, 16);
  if (point > 0x10ffff) throw scanner.malformed(`U+${digits} is not a code point`, position);
  return point;
}

/** `\u{H}`, `\uHHHH`, or two of the latter that are a surrogate pair. */
function readUnicode(scanner: RegexScanner, position: number): number {
  const expression = scanner.peek() === "{" ? /\{([0-9A-Fa-f]+)\}/y : /([0-9A-Fa-f]{4})/y;
  const unit = readHex(scanner, { position, expression, name: "\\uHHHH" });
  if (unit < 0xd800 || unit >= 0xdc00 || expression.source.startsWith("\\{")) return unit;
  const low = scanner.match(/\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})/y)?.[1];
  if (low === undefined) return unit;
  return String.fromCharCode(unit, Number.parseInt(low, 16)).codePointAt(0)!;
}

function readProperty(
  scanner: RegexScanner,
  options: { readonly position: number; readonly negated: boolean; readonly ignoreCase: boolean },
): CodePoints {
  const { position, negated, ignoreCase } = options;
  const name = scanner.match(/\{([0-9A-Za-z_]+(?:=[0-9A-Za-z_]+)?)\}/y)?.[1];
  if (name === undefined) throw scanner.malformed('"\\p" needs a property: "\\p{L}"', position);
  const key = `${negated}${ignoreCase}${name}`;
  const known = scanner.properties.get(key);
  if (known !== undefined) return known;
  scanner.effort.spend(PROPERTY_EFFORT, position);
  const set = propertySet(name);
  if (set === undefined) {
    const other = POSIX_PROPERTIES.get(name);
    const instead = other === undefined ? "" : `, write "[${other}]"`;
    throw scanner.unsupported(
      `the Unicode property "${name}": Unicode has none of this name${instead}`,
      position,
    );
  }
  const chosen = negated ? invert(set) : set;
  const whole = ignoreCase ? withOtherCases(chosen) : chosen;
  scanner.properties.set(key, whole);
  return whole;
}

/** Reads on from behind a `[`. */
export function readClass(scanner: RegexScanner, ignoreCase: boolean): CodePoints {
  const open = scanner.position - 1;
  const negated = scanner.skip("^");
  const ranges: CodePointRange[] = [];
  const sets = new Set<CodePoints>();
  const add = (member: Escape): void => {
    if (typeof member === "number") ranges.push([member, member]);
    else sets.add(member);
  };
  while (!scanner.skip("]")) {
    if (scanner.atEnd) throw scanner.malformed('a class begins and "]" is missing', open);
    const position = scanner.position;
    const first = readMember(scanner, ignoreCase);
    if (!scanner.sees("-") || scanner.sees("-]")) {
      add(first);
      continue;
    }
    scanner.next();
    const last = readMember(scanner, ignoreCase);
    if (typeof first !== "number" || typeof last !== "number") {
      // Beside a set the dash is only a dash.
      for (const member of [first, 0x2d, last]) add(member);
    } else if (first <= last) {
      ranges.push([first, last]);
    } else {
      throw scanner.malformed(`the range "${scanner.since(position)}" is out of order`, position);
    }
  }
  const set = uniteMembers(scanner, ranges, [...sets]);
  if (ignoreCase) scanner.effort.spend(CASES_EFFORT, open);
  const whole = ignoreCase ? withOtherCases(set) : set;
  return negated ? invert(whole) : whole;
}

function uniteMembers(
  scanner: RegexScanner,
  ranges: readonly CodePointRange[],
  sets: readonly CodePoints[],
): CodePoints {
  if (sets.length === 0) return codePoints(ranges);
  if (sets.length === 1 && ranges.length === 0) return sets[0]!;
  const count = sets.reduce((sum, set) => sum + set.length, 0);
  scanner.effort.spend(count, scanner.position);
  return unite([ranges, ...sets]);
}

function readMember(scanner: RegexScanner, ignoreCase: boolean): Escape {
  const { position } = scanner;
  if (scanner.match(/\[(?::\^?[a-zA-Z]*:|=[^\]]*=|\.[^\]]*\.)\]/y) !== undefined) {
    const name = scanner.since(position);
    throw scanner.unsupported(`the POSIX class "${name}": write its characters`, position);
  }
  const operator = scanner.match(/(?:&&|--|~~|\|\|)\[/y)?.[0].slice(0, 2);
  if (operator !== undefined) {
    throw scanner.unsupported(
      `the set operation "${operator}" inside a class: write the characters`,
      position,
    );
  }
  const character = scanner.next();
  if (character !== "\\") return character === "" ? [] : character.codePointAt(0)!;
  if (scanner.skip("b")) return 8;
  return readEscape(scanner, ignoreCase);
}
