import { describe, expect, test } from "vitest";
import { automatonOf } from "../../../src/grammar/automaton/code_point_automaton.ts";
import { ANY_CODE_POINT, codePointsOf } from "../../../src/grammar/automaton/code_points.ts";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import type { ConfigurationLimits } from "../../../src/grammar/automaton/configuration_limits.ts";
import {
  type Configuration,
  Configurations,
} from "../../../src/grammar/automaton/configurations.ts";
import {
  characters,
  choice,
  EMPTY,
  type Expression,
  type Grammar,
  grammarOf,
  NEVER,
  optional,
  regular,
  repeat,
  rule,
  sequence,
  text,
} from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { ALPHABET, randomSource } from "../samples/random_grammar.ts";
import { matches } from "../samples/reference_matcher.ts";

const encoder = new TextEncoder();
const any = characters(ANY_CODE_POINT);
const ab = characters(codePointsOf("ab"));

function configurations(grammar: Grammar, limits?: ConfigurationLimits): Configurations {
  return new Configurations(compileAutomaton(grammar), limits);
}

function grammar(rules: Record<string, Expression>): Grammar {
  return { rules: new Map(Object.entries(rules)), root: Object.keys(rules)[0]! };
}

function follow(states: Configurations, value: string): Configuration | null {
  states.begin();
  return states.follow(states.start, encoder.encode(value));
}

const accepts = (states: Configurations, value: string) =>
  follow(states, value)?.accepting ?? false;

/** Whether some text leads from here to an end. */
function canFinish(states: Configurations, from: Configuration): boolean {
  const seen = new Set([from]);
  for (const at of seen) {
    if (at.accepting) return true;
    states.begin();
    for (let byteClass = 0; byteClass < states.automaton.classes.length; byteClass++) {
      const next = states.step(at, byteClass);
      if (next !== null) seen.add(next);
    }
    expect(seen.size).toBeLessThan(10_000);
  }
  return false;
}

/** Every text of at most so many characters of the alphabet. */
function allTexts(most: number): string[] {
  const texts = [""];
  for (let i = 0; i < texts.length; i++) {
    const value = texts[i]!;
    if (Array.from(value).length < most) texts.push(...ALPHABET.map((c) => value + c));
  }
  return texts;
}

