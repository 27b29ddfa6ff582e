/**
 * Random regular expressions, in two spellings of one meaning, and texts that come close to them.
 *
 * @module
 */
import { randomSource } from "./random_grammar.ts";

/** Letters with several cases, line breaks, characters of one to four bytes. */
const ALPHABET = Array.from("abkKſK1_- .]éÉßẞ語😀𐐀𐐨\n\r\u2028");
const SHORTHANDS = "\\d \\D \\w \\W \\s \\S".split(" ");
const PROPERTIES = "\\p{Lu} \\P{Lu} \\p{L} \\P{L} \\p{Script=Han}".split(" ");

export interface RandomPattern {
  /** For `RegExp` with `flags`. */
  readonly javascript: string;
  readonly flags: string;
  /** The same, written as other dialects would. */
  readonly pattern: string;
  /** A text that matches the whole but for its anchors, as it is or somewhat changed. */
  text(): string;
}

interface Part {
  readonly javascript: string;
  readonly pattern: string;
  sample(): string;
}

export interface PatternOptions {
  /** Whether there may be `^` and `$`. */
  readonly anchors?: boolean;
  /** Whether there may be what depends on the version of Unicode: properties and `i`. */
  readonly tables?: boolean;
  /** Whether there may be atomic groups and possessive quantifiers. */
  readonly atomic?: boolean;
  /** Whether there may be lookahead, lookbehind, word boundaries and the flag `m`. */
  readonly looks?: boolean;
}

