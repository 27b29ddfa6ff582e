import { describe, expect, test } from "vitest";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import type { ConfigurationLimits } from "../../../src/grammar/automaton/configuration_limits.ts";
import {
  type Configuration,
  Configurations,
} from "../../../src/grammar/automaton/configurations.ts";
import {
  choice,
  type Expression,
  type Grammar,
  grammarOf,
  repeat,
  rule,
  sequence,
  text,
} from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { GrammarVocabulary } from "../../../src/grammar/masks/grammar_vocabulary.ts";
import { MaskCache } from "../../../src/grammar/masks/mask_cache.ts";
import { TokenMasks } from "../../../src/grammar/masks/token_masks.ts";
import { TokenTrie } from "../../../src/grammar/masks/token_trie.ts";
import { createTokenizer } from "../../../src/text/tokenizer.ts";
import { hasSharedData, sharedJson, skipNote } from "../../text/shared_data.ts";
import { type RandomSource, randomSource } from "../samples/random_grammar.ts";
import { any, json, longString, person, uuid } from "../samples/sample_grammars.ts";
import {
  randomTokens,
  smallVocabulary,
  tokensByStepping,
  tokensOf,
} from "../samples/small_vocabulary.ts";

const encoder = new TextEncoder();
/** Random grammars a seed. */
const ROUNDS = process.env.WISP_TEST_FULL === "1" ? 1000 : 40;

class Masked {
  readonly configurations: Configurations;
  readonly masks: TokenMasks;
  readonly cache = new MaskCache(2 ** 30);
  readonly vocabulary: GrammarVocabulary;

  constructor(grammar: Grammar, vocabulary: GrammarVocabulary, limits?: ConfigurationLimits) {
    this.vocabulary = vocabulary;
    this.configurations = new Configurations(compileAutomaton(grammar), {
      ...limits,
      horizons: vocabulary.horizons,
    });
    const { configurations, cache } = this;
    this.masks = new TokenMasks({ configurations, vocabulary, cache });
  }

  tokens(configuration: Configuration): number[] {
    this.configurations.begin();
    const making = this.masks.make(configuration);
    for (;;) {
      const { done, value } = making.next();
      if (done === true) return tokensOf(value);
    }
  }

  /** Compares masks with single tokens on random walks through the grammar, token by token. */
  expectExact(random: RandomSource, { walks, steps }: { walks: number; steps: number }): void {
    for (let walk = 0; walk < walks; walk++) {
      let at = this.configurations.start;
      for (let step = 0; step < steps; step++) {
        const tokens = this.tokens(at);
        expect(tokens).toEqual(tokensByStepping(this.vocabulary, this.configurations, at));
        const texts = tokens.filter((token) => !this.vocabulary.isEnd(token));
        if (texts.length === 0) break;
        const bytes = this.vocabulary.bytes(texts[random.below(texts.length)]!)!;
        at = this.configurations.follow(at, bytes)!;
      }
    }
  }
}

describe("TokenTrie", () => {
  /** Bytes of every token, and that the nodes are in order. */
  function tokensIn(trie: TokenTrie): Map<number, string> {
    const found = new Map<number, string>();
    const path: number[] = [];
    for (let node = 0; node < trie.size; node++) {
      const depth = trie.depths[node]!;
      expect(depth).toBeLessThanOrEqual(path.length + 1);
      path.length = depth - 1;
      path.push(trie.bytes[node]!);
      const token = trie.tokens[node]!;
      const ids = token >= 0 ? [token] : token === -1 ? [] : trie.several[-2 - token]!;
      for (const id of ids) found.set(id, path.join());
      const end = trie.ends[node]!;
      expect(trie.depths.subarray(node + 1, end).every((inside) => inside > depth)).toBe(true);
      if (end < trie.size) expect(trie.depths[end]).toBeLessThanOrEqual(depth);
      if (end === node + 1) expect(ids).not.toEqual([]);
    }
    return found;
  }

  test("holds every token at the end of its bytes, in depth-first order", () => {
    const tokens = randomTokens(randomSource(3), 500);
    const trie = TokenTrie.of([...tokens.entries(), [9999, new Uint8Array(0)]]);
    expect(tokensIn(trie)).toEqual(new Map(tokens.map((bytes, id) => [id, bytes.join()])));
    expect(trie.several.length).toBeGreaterThan(0);
    expect(trie.maxDepth).toBe(Math.max(...tokens.map(({ length }) => length)));
  });

  test("ofLengths holds the tokens of those lengths and no other nodes", () => {
    const tokens = randomTokens(randomSource(4), 500);
    const trie = TokenTrie.of(tokens.entries());
    for (const [first, last] of [
      [1, 5],
      [6, 99],
      [3, 3],
      [40, 50],
    ] as const) {
      const kept = [...tokens.entries()].filter(
        ([, { length }]) => length >= first && length <= last,
      );
      const part = trie.ofLengths(first, last);
      expect(tokensIn(part)).toEqual(new Map(kept.map(([id, bytes]) => [id, bytes.join()])));
      expect(part.maxDepth).toBe(Math.max(0, ...kept.map(([, { length }]) => length)));
    }
  });

  test("without tokens has no nodes", () => {
    expect(TokenTrie.of([]).size).toBe(0);
  });
});