describe("configurations", () => {
  const json = grammar({
    value: choice([rule("object"), rule("array"), rule("string"), text("true"), rule("number")]),
    object: sequence([text("{"), optional(rule("members")), text("}")]),
    members: sequence([rule("member"), repeat(sequence([text(","), rule("member")]))]),
    member: sequence([rule("string"), text(":"), rule("value")]),
    array: sequence([
      text("["),
      optional(sequence([rule("value"), repeat(sequence([text(","), rule("value")]))])),
      text("]"),
    ]),
    string: sequence([text('"'), repeat(characters([[0x61, 0x7a]])), text('"')]),
    number: repeat(characters([[0x30, 0x39]]), { min: 1 }),
  });

  test("a recursive grammar accepts its texts and nothing else", () => {
    const states = configurations(json);
    for (const yes of ["[]", "{}", '{"a":[1,{"b":true}],"":"c"}', "12", "[[[[[]]]]]"]) {
      expect(accepts(states, yes), yes).toBe(true);
    }
    for (const no of ["", "[", "[1,]", '{"a"}', "tru", "{}{}", "[[]", "]"]) {
      expect(accepts(states, no), no).toBe(false);
    }
    expect(follow(states, "[[[[")).not.toBeNull();
    expect(follow(states, "[}")).toBeNull();
  });

  test.each([1, 2, 3, 4, 5, 6])("random grammars agree with the reference (seed %i)", (seed) => {
    const random = randomSource(seed);
    const texts = allTexts(3);
    let compared = 0;
    for (let round = 0; round < 60; round++) {
      const made = random.grammar(1 + random.below(3));
      let states: Configurations;
      try {
        states = configurations(made);
      } catch (error) {
        expect(error).toBeInstanceOf(GrammarError);
        const { message } = error as GrammarError;
        if (message.includes("left recursion")) continue;
        expect(message).toContain("no text satisfies it");
        expect(texts.filter((value) => matches(made, value))).toEqual([]);
        continue;
      }
      compared += 1;
      for (const value of texts) {
        const at = follow(states, value);
        const expected = matches(made, value);
        expect(at?.accepting ?? false, `${JSON.stringify([...made.rules])} ${value}`).toBe(
          expected,
        );
        if (at !== null) expect(canFinish(states, at)).toBe(true);
      }
    }
    expect(compared).toBeGreaterThan(20);
  });

  test("what no finite text can complete is never entered", () => {
    const states = configurations(
      grammar({
        root: choice([rule("a"), sequence([text("ab"), optional(NEVER)])]),
        a: sequence([text("a"), rule("endless")]),
        endless: sequence([text("b"), choice([rule("endless"), rule("other")])]),
        other: sequence([text("c"), rule("endless")]),
      }),
    );
    expect(accepts(states, "ab")).toBe(true);
    expect(follow(states, "abb")).toBeNull();
    expect(follow(states, "abc")).toBeNull();
    const never = sequence([text("c".repeat(99)), NEVER]);
    const skipped = configurations(grammarOf(sequence([repeat(never, { max: 99 }), text("d")])));
    expect(accepts(skipped, "d")).toBe(true);
    expect(follow(skipped, "c")).toBeNull();
    const dead = grammar({ root: sequence([text("x"), rule("root")]) });
    expect(() => configurations(dead)).toThrow("no text satisfies it");
    expect(() => configurations(grammarOf(NEVER))).toThrow("no text satisfies it");
    expect(() => configurations(grammarOf(characters([])))).toThrow("no text satisfies it");
  });

  test("repeats count, written out or not, bounded or not", () => {
    for (const body of [text("ab"), sequence([text("a"), optional(text("b"))]), rule("abc")]) {
      for (const [min, max] of [
        [0, 3],
        [2, 2],
        [30, 70],
        [100, Infinity],
        [0, 1000],
      ] as const) {
        const states = configurations(
          grammar({ root: sequence([repeat(body, { min, max }), text("c")]), abc: text("abc") }),
        );
        const unit = body.kind === "rule" ? "abc" : "ab";
        for (const count of [0, 1, 2, 3, 4, 29, 30, 31, 70, 71, 99, 100, 101, 1000, 1001]) {
          const expected = count >= min && count <= max;
          expect(accepts(states, `${unit.repeat(count)}c`), `${count} in ${min},${max}`).toBe(
            expected,
          );
        }
      }
    }
  });

  test("any part of what is repeated may be left out", () => {
    const parts = sequence([optional(text("a")), repeat(text("b")), optional(text("c"))]);
    for (const max of [Infinity, 5, 500]) {
      const states = configurations(grammarOf(sequence([repeat(parts, { max }), text(".")])));
      for (const yes of ["", "a", "b", "c", "cba", "bca", "acbb"]) {
        expect(accepts(states, `${yes}.`)).toBe(true);
      }
      expect(accepts(states, `${"c".repeat(6)}.`)).toBe(max > 5);
    }
  });

  test("repeats of what may be empty go on and end", () => {
    const maybe = sequence([optional(text("a")), repeat(text("b"))]);
    const states = configurations(
      grammar({
        root: sequence([repeat(repeat(rule("maybe")), { min: 3, max: 500 }), text("c")]),
        maybe,
      }),
    );
    for (const yes of ["c", "ac", `${"ab".repeat(499)}c`, `${"ab".repeat(2000)}c`]) {
      expect(accepts(states, yes)).toBe(true);
    }
    const counted = configurations(
      grammar({
        root: sequence([repeat(rule("one"), { min: 3, max: 500 }), text("c")]),
        one: optional(ab),
      }),
    );
    expect(accepts(counted, "c")).toBe(true);
    expect(accepts(counted, `${"a".repeat(500)}c`)).toBe(true);
    expect(accepts(counted, `${"a".repeat(501)}c`)).toBe(false);
    expect(accepts(configurations(grammarOf(repeat(EMPTY, { min: 5 }))), "")).toBe(true);
    expect(accepts(configurations(grammarOf(repeat(NEVER))), "")).toBe(true);
  });

  test.each([
    ["an automaton", regular(automatonOf(repeat(ab)))],
    ["a repeat", repeat(ab)],
    ["a rule", rule("maybe")],
    ["parts", sequence([optional(ab), rule("maybe"), { kind: "text", text: "" }])],
    ["a choice", choice([ab, EMPTY, rule("maybe")])],
  ])("a round takes at least one byte: %s", (_, body) => {
    const made = grammar({
      root: repeat(body, { min: 5, max: 10_000 }),
      maybe: optional(text("ab")),
    });
    const states = configurations(made, { maxWork: 100 });
    for (const yes of ["", "a", "ab"])
      expect(accepts(states, yes)).toBe(yes !== "a" || body.kind !== "rule");
  });

  test("huge and nested bounds take little memory", () => {
    const huge = configurations(
      grammarOf(sequence([repeat(any, { max: 2 ** 31 - 1 }), text(".")])),
    );
    expect(accepts(huge, `${"é語a😀".repeat(5000)}.`)).toBe(true);
    const line = repeat(repeat(ab, { min: 1, max: 1000 }), { max: 1000 });
    const nested = configurations(grammarOf(line));
    expect(accepts(nested, "ab".repeat(3000))).toBe(true);
    expect(nested.automaton.nodes.length).toBeLessThan(20);
  });

  test("a covered thread is dropped", () => {
    const word = sequence([repeat(ab, { min: 1 }), optional(text("c"))]);
    const states = configurations(grammarOf(repeat(word, { max: 99 })));
    expect(follow(states, "ab".repeat(20))!.threads.length).toBeLessThan(4);
    expect(accepts(states, "ac".repeat(99))).toBe(true);
    expect(accepts(states, "ac".repeat(100))).toBe(false);
  });

  test("thousands of texts to choose from share their beginnings", () => {
    const texts = Array.from({ length: 20_000 }, (_, i) => `"item ${i.toString(7)} é"`);
    const options = [...texts, "", '"item', texts[5]!].map((value) => text(value));
    const states = configurations(grammarOf(sequence([choice(options), text("!")])));
    for (const yes of [texts[0], texts[19_999], "", '"item']) {
      expect(accepts(states, `${yes}!`)).toBe(true);
    }
    for (const no of ['"item ', '"item 7 é"', '"', "item"])
      expect(accepts(states, `${no}!`)).toBe(false);
    expect(follow(states, '"item 1')!.threads).toHaveLength(1);
    expect(states.automaton.nodes.length).toBeLessThan(6 * texts.length);
  });

  test("many optional parts in a row may be left out anywhere", () => {
    const names = Array.from({ length: 300 }, (_, i) => (i % 2 === 0 ? "a" : `b${i};`));
    const parts = names.map((name) => optional(text(name)));
    const states = configurations(grammarOf(sequence([...parts, text("!")])));
    for (const yes of ["!", "aa!", "b299;!", "ab7;ab297;a!", `${"a".repeat(150)}!`]) {
      expect(accepts(states, yes)).toBe(true);
    }
    for (const no of ["b7;b5;!", "b2;!", `${"a".repeat(151)}!`])
      expect(accepts(states, no)).toBe(false);
  });

  test("right recursion needs no stack", () => {
    const right = grammar({ root: sequence([ab, optional(rule("root"))]) });
    const states = configurations(right, { maxDepth: 4 });
    expect(accepts(states, "ab".repeat(1000))).toBe(true);
  });
});

