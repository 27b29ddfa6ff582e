import { describe, expect, test } from "vitest";
import { automatonOf } from "../../../src/grammar/automaton/code_point_automaton.ts";
import { ANY_CODE_POINT } from "../../../src/grammar/automaton/code_points.ts";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import {
  type Configuration,
  Configurations,
} from "../../../src/grammar/automaton/configurations.ts";
import {
  bytes,
  characters,
  type Expression,
  type Grammar,
  grammarOf,
  regular,
  sequence,
  text,
} from "../../../src/grammar/expression.ts";

const encoder = new TextEncoder();
const any = characters(ANY_CODE_POINT);

function configurations(grammar: Grammar): Configurations {
  return new Configurations(compileAutomaton(grammar));
}

describe("classes in UTF-8", () => {
  /** Whether exactly the code points of the set are accepted, tried one by one. */
  function expectExact(expression: Expression, isMember: (point: number) => boolean): void {
    const states = configurations(grammarOf(expression));
    const { classOf } = states.automaton;
    states.begin();
    const wrong: number[] = [];
    const bytes = new Uint8Array(4);
    for (let point = 0; point <= 0x10ffff; point++) {
      if (point >= 0xd800 && point <= 0xdfff) continue;
      let at: Configuration | null = states.start;
      const { written } = encoder.encodeInto(String.fromCodePoint(point), bytes);
      for (let i = 0; i < written && at !== null; i++) at = states.step(at, classOf[bytes[i]!]!);
      if ((at?.accepting ?? false) !== isMember(point)) wrong.push(point);
    }
    expect(wrong).toEqual([]);
  }

  test("any character is every code point", () => {
    expectExact(any, () => true);
  });

  test("ranges across every length are exact", () => {
    const ranges = [
      [0x41, 0x5a],
      [0x7f, 0x80],
      [0x4e0, 0x4ff],
      [0x7ff, 0x801],
      [0xd7fe, 0xe002],
      [0xffff, 0x10000],
      [0x1f5ff, 0x20001],
      [0x10ffff, 0x10ffff],
    ] as const;
    const isMember = (point: number) => ranges.some(([a, b]) => a <= point && point <= b);
    expectExact(characters(ranges), isMember);
    expectExact(regular(automatonOf(characters(ranges))), isMember);
  });

  test("many small ranges are exact", () => {
    const letters = /\p{L}/u;
    const isLetter = (point: number) => letters.test(String.fromCodePoint(point));
    const points = Array.from({ length: 0x110000 }, (_, i) => i).filter(isLetter);
    expectExact(characters(points.map((point) => [point, point] as const)), isLetter);
  });

  test("no byte sequence that is not UTF-8 is accepted", () => {
    const states = configurations(grammarOf(any));
    const { classOf } = states.automaton;
    const count = (at: Configuration, left: number): number => {
      let accepted = at.accepting ? 1 : 0;
      for (let byte = 0; byte < 256 && left > 0; byte++) {
        const next = states.step(at, classOf[byte]!);
        if (next !== null) accepted += count(next, left - 1);
      }
      return accepted;
    };
    states.begin();
    expect(count(states.start, 4)).toBe(0x110000 - 0x800);
  });

  test("bytes are taken as they are", () => {
    const states = configurations(grammarOf(sequence([bytes([0xff, 0xff], [0, 3]), text("é")])));
    for (const [first, expected] of [
      [0xff, true],
      [3, true],
      [4, false],
    ] as const) {
      states.begin();
      const at = states.follow(states.start, Uint8Array.of(first, 0xc3, 0xa9));
      expect(at?.accepting ?? false).toBe(expected);
    }
  });
});