describe("TokenMasks", () => {
  test("special, empty and absent tokens are never allowed, end tokens where the text may end", () => {
    const vocabulary = smallVocabulary({
      tokens: ["a", "aa", "<s>", "", "</s>", "a", "b", "ab"],
      special: [2],
      endTokens: [4, 9],
      size: 40,
    });
    const masked = new Masked(grammarOf(repeat(text("a"), { min: 2, max: 3 })), vocabulary);
    const { configurations } = masked;
    expect(masked.tokens(configurations.start)).toEqual([0, 1, 5]);
    const two = configurations.follow(configurations.start, encoder.encode("aa"))!;
    expect(masked.tokens(two)).toEqual([0, 4, 5, 9]);
    const three = configurations.follow(two, encoder.encode("a"))!;
    expect(masked.tokens(three)).toEqual([4, 9]);
    expect(vocabulary.words).toBe(2);
  });

  test("an end token that the vocabulary does not have is refused", () => {
    expect(() => smallVocabulary({ tokens: ["a"], endTokens: [1] })).toThrow("token 1");
  });

  test.each([1, 2, 3, 4])("random grammars: masks are what single tokens say (seed %i)", (seed) => {
    const random = randomSource(100 + seed);
    let compared = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const vocabulary = smallVocabulary({
        tokens: randomTokens(random, 100),
        special: [300],
        endTokens: [random.below(256)],
        horizon: 1 + random.below(6),
      });
      let masked: Masked;
      try {
        const maxDepth = random.below(3) === 0 ? 1000 : 1 + random.below(5);
        masked = new Masked(random.grammar(3), vocabulary, { maxDepth });
      } catch (error) {
        expect(error).toBeInstanceOf(GrammarError);
        continue;
      }
      compared += 1;
      masked.expectExact(random, { walks: 2, steps: 6 });
    }
    expect(compared).toBeGreaterThan(10);
  });

  test.each([
    ["JSON", json],
    ["an object", person],
    ["a bounded string", longString],
    ["a UUID", uuid],
  ])("%s: masks are what single tokens say", (_, grammar) => {
    const random = randomSource(5);
    const pieces = ['"', '":', '",', "{", '{"', "}", '"}', "[", "]", '"]', ",", ' "', "\\", "\\u"];
    const words = ["name", '", "city": "', "true", "12", ".5", "e-7", "00ff", '\\"', "\\n", "red"];
    const tokens = [...pieces, ...words, ...randomTokens(random, 200), 'x", "city": "y', '"}]}]'];
    const vocabulary = smallVocabulary({ tokens, endTokens: [0], horizon: 4 });
    new Masked(grammar, vocabulary).expectExact(random, { walks: 6, steps: 25 });
  });

  test("a bounded count has masks of its own only near its end", () => {
    const runs = Array.from({ length: 24 }, (_, i) => "a".repeat(i + 1));
    const tokens = [...runs, ...randomTokens(randomSource(2), 50)];
    const vocabulary = smallVocabulary({ tokens, horizon: 4 });
    const masked = new Masked(
      grammarOf(sequence([repeat(any, { max: 500 }), text(".")])),
      vocabulary,
    );
    const { configurations, cache } = masked;
    const before: number[] = [];
    let at = configurations.start;
    for (let i = 0; i < 500; i++) {
      const tokens = masked.tokens(at);
      before.push(cache.bytes);
      if (i > 450) expect(tokens).toEqual(tokensByStepping(vocabulary, configurations, at));
      at = configurations.follow(at, encoder.encode("x"))!;
    }
    const longest = vocabulary.whole.maxDepth;
    expect(longest).toBeGreaterThan(vocabulary.short.maxDepth);
    expect(before[500 - longest - 2]).toBe(before[2]);
    const perMask = vocabulary.words * 4;
    expect(before[499]! - before[500 - longest]!).toBeGreaterThan((longest - 2) * perMask);
  });

  const list = sequence([text("["), repeat(rule("list")), text("]")]);
  const deep = Object.fromEntries(
    Array.from({ length: 9 }, (_, i) => [
      `r${i}`,
      sequence([text("d"), rule(`r${i + 1}`), text("e")]),
    ]),
  );

  test.each<[string, Record<string, Expression>]>([
    ["by calls", { list }],
    [
      "by what follows calls",
      {
        list: choice([list, sequence([rule("b"), rule("r0")])]),
        b: text("bb"),
        ...deep,
        r9: text("d"),
      },
    ],
    [
      "by what follows a byte",
      { list: choice([list, sequence([text("b"), rule("r0")])]), ...deep, r9: text("d") },
    ],
  ])("depth that runs out inside a token is seen: %s", (_, rules) => {
    const grammar: Grammar = { root: "list", rules: new Map(Object.entries(rules)) };
    const mixes = [
      { longest: 2, behind: ["b"] },
      { longest: 9, behind: ["b", "bb", "bd"] },
    ];
    for (const { longest, behind } of mixes) {
      const runs = Array.from({ length: longest }, (_, i) => "[".repeat(i + 1));
      const mixed = runs.flatMap((run) => behind.map((end) => run + end));
      const tokens = [...runs, ...behind, ...mixed, "]", "[]", "[[]]", "[][[]]"];
      const vocabulary = smallVocabulary({ tokens });
      for (let maxDepth = 1; maxDepth < 16; maxDepth++) {
        const masked = new Masked(grammar, vocabulary, { maxDepth });
        const { configurations } = masked;
        let at: Configuration | null = configurations.start;
        for (; at !== null; at = configurations.follow(at, encoder.encode("["))) {
          expect(masked.tokens(at)).toEqual(tokensByStepping(vocabulary, configurations, at));
        }
      }
    }
  });
});