describe("limits", () => {
  const nested = grammar({
    root: choice([sequence([text("("), rule("root"), text(")")]), text("x")]),
  });

  test("what nests deeper than the limit is not offered, and all that is offered can end", () => {
    const states = configurations(nested, { maxDepth: 10 });
    for (const depth of [0, 9, 10]) {
      expect(accepts(states, `${"(".repeat(depth)}x${")".repeat(depth)}`)).toBe(true);
    }
    const full = follow(states, "(".repeat(10))!;
    expect(states.onlyByte(full)).toBe("x".charCodeAt(0));
    expect(follow(states, "(".repeat(11))).toBeNull();
  });

  test("a grammar whose every text is too deep is refused", () => {
    const deep = Object.fromEntries(
      Array.from({ length: 20 }, (_, i) => [`r${i}`, sequence([rule(`r${i + 1}`), text("x")])]),
    );
    const made = grammar({ ...deep, r20: text("x") });
    expect(() => configurations(made, { maxDepth: 19 })).toThrow("nests deeper than 19");
    expect(accepts(configurations(made, { maxDepth: 20 }), "x".repeat(21))).toBe(true);
  });

  test.each([
    ["a rule", rule("b")],
    ["a counted repeat", repeat(rule("b"), { max: 100 })],
  ])("%s is not begun where what comes behind it would be too deep", (_, begin) => {
    const made = grammar({
      root: choice([text("x"), sequence([begin, rule("deep"), text(".")])]),
      b: sequence([text("b"), optional(text("!"))]),
      deep: sequence([rule("deeper"), text(".")]),
      deeper: sequence([text("d"), rule("deepest"), text(".")]),
      deepest: text("e"),
    });
    expect(accepts(configurations(made, { maxDepth: 3 }), "bde...")).toBe(true);
    const shallow = configurations(made, { maxDepth: 2 });
    expect(accepts(shallow, "x")).toBe(true);
    expect(follow(shallow, "b")).toBeNull();
    expect(follow(shallow, "d")).toBeNull();
  });

  test.each([1, 2, 3])("random grammars with little depth have no dead ends (seed %i)", (seed) => {
    const random = randomSource(50 + seed);
    const texts = allTexts(3);
    let compared = 0;
    for (let round = 0; round < 60; round++) {
      const made = random.grammar(3);
      let states: Configurations;
      try {
        states = configurations(made, { maxDepth: 1 + random.below(4) });
      } catch (error) {
        expect(error).toBeInstanceOf(GrammarError);
        continue;
      }
      compared += 1;
      const full = configurations(made);
      for (const value of texts) {
        const at = follow(states, value);
        if (at?.accepting) expect(accepts(full, value)).toBe(true);
        if (at !== null) expect(canFinish(states, at)).toBe(true);
      }
    }
    expect(compared).toBeGreaterThan(10);
  });

  test("a depth of 100,000 works where it is allowed", () => {
    const limits = { maxDepth: 100_000, maxBytes: 2 ** 30, maxWork: 2_000_000 };
    const states = configurations(nested, limits);
    expect(accepts(states, `${"(".repeat(100_000)}x${")".repeat(100_000)}`)).toBe(true);
  });

  test("100,000 nested expressions and rules compile", () => {
    let deep: Expression = text("x");
    for (let i = 0; i < 100_000; i++) deep = { kind: "choice", options: [deep] };
    expect(accepts(configurations(grammarOf(deep)), "x")).toBe(true);
    const rules = Array.from({ length: 50_001 }, (_, i): [string, Expression] => [
      `r${i}`,
      i === 50_000 ? text("x") : rule(`r${i + 1}`),
    ]);
    const chain = configurations({ rules: new Map(rules), root: "r0" });
    expect(accepts(chain, "x")).toBe(true);
  });

  test("too many readings, too much work and too many nodes are refused", () => {
    const far = sequence([repeat(ab), text("a"), repeat(ab, { min: 100, max: 100 })]);
    const threads = configurations(grammarOf(far), { maxThreads: 30 });
    expect(() => follow(threads, "a".repeat(100))).toThrow("more than 30 ways");
    const work = configurations(grammarOf(far), { maxWork: 1000 });
    expect(() => follow(work, "a".repeat(100))).toThrow("too much work");
    const long = grammarOf(text("x".repeat(1001)));
    expect(() => compileAutomaton(long, { maxNodes: 1000 })).toThrow("more than 1000 nodes");
    let twice: Expression = NEVER;
    for (let i = 0; i < 60; i++) twice = { kind: "choice", options: [twice, twice] };
    const doubled = grammarOf(choice([twice, text("x")]));
    expect(() => compileAutomaton(doubled, { maxNodes: 1000 })).toThrow("more than 1000 nodes");
  });

  test("memory beyond the budget is forgotten, and nothing changes by that", () => {
    const states = configurations(nested, { maxBytes: 20_000 });
    states.begin();
    let at: Configuration | null = states.start;
    const bytesSeen: number[] = [];
    for (const byte of encoder.encode(`${"(".repeat(500)}x${")".repeat(500)}`)) {
      states.begin();
      bytesSeen.push(states.bytes);
      at = at && states.step(at, states.automaton.classOf[byte]!);
    }
    expect(at?.accepting).toBe(true);
    expect(Math.max(...bytesSeen)).toBeLessThan(25_000);
    expect(at?.threads).toEqual([]);
  });

  test("what was there before and what came after memory was forgotten stay apart", () => {
    const states = configurations(grammarOf(choice([text("abc"), text("xyz")])), { maxBytes: 1 });
    const before = follow(states, "a")!;
    states.begin();
    const after = states.follow(states.start, encoder.encode("xy"))!;
    const ended = states.follow(before, encoder.encode("bc"));
    expect(ended?.accepting).toBe(true);
    expect(states.onlyByte(after)).toBe("z".charCodeAt(0));
    expect(states.onlyByte(states.follow(before, encoder.encode("b"))!)).toBe("c".charCodeAt(0));
  });
});
