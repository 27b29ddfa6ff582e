import { DFA, JS, NFA } from "refa";
import { describe, expect, test } from "vitest";
import { automatonOf } from "../../../src/grammar/automaton/code_point_automaton.ts";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { Configurations } from "../../../src/grammar/automaton/configurations.ts";
import {
  accepts,
  complement,
  intersection,
  isEmpty,
} from "../../../src/grammar/automaton/regular.ts";
import { limitEffort, MAX_EFFORT } from "../../../src/grammar/effort.ts";
import {
  type CodePointAutomaton,
  type CodePointEdge,
  type Expression,
  grammarOf,
} from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { parseRegex } from "../../../src/grammar/regex/parse_regex.ts";
import { randomSource } from "../samples/random_grammar.ts";
import { randomPatterns } from "../samples/random_pattern.ts";

const PATTERNS = process.env.WISP_TEST_FULL === "1" ? 10_000 : 240;
const TEXTS = 8;
/** In the long campaign, with their texts, a million pairs. */
const LOOK_PATTERNS = process.env.WISP_TEST_FULL === "1" ? 64_000 : 400;

/** Whether the byte automaton that constrains tokens accepts the text. */
function acceptsBytes(states: Configurations, text: string): boolean {
  states.begin();
  return states.follow(states.start, new TextEncoder().encode(text))?.accepting ?? false;
}

/** Undefined when nothing satisfies the pattern. */
function configurationsOf(expression: Expression): Configurations | undefined {
  try {
    return new Configurations(compileAutomaton(grammarOf(expression)));
  } catch (error) {
    if (error instanceof GrammarError && error.message.includes("no text satisfies")) return;
    throw error;
  }
}

/** Undefined when an atomic group of the pattern would change its language. */
function readOrRefuse(pattern: string) {
  try {
    return {
      whole: automatonOf(parseRegex(pattern)),
      search: automatonOf(parseRegex(pattern, { match: "search" })),
    };
  } catch (error) {
    if (error instanceof GrammarError && error.message.includes("atomic group")) return undefined;
    throw error;
  }
}

/** Undefined for what takes more than one constraint may, or looks ahead inside a lookbehind. */
function withinLimits(read: () => Expression): Expression | undefined {
  try {
    return limitEffort(MAX_EFFORT, read);
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    expect(error.message).toMatch(/inside the lookbehind|too much work|too many states|more than/);
    return undefined;
  }
}

/** Where a match can begin. Asked for any, V8 also finds some inside a surrogate pair. */
function* places(text: string): Generator<number> {
  let at = 0;
  for (const character of text) {
    yield at;
    at += character.length;
  }
  yield at;
}

function matchesAt(sticky: RegExp, place: number, text: string): boolean {
  sticky.lastIndex = place;
  return sticky.test(text);
}

/** What refa makes of the pattern. */
function refaAutomaton(source: string, flags: string): CodePointAutomaton {
  const { expression, maxCharacter } = JS.Parser.fromLiteral({ source, flags }).parse();
  const dfa = DFA.fromFA(NFA.fromRegex(expression, { maxCharacter }));
  const nodes = [dfa.initial];
  const numbers = new Map([[dfa.initial, 0]]);
  const states = [];
  for (let i = 0; i < nodes.length; i++) {
    const edges: CodePointEdge[] = [];
    for (const [{ min, max }, target] of nodes[i]!.out) {
      if (!numbers.has(target)) numbers.set(target, nodes.push(target) - 1);
      // No text of ours has half a surrogate pair.
      const parts = [
        [min, Math.min(max, 0xd7ff)],
        [Math.max(min, 0xe000), max],
      ] as const;
      for (const [first, last] of parts) {
        if (first <= last) edges.push({ first, last, target: numbers.get(target)! });
      }
    }
    states.push({ accepting: dfa.finals.has(nodes[i]!), edges });
  }
  return { states };
}

function expectSame(a: CodePointAutomaton, b: CodePointAutomaton, name: string): void {
  expect(isEmpty(intersection(a, complement(b))), `${name}: too much`).toBe(true);
  expect(isEmpty(intersection(b, complement(a))), `${name}: too little`).toBe(true);
}

