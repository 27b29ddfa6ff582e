import { describe, expect, test } from "vitest";
import {
  characters,
  type Grammar,
  grammarOf,
  NEVER,
  repeat,
  text,
} from "../../../src/grammar/expression.ts";
import { GrammarCompiler, type GrammarCompilerOptions } from "../../../src/grammar/grammar.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { MaskCache } from "../../../src/grammar/masks/mask_cache.ts";
import { randomSource } from "../samples/random_grammar.ts";
import { randomTokens, smallVocabulary } from "../samples/small_vocabulary.ts";

const vocabulary = smallVocabulary({ tokens: randomTokens(randomSource(1), 100) });

function compiler(options: Partial<GrammarCompilerOptions> = {}) {
  const read: string[] = [];
  const regex = (source: string): Grammar => {
    read.push(source);
    if (source === "(")
      throw new GrammarError("Cannot read the pattern: it ends early", { position: 1 });
    return source === "never" ? grammarOf(NEVER) : grammarOf(repeat(text(source)));
  };
  const frontEnds = { regex, ebnf: regex };
  return { read, grammars: new GrammarCompiler({ vocabulary, frontEnds, ...options }) };
}

describe("GrammarCompiler", () => {
  test("compiles a constraint once, by kind and source", () => {
    const { read, grammars } = compiler();
    const first = grammars.compile({ kind: "regex", source: "ab" });
    expect(grammars.compile({ kind: "regex", source: "ab" })).toBe(first);
    expect(grammars.compile({ kind: "ebnf", source: "ab" })).not.toBe(first);
    expect(read).toEqual(["ab", "ab"]);
    expect(first.accepts("abab")).toBe(true);
    expect(first.accepts("aba")).toBe(false);
    expect(grammars.size).toBe(2);
  });

  test("refuses a kind that it has no front end for, by name", () => {
    const { grammars } = compiler();
    const compile = () => grammars.compile({ kind: "json_schema", source: "{}" });
    expect(compile).toThrow(GrammarError);
    expect(compile).toThrow("json_schema");
  });

  test("hands on refusals and keeps nothing of them", () => {
    const { read, grammars } = compiler();
    for (let i = 0; i < 3; i++) {
      expect(() => grammars.compile({ kind: "regex", source: "(" })).toThrow("(position 1)");
      expect(() => grammars.compile({ kind: "regex", source: "never" })).toThrow("no text");
    }
    expect(read).toHaveLength(6);
    expect(grammars.size).toBe(0);
  });

  test("refuses a source that is too long", () => {
    const { read, grammars } = compiler({ maxSourceLength: 5 });
    expect(() => grammars.compile({ kind: "regex", source: "abcdef" })).toThrow("longer than 5");
    expect(read).toEqual([]);
  });

  test("forgets the grammars that were not used for the longest time", () => {
    const one = compiler().grammars.compile({ kind: "regex", source: "aa" }).bytes;
    const { read, grammars } = compiler({ maxGrammarBytes: 2.5 * one });
    const use = (source: string) => grammars.compile({ kind: "regex", source });
    for (const source of ["aa", "bb", "aa", "cc", "aa", "bb"]) use(source);
    expect(read).toEqual(["aa", "bb", "cc", "bb"]);
    expect(grammars.size).toBe(2);
    const kept = use("zz".repeat(1000));
    expect(kept.bytes).toBeGreaterThan(2.5 * one);
    expect(grammars.size).toBe(1);
  });

  test("GrammarError says where, in words and as data", () => {
    const position = new GrammarError("Cannot read the pattern: it ends early", { position: 7 });
    expect(position.message).toBe("Cannot read the pattern: it ends early (position 7)");
    expect([position.position, position.path, position.code]).toEqual([
      7,
      undefined,
      "invalid_request",
    ]);
    const path = new GrammarError("Cannot use minimum: it is no number", { path: "/properties/a" });
    expect(path.message).toBe("Cannot use minimum: it is no number (at /properties/a)");
    expect(new GrammarError("Cannot", { path: "" }).message).toBe("Cannot");
  });
});

describe("MaskCache", () => {
  test("keeps what was used last within its bytes", () => {
    const cache = new MaskCache(3000);
    const [a, b, c] = ["a", "b", "c"].map((value) => cache.add(value, 600));
    expect(cache.use(a)).toBe("a");
    cache.add("d", 600);
    expect([cache.use(a), cache.use(b), cache.use(c)]).toEqual(["a", undefined, "c"]);
    expect(cache.bytes).toBeLessThanOrEqual(3000);
    const large = cache.add("e", 5000);
    expect([cache.use(large), cache.use(a)]).toEqual(["e", undefined]);
    expect(cache.use(undefined)).toBeUndefined();
  });

  test("a small budget changes no mask", () => {
    const roomy = compiler();
    const tight = compiler({ maxMaskBytes: 1 });
    const frontEnds = { regex: () => grammarOf(repeat(characters([[0x61, 0x7a]]), { max: 9 })) };
    const matchers = [roomy, tight].map((_, i) =>
      new GrammarCompiler({ vocabulary, frontEnds, maxMaskBytes: i === 0 ? 2 ** 20 : 1 })
        .compile({ kind: "regex", source: "x" })
        .createMatcher(),
    );
    for (let step = 0; step < 9; step++) {
      const [a, b] = matchers.map((matcher) => {
        const words = new Uint32Array(vocabulary.words);
        matcher.mask(words);
        return words;
      });
      expect(a).toEqual(b);
      expect(matchers.map((matcher) => matcher.accept("a".charCodeAt(0)))).toEqual([true, true]);
    }
  });
});