describe.skipIf(!hasSharedData)(`TokenMasks, published vocabularies${skipNote}`, () => {
  const texts: readonly (readonly [string, Grammar, string])[] = [
    ["JSON", json, '{"a": [1.5, true, {"b\\u00e9": "é語😀 text"}], "c": null}'],
    ["an object", person, '{"name": "Zoé Ångström", "city": "東京", "age": 42, "colour": "red'],
    ["a bounded string", longString, '"The quick brown fox jumps over the lazy dog"'],
    ["a UUID", uuid, "123e4567-e89b-12d3-a456-426614174000"],
  ];

  test.each(["gpt-2", "deepseek-llm"])("%s: masks are what single tokens say", (name) => {
    const tokenizer = createTokenizer(sharedJson(`tokenizers/${name}/tokenizer.json`));
    const vocabulary = new GrammarVocabulary(tokenizer.vocabulary, { endTokens: [0] });
    for (const [title, grammar, value] of texts) {
      const masked = new Masked(grammar, vocabulary);
      let at = masked.configurations.start;
      const ids = tokenizer.encode(value);
      for (const [i, id] of ids.entries()) {
        const tokens = masked.tokens(at);
        expect(tokens.includes(id), `${title}, token ${i}`).toBe(true);
        // Each comparison follows every token of the vocabulary on its own.
        if (i % 16 === 2) {
          const expected = tokensByStepping(vocabulary, masked.configurations, at);
          expect(tokens, `${title}, token ${i}`).toEqual(expected);
        }
        at = masked.configurations.follow(at, vocabulary.bytes(id)!)!;
      }
    }
  });
});