describe("parseRegex on random patterns", () => {
  test.each([1, 2, 3, 4])("agrees with RegExp on texts (seed %i)", (seed) => {
    const random = randomPatterns(seed, { anchors: true, tables: true });
    let matches = 0;
    for (let round = 0; round < PATTERNS / 4; round++) {
      const pattern = random.next();
      const { javascript, flags } = pattern;
      const whole = new RegExp(`^(?:${javascript})$`, flags);
      const search = new RegExp(javascript, flags);
      const expressions = {
        whole: parseRegex(pattern.pattern),
        search: parseRegex(pattern.pattern, { match: "search" }),
      };
      const ours = {
        whole: automatonOf(expressions.whole),
        search: automatonOf(expressions.search),
      };
      const bytes = round % 4 === 0 ? configurationsOf(expressions.whole) : undefined;
      for (let i = 0; i < TEXTS; i++) {
        const text = pattern.text();
        const name = `${JSON.stringify(pattern.pattern)} (/${javascript}/${flags}) on ${JSON.stringify(text)}`;
        const expected = whole.test(text);
        if (expected) matches += 1;
        expect(accepts(ours.whole, text), name).toBe(expected);
        expect(accepts(ours.search, text), `search ${name}`).toBe(search.test(text));
        if (bytes !== undefined) expect(acceptsBytes(bytes, text), name).toBe(expected);
      }
    }
    expect(matches).toBeGreaterThan((PATTERNS / 4) * TEXTS * 0.1);
  });

  test.each([1, 2, 3, 4])("agrees with RegExp on lookaround (seed %i)", (seed) => {
    const random = randomPatterns(100 + seed, { anchors: true, tables: true, looks: true });
    let [taken, matches] = [0, 0];
    for (let round = 0; round < LOOK_PATTERNS / 4; round++) {
      const { javascript, flags, pattern, text } = random.next();
      const ours = {
        whole: withinLimits(() => parseRegex(pattern)),
        search: withinLimits(() => parseRegex(pattern, { match: "search" })),
      };
      if (ours.whole === undefined || ours.search === undefined) continue;
      taken += 1;
      const automata = { whole: automatonOf(ours.whole), search: automatonOf(ours.search) };
      const bytes = round % 8 === 0 ? configurationsOf(ours.search) : undefined;
      // Lines of the flag are the pattern's: what stands around it must look at the whole text.
      const whole = new RegExp(`(?:${javascript})(?![^])`, `${flags}y`);
      const search = new RegExp(javascript, `${flags}y`);
      for (let i = 0; i < 2 * TEXTS; i++) {
        const value = text();
        const name = `${JSON.stringify(pattern)} (/${javascript}/${flags}) on ${JSON.stringify(value)}`;
        const expected = [...places(value)].some((place) => matchesAt(search, place, value));
        if (expected) matches += 1;
        expect(accepts(automata.whole, value), name).toBe(matchesAt(whole, 0, value));
        expect(accepts(automata.search, value), `search ${name}`).toBe(expected);
        if (bytes !== undefined) expect(acceptsBytes(bytes, value), name).toBe(expected);
      }
    }
    expect(taken).toBeGreaterThan((LOOK_PATTERNS / 4) * 0.9);
    expect(matches).toBeGreaterThan(taken * TEXTS * 0.1);
  });

  test("has the language that refa finds", () => {
    const random = randomPatterns(99, {});
    for (let round = 0; round < PATTERNS / 4; round++) {
      const { javascript, flags, pattern } = random.next();
      const name = `${JSON.stringify(pattern)} (/${javascript}/${flags})`;
      expectSame(automatonOf(parseRegex(pattern)), refaAutomaton(javascript, flags), name);
    }
  });

  test("takes atomic groups and possessive quantifiers as RegExp would, or refuses them", () => {
    const random = randomPatterns(7, { anchors: true, atomic: true });
    let taken = 0;
    for (let round = 0; round < PATTERNS; round++) {
      const { javascript, flags, pattern, text } = random.next();
      if (!/\(\?>|[*+?}]\+/.test(pattern)) continue;
      const ours = readOrRefuse(pattern);
      if (ours === undefined) continue;
      taken += 1;
      const whole = new RegExp(`^(?:${javascript})$`, flags);
      const search = new RegExp(javascript, flags);
      for (let i = 0; i < 2 * TEXTS; i++) {
        const value = text();
        const name = `${JSON.stringify(pattern)} on ${JSON.stringify(value)}`;
        expect(accepts(ours.whole, value), name).toBe(whole.test(value));
        expect(accepts(ours.search, value), `search ${name}`).toBe(search.test(value));
      }
    }
    expect(taken).toBeGreaterThan(PATTERNS / 10);
  });

  test("any text that RegExp takes with the flag u is taken as RegExp does, or refused", () => {
    const { below, text } = randomSource(21);
    const pieces = Array.from("ab()[]{}|*+?^$\\\\.,-012:=!<>PkdWsbBxu#&~");
    pieces.push("(?:", "(?<n>", "\\w", "\\x41", "[^", "{1,2}", "\\u{61}", "\\p{L}", "a-b", ")*");
    let taken = 0;
    for (let round = 0; round < 30 * PATTERNS; round++) {
      const length = 1 + below(9);
      const source = Array.from({ length }, () => pieces[below(pieces.length)]).join("");
      const expected = tryRegExp(source);
      const ours = tryParse(source, expected !== undefined);
      if (expected === undefined || ours === undefined) continue;
      taken += 1;
      for (let i = 0; i < 3; i++) {
        const value = text(4).replaceAll("é", "1");
        const name = `${JSON.stringify(source)} on ${JSON.stringify(value)}`;
        const matches = [...places(value)].some((place) => matchesAt(expected, place, value));
        expect(accepts(ours, value), name).toBe(matches);
      }
    }
    expect(taken).toBeGreaterThan(PATTERNS / 2);
  });
});

function tryRegExp(source: string): RegExp | undefined {
  try {
    return new RegExp(source, "uy");
  } catch {
    return undefined;
  }
}

/**
 * Undefined when the pattern is refused.
 *
 * @param isValid Whether it may not be called malformed.
 */
function tryParse(source: string, isValid: boolean): CodePointAutomaton | undefined {
  try {
    return automatonOf(parseRegex(source, { match: "search" }));
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    if (isValid) expect(error.message, source).toContain("Cannot use");
    return undefined;
  }
}