export function randomPatterns(
  seed: number,
  { anchors = false, tables = false, atomic = false, looks = false }: PatternOptions,
): { next(): RandomPattern } {
  const classes = [...SHORTHANDS, ...(tables ? PROPERTIES : [])];
  const { below } = randomSource(seed);
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!;
  let flags = "u";

  /** A character as itself or escaped. */
  const literal = (character: string): Part => {
    const hex = character.codePointAt(0)!.toString(16);
    const escaped = /[.\]]/.test(character) ? `\\${character}` : character;
    const javascript = below(6) === 0 ? `\\u{${hex}}` : escaped;
    const python = `\\U${hex.padStart(8, "0")}`;
    const loose = /[-_ ]/.test(character)
      ? `\\${character}`
      : /[\]]/.test(character)
        ? "]"
        : python;
    const pattern = below(4) === 0 ? loose : javascript;
    return { javascript, pattern, sample: () => character };
  };

  const members = (source: string): readonly string[] => {
    const expression = new RegExp(source, flags);
    return ALPHABET.filter((character) => expression.exec(character)?.[0] === character);
  };

  const set = (): Part => {
    const list = Array.from({ length: 1 + below(3) }, () => {
      const [first, last] = [pick(ALPHABET), pick(ALPHABET)].map((c) => c.codePointAt(0)!);
      const spell = (point: number) => `\\u{${point.toString(16)}}`;
      switch (below(3)) {
        case 0:
          return pick(classes);
        case 1:
          return spell(first!);
        default:
          return `${spell(Math.min(first!, last!))}-${spell(Math.max(first!, last!))}`;
      }
    });
    const source = `[${below(3) === 0 ? "^" : ""}${list.join("")}]`;
    return ofClass(source);
  };

  const ofClass = (source: string): Part => {
    const choices = members(source);
    const sample = () => (choices.length === 0 ? "" : pick(choices));
    return { javascript: source, pattern: source, sample };
  };

  const atom = (): Part => {
    switch (below(8)) {
      case 0:
        return ofClass(".");
      case 1:
        return ofClass(pick(classes));
      case 2:
      case 3:
        return set();
      case 4: {
        if (!anchors) return literal(pick(ALPHABET));
        const isStart = below(2) === 0;
        const javascript = isStart ? "^" : "$";
        if (below(2) === 0) return { javascript, pattern: javascript, sample: () => "" };
        // Whatever the flags, these do not mean a line.
        const edge = isStart ? "(?<![^])" : "(?![^])";
        const pattern = isStart ? "\\A" : pick(["\\Z", "\\z"]);
        return { javascript: looks ? edge : javascript, pattern, sample: () => "" };
      }
      default:
        return literal(pick(ALPHABET));
    }
  };

  const group = (body: Part): Part => {
    const open = pick(["(?:", "(", `(?<g${below(1e9)}>`, `(?P<g${below(1e9)}>`, "(?#note)(?:"]);
    return {
      javascript: `(?:${body.javascript})`,
      pattern: `${open}${body.pattern})`,
      sample: body.sample,
    };
  };

  /** JavaScript does not go back into a lookahead either. */
  const asAtomic = (javascript: string): string => {
    const name = `atomic${below(1e9)}`;
    return `(?:(?=(?<${name}>${javascript}))\\k<${name}>)`;
  };

  const atomicGroup = (body: Part): Part => ({
    javascript: asAtomic(body.javascript),
    pattern: `(?>${body.pattern})`,
    sample: body.sample,
  });

  const look = (body: Part): Part => {
    const open = pick(["(?=", "(?!", "(?<=", "(?<!"]);
    return {
      javascript: `${open}${body.javascript})`,
      pattern: `${open}${body.pattern})`,
      sample: () => "",
    };
  };

  const repeated = (body: Part): Part => {
    const min = below(3);
    const max = below(2) === 0 ? min + below(3) : min + 3;
    const [javascript, pattern] = pick([
      [`{${min},${max}}`, min === 0 ? `{,${max}}` : `{${min},${max}}`],
      [`{${min},${max}}?`, `{${min},${max}}?`],
      [`{${min},}`, `{${min},}`],
      [`{${min}}`, `{${min}}`],
      ["*", "*"],
      ["*?", "*?"],
      ["+", "+"],
      ["?", "?"],
    ] as const);
    const sample = () =>
      Array.from({ length: Math.min(max, 1 + below(3)) }, () => body.sample()).join("");
    const inner = `(?:${body.javascript})`;
    const ours = group(body).pattern + pick(["", "", "", "(?#note)"]);
    if (atomic && !javascript.endsWith("?") && below(2) === 0) {
      return { javascript: asAtomic(inner + javascript), pattern: `${ours}${pattern}+`, sample };
    }
    return { javascript: inner + javascript, pattern: ours + pattern, sample };
  };

  const expression = (depth: number): Part => {
    if (depth === 0) return atom();
    if (atomic && below(6) === 0) return atomicGroup(expression(depth - 1));
    if (looks && below(3) === 0) {
      if (below(2) === 0) return look(expression(depth - 1));
      const boundary = pick(["\\b", "\\B"]);
      return { javascript: boundary, pattern: boundary, sample: () => "" };
    }
    switch (below(4)) {
      case 0: {
        const options = Array.from({ length: 2 + below(2) }, () => expression(depth - 1));
        return group({
          javascript: options.map(({ javascript }) => javascript).join("|"),
          pattern: options.map(({ pattern }) => pattern).join("|"),
          sample: () => pick(options).sample(),
        });
      }
      case 1:
        return repeated(expression(depth - 1));
      default: {
        const parts = Array.from({ length: below(4) }, () => expression(depth - 1));
        return {
          javascript: parts.map(({ javascript }) => javascript).join(""),
          pattern: parts.map(({ pattern }) => pattern).join(""),
          sample: () => parts.map((part) => part.sample()).join(""),
        };
      }
    }
  };

  const change = (text: string): string => {
    const characters = Array.from(text).slice(0, 12);
    for (let changes = below(3); changes > 0; changes--) {
      const at = below(characters.length + 1);
      characters.splice(at, below(2), ...(below(2) === 0 ? [pick(ALPHABET)] : []));
    }
    return characters.join("");
  };

  return {
    next: () => {
      flags = `u${tables && below(3) === 0 ? "i" : ""}${below(3) === 0 ? "s" : ""}`;
      if (looks && below(3) === 0) flags += "m";
      const body = expression(3);
      const ours = flags.slice(1);
      const scoped = below(2) === 0 ? `(?${ours}:${body.pattern})` : `(?${ours})${body.pattern}`;
      return {
        javascript: body.javascript,
        flags,
        pattern: ours === "" ? body.pattern : scoped,
        text: () => change(body.sample()),
      };
    },
  };
}
