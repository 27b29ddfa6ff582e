/**
 * Random walks through constraints of several notations: at every step the mask says of each token
 * what `accept` says, no walk comes to a dead end, and what is complete is what RegExp accepts.
 */
import { expect, test } from "vitest";
import { frontEnds } from "../../../src/grammar/constraints/backends.ts";
import { type ConstraintKind, GrammarCompiler } from "../../../src/grammar/grammar.ts";
import { randomSource } from "../samples/random_grammar.ts";
import { smallVocabulary, tokensOf } from "../samples/small_vocabulary.ts";

const WALKS = process.env.WISP_TEST_FULL === "1" ? 2000 : 30;
const STEPS = 12;

/** Bytes, words that patterns look for, and characters cut in two. */
const TOKENS = [
  ...Array.from({ length: 128 }, (_, byte) => String.fromCharCode(byte)),
  ..."foo,bar,fo,ob,o b,a1,1b,B2,ab,aa,a,\n,é,é-, foo ,x,,,>,</,</f>,<f=a>,<f=,+(,1+".split(","),
  Uint8Array.of(0xc3),
  Uint8Array.of(0xa9),
];
const END = TOKENS.length;
const vocabulary = smallVocabulary({
  tokens: [...TOKENS, "<end>"],
  special: [END],
  endTokens: [END],
});
const compiler = new GrammarCompiler({ vocabulary, frontEnds: frontEnds() });

const CALL = { begin: "<f=a>", content: { type: "regex", pattern: "(?!0)[0-9]+" }, end: "</f>" };
const format = (value: unknown) => JSON.stringify({ format: value });

test.each<[ConstraintKind, string, RegExp]>([
  ["regex", "(?:(?!foo|bar)[a-z ])*", /^(?:(?!foo|bar)[a-z ])*$/u],
  ["regex", "(?:\\bfoo\\b|[ob -])+", /^(?:\bfoo\b|[ob -])+$/u],
  ["regex", "(?=.*[a-z])(?=.*[A-Z])(?=.*\\d)\\w{3,}", /^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)\w{3,}$/u],
  ["regex", "(?m)(?:^a+$|\\n(?!\\n))*", /^(?:(?<=^|\n)a+(?=$|\n)|\n(?!\n))*$/u],
  ["regex", "(?:é|a|-)*(?<!a-|éé)(?<=[^])", /^(?:é|a|-)*(?<!a-|éé)(?<=.)$/u],
  ["ebnf", 'root ::= root "+" t | t\nt ::= t t | "(" t ")" | [0-9]', /^[0-9()+]+$/],
  ["ebnf", 'root ::= x "b"?\nx ::= root "a" | "b"? root "1" | "x"?', /^[bx]*[x1ab]*$/],
  [
    "ebnf",
    '%ignore " "\nstart: sum\nsum: sum "+" A | A\nA: /[a-b]+1?/',
    /^[ab]+1? *(?:\+ *[ab]+1? *)*$/,
  ],
  [
    "structural_tag",
    format({ type: "triggered_tags", triggers: ["<f="], tags: [CALL] }),
    /^(?:(?!<f=)[\s\S]|<f=a>(?!0)[0-9]+<\/f>)*$/u,
  ],
  [
    "structural_tag",
    format({
      type: "tag",
      begin: "<",
      content: { type: "any_text", excludes: ["foo"] },
      end: "</",
    }),
    /^<(?:(?!foo|<\/)[\s\S])*<\/$/u,
  ],
])("%s %s", (kind, source, expected) => {
  const { below } = randomSource(source.length);
  const mask = new Uint32Array(vocabulary.words);
  let complete = 0;
  for (let walk = 0; walk < WALKS; walk++) {
    const matcher = compiler.compile({ kind, source }).createMatcher();
    const bytes: number[] = [];
    for (let step = 0; step < STEPS; step++) {
      matcher.mask(mask);
      const allowed = tokensOf(mask);
      const accepted = Array.from({ length: vocabulary.size }, (_, id) => id).filter((id) =>
        matcher.fork().accept(id),
      );
      expect(allowed).toEqual(accepted);
      expect(allowed.length, Buffer.from(bytes).toString()).toBeGreaterThan(0);
      expect(allowed.includes(END)).toBe(matcher.isAccepting);
      if (matcher.isAccepting) {
        complete += 1;
        expect(Buffer.from(bytes).toString()).toMatch(expected);
      }
      const others = allowed.filter((id) => id !== END);
      if (others.length === 0) break;
      const token = others[below(others.length)]!;
      matcher.accept(token);
      bytes.push(...vocabulary.bytes(token)!);
    }
  }
  expect(complete).toBeGreaterThan(0);
});
