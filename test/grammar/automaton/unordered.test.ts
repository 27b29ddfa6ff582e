/** Lists whose parts come in any order: the automaton beside a matcher that tries everything. */
import { expect, test } from "vitest";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { Configurations } from "../../../src/grammar/automaton/configurations.ts";
import { findDepthNeeds } from "../../../src/grammar/automaton/depth_needs.ts";
import {
  choice,
  type Expression,
  type Grammar,
  grammarOf,
  NEVER,
  repeat,
  rule,
  sequence,
  text,
  type UnorderedExpression,
} from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { type RandomSource, randomSource } from "../samples/random_grammar.ts";
import { matches } from "../samples/reference_matcher.ts";
import { acceptorOf } from "../samples/schema_acceptance.ts";

const LETTERS = ["a", "b", "c", "d"] as const;

function randomList({ below }: RandomSource, depth: number): UnorderedExpression {
  const body = (letter: string): Expression => {
    const first = text(letter);
    if (depth > 0 && below(4) === 0) {
      return sequence([first, text("("), randomList(source(below), depth - 1), text(")")]);
    }
    return [first, first, sequence([first, rule("rest")]), sequence([first, NEVER])][below(4)]!;
  };
  const parts = LETTERS.slice(0, 1 + below(LETTERS.length)).map((letter) => {
    const isRequired = below(3) === 0;
    return { body: body(letter), isRequired, isRepeatable: !isRequired && below(3) === 0 };
  });
  const required = parts.filter((part) => part.isRequired).length;
  const min = 1 + below(3);
  const max = [Number.POSITIVE_INFINITY, Math.max(min, required) + below(3)][below(2)]!;
  return { kind: "unordered", parts, separator: text(","), min, max };
}

function source(below: RandomSource["below"]): RandomSource {
  return { ...randomSource(below(2 ** 30)) };
}

function textOf(random: RandomSource): string {
  const words = ["a", "b", "c", "d", "a1", "b1", "c1", "a(b)", "a(b,a)", "b(a)"];
  return Array.from({ length: random.below(5) }, () => words[random.below(words.length)]!).join(
    ",",
  );
}

test("a list in any order takes what a matcher that tries everything takes", () => {
  let taken = 0;
  for (let seed = 0; seed < 600; seed++) {
    const random = randomSource(seed);
    const list = randomList(random, 1);
    const grammar: Grammar = {
      rules: new Map<string, Expression>([
        ["root", choice([list, text("!")])],
        ["rest", repeat(text("1"), { max: 1 })],
      ]),
      root: "root",
    };
    const accept = acceptorOf(grammar);
    for (let i = 0; i < 25; i++) {
      const sample = textOf(random);
      const isTaken = accept(sample);
      expect([seed, sample, isTaken]).toEqual([seed, sample, matches(grammar, sample)]);
      if (isTaken) taken += 1;
    }
  }
  expect(taken).toBeGreaterThan(100);
});

test("no way into a list ends where it cannot be completed", () => {
  for (let seed = 0; seed < 300; seed++) {
    const random = randomSource(seed);
    const grammar = {
      rules: new Map<string, Expression>([
        ["root", choice([randomList(random, 2), text("!")])],
        ["rest", repeat(text("1"), { max: 1 })],
      ]),
      root: "root",
    };
    const configurations = new Configurations(compileAutomaton(grammar), { maxDepth: 4 });
    let at = configurations.start;
    for (let i = 0; i < 40; i++) {
      const { classes } = configurations.automaton;
      const ways = Array.from(classes.keys(), (c) => configurations.step(at, c)).filter(
        (next) => next !== null,
      );
      expect(ways.length > 0 || at.accepting, `seed ${seed}`).toBe(true);
      const next = ways[random.below(ways.length)];
      if (next === undefined) break;
      at = next;
    }
  }
});

test("a list whose required part no text satisfies is satisfied by none", () => {
  const parts = [
    { body: text("a"), isRequired: false, isRepeatable: true },
    { body: sequence([text("b"), NEVER]), isRequired: true, isRepeatable: false },
  ];
  const list = { kind: "unordered", parts, separator: text(","), min: 1, max: 9 } as const;
  expect(() => compileAutomaton(grammarOf(list))).toThrow(GrammarError);
});

test("hundreds of parts take no more nodes than their texts", () => {
  const parts = Array.from({ length: 400 }, (_, i) => ({
    body: text(`key ${i}`),
    isRequired: i % 2 === 0,
    isRepeatable: false,
  }));
  const list = { kind: "unordered", parts, separator: text(","), min: 1, max: 400 } as const;
  const { nodes } = compileAutomaton(grammarOf(list));
  expect(nodes.length).toBeLessThan(400 * 10);
  const accept = acceptorOf(grammarOf(list));
  const required = parts.flatMap((part, i) => (part.isRequired ? [`key ${i}`] : []));
  expect(accept(required.toReversed().join())).toBe(true);
  expect(accept(required.slice(1).join())).toBe(false);
  expect(accept([...required, required[0]].join())).toBe(false);
});

test("depths of a list's parts are found by looking at each part a few times", () => {
  const parts = Array.from({ length: 500 }, (_, i) => ({
    body: text(`${i}`),
    isRequired: i % 2 === 0,
    isRepeatable: false,
  }));
  const list = { kind: "unordered", parts, separator: text(","), min: 1, max: 500 } as const;
  const { nodes, repeats, lists } = compileAutomaton(grammarOf(list));
  let looks = 0;
  const counted = lists.map((one) => ({
    ...one,
    parts: one.parts.map((part) => ({
      ...part,
      get body() {
        looks += 1;
        return part.body;
      },
    })),
  }));
  const unpacked = Array.from({ length: nodes.length }, (_, node) => nodes.at(node));
  const { listNeeds } = findDepthNeeds(unpacked, repeats, counted);
  expect([...listNeeds]).toEqual([1]);
  expect(looks).toBeLessThan(5 * parts.length);
});
