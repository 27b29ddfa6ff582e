import { describe, expect, test } from "vitest";
import {
  characters,
  choice,
  type Grammar,
  grammarOf,
  optional,
  repeat,
  rule,
  sequence,
  text,
} from "../../../src/grammar/expression.ts";
import { compileGrammar, type GrammarLimits } from "../../../src/grammar/grammar.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import type { GrammarVocabulary } from "../../../src/grammar/masks/grammar_vocabulary.ts";
import { MaskCache } from "../../../src/grammar/masks/mask_cache.ts";
import type { GrammarMatcher } from "../../../src/grammar/matcher.ts";
import { randomSource } from "../samples/random_grammar.ts";
import { json, person } from "../samples/sample_grammars.ts";
import { randomTokens, smallVocabulary, tokensOf } from "../samples/small_vocabulary.ts";

const END = 0;
const SPECIAL = 1;
/** Token of each byte. */
const BYTE = 2;

function byteVocabulary(furtherTokens: number): GrammarVocabulary {
  const tokens = ["</s>", "<s>", ...randomTokens(randomSource(1), furtherTokens)];
  return smallVocabulary({ tokens, special: [END, SPECIAL], endTokens: [END] });
}

const vocabulary = byteVocabulary(200);

function matcher(grammar: Grammar, limits?: GrammarLimits): GrammarMatcher {
  const cache = new MaskCache(2 ** 20);
  return compileGrammar(grammar, { vocabulary, cache, limits: limits ?? {} }).createMatcher();
}

function acceptText(sequence: GrammarMatcher, value: string): boolean {
  return [...new TextEncoder().encode(value)].every((byte) => sequence.accept(BYTE + byte));
}

function allowed(sequence: GrammarMatcher): number[] {
  const words = new Uint32Array(vocabulary.words).fill(0xffffffff);
  sequence.mask(words);
  return tokensOf(words);
}

const yes = choice([text("yes"), text("yeah")]);

describe("GrammarMatcher", () => {
  test("accept follows the grammar and refuses what it does not allow", () => {
    const one = matcher(grammarOf(sequence([yes, optional(text("!"))])));
    expect(one.accept(BYTE + "n".charCodeAt(0))).toBe(false);
    expect(acceptText(one, "yes")).toBe(true);
    expect([one.isAccepting, one.mustEnd, one.isFinished, one.length]).toEqual([
      true,
      false,
      false,
      3,
    ]);
    expect(one.accept(SPECIAL)).toBe(false);
    expect(one.accept(99_999)).toBe(false);
    expect(acceptText(one, "!")).toBe(true);
    expect([one.isAccepting, one.mustEnd, one.isFinished, one.length]).toEqual([
      true,
      true,
      false,
      4,
    ]);
    expect(one.accept(END)).toBe(true);
    expect([one.isFinished, one.length]).toEqual([true, 5]);
    expect(one.accept(END)).toBe(false);
    expect(allowed(one)).toEqual([]);
    expect(one.forcedText()).toBe("");
  });

  test("an end token is refused while the text is not complete", () => {
    const one = matcher(grammarOf(yes));
    expect(one.accept(END)).toBe(false);
    acceptText(one, "ye");
    expect(one.accept(END)).toBe(false);
    expect(allowed(one)).not.toContain(END);
    acceptText(one, "s");
    expect(allowed(one)).toEqual([END]);
  });

  test("mask and accept agree on every token", () => {
    const random = randomSource(11);
    for (const grammar of [json, person]) {
      const one = matcher(grammar);
      for (let step = 0; step < 60 && !one.isFinished; step++) {
        const tokens = allowed(one);
        for (let token = 0; token < vocabulary.size; token++) {
          const probe = one.fork();
          expect(probe.accept(token)).toBe(tokens.includes(token));
        }
        one.accept(tokens[random.below(tokens.length)]!);
      }
    }
  });

  test("rollback takes back tokens, the end too", () => {
    const random = randomSource(12);
    const one = matcher(json);
    const masks: number[][] = [];
    while (!one.isFinished && one.length < 80) {
      masks.push(allowed(one));
      one.accept(masks.at(-1)![random.below(masks.at(-1)!.length)]!);
    }
    while (one.length > 0) {
      const count = Math.min(one.length, random.below(4));
      one.rollback(count);
      expect(one.isFinished).toBe(false || count === 0);
      if (one.length < masks.length) expect(allowed(one)).toEqual(masks[one.length]);
      if (count === 0) one.rollback(1);
    }
    expect(() => one.rollback(1)).toThrow(RangeError);
    expect(() => one.rollback(-1)).toThrow(RangeError);
  });

  test("rollback of an end token alone leaves the text", () => {
    const one = matcher(grammarOf(yes));
    acceptText(one, "yes");
    one.accept(END);
    one.rollback(1);
    expect([one.isFinished, one.isAccepting, one.length]).toEqual([false, true, 3]);
    one.accept(END);
    one.rollback(2);
    expect([one.isFinished, one.length]).toEqual([false, 2]);
    expect(acceptText(one, "ah")).toBe(true);
  });

  test("fork goes its own way", () => {
    const one = matcher(grammarOf(yes));
    acceptText(one, "ye");
    const other = one.fork();
    acceptText(one, "s");
    expect(acceptText(other, "ah")).toBe(true);
    expect([one.isAccepting, other.isAccepting]).toEqual([true, true]);
    expect(one.accept(END)).toBe(true);
    expect(other.isFinished).toBe(false);
    expect(one.fork().isFinished).toBe(true);
  });

  test("forcedText is what must follow, in whole characters", () => {
    const tail = choice([text("é!"), text("è?")]);
    const one = matcher(grammarOf(sequence([text('{"naïve": '), tail])));
    expect(one.forcedText()).toBe('{"naïve": ');
    expect(one.length).toBe(0);
    acceptText(one, '{"naïve": è');
    expect(one.forcedText()).toBe("?");
    acceptText(one, "?");
    expect(one.forcedText()).toBe("");
    expect(matcher(grammarOf(sequence([text("a"), optional(text("bc"))]))).forcedText()).toBe("a");
    expect(matcher(grammarOf(characters([[0x61, 0x61]]))).forcedText()).toBe("a");
    expect(matcher(grammarOf(repeat(text("ab"), { min: 9000 }))).forcedText()).toHaveLength(4096);
  });

  describe("prepareMask", () => {
    const large = byteVocabulary(30_000);
    const anything = grammarOf(repeat(characters([[0, 0x10ffff]]), { max: 100 }));
    const create = (grammar: Grammar, limits: GrammarLimits = {}) =>
      compileGrammar(grammar, {
        vocabulary: large,
        cache: new MaskCache(2 ** 24),
        limits,
      }).createMatcher();
    const maskOf = (one: GrammarMatcher) => {
      const words = new Uint32Array(large.words);
      one.mask(words);
      return words;
    };

    test("works in pieces", () => {
      const one = create(anything);
      let turns = 0;
      while (!one.prepareMask(0)) turns += 1;
      expect(turns).toBeGreaterThan(2);
      expect(one.prepareMask(0)).toBe(true);
      expect(tokensOf(maskOf(one)).length).toBeGreaterThan(10_000);
    });

    test("sequences of one grammar may take turns", () => {
      const one = create(anything);
      acceptText(one, "a".repeat(95));
      const other = one.fork();
      acceptText(other, "é");
      for (let done = false; !done; ) {
        const first = one.prepareMask(0);
        done = other.prepareMask(0) && first;
      }
      const [again, further] = [create(anything), create(anything)];
      acceptText(again, "b".repeat(95));
      acceptText(further, "b".repeat(96));
      expect(maskOf(one)).toEqual(maskOf(again));
      expect(maskOf(other)).toEqual(maskOf(further));
      expect(maskOf(one)).not.toEqual(maskOf(other));
    });

    test("begins anew when the sequence has moved", () => {
      const one = create(anything);
      acceptText(one, "a".repeat(85));
      expect(one.prepareMask(0)).toBe(false);
      acceptText(one, "a");
      const moved = maskOf(one);
      one.rollback(3);
      expect(one.prepareMask(0)).toBe(false);
      one.rollback(1);
      const back = maskOf(one);
      const fresh = create(anything);
      acceptText(fresh, "a".repeat(82));
      expect(back).toEqual(maskOf(fresh));
      acceptText(fresh, "a".repeat(4));
      expect(moved).toEqual(maskOf(fresh));
    });

    test("throws again after it has thrown on the way", () => {
      // Where all of plain text leads on, one reading is enough.
      const most = characters([
        [0, 0x7d],
        [0x7f, 0x10ffff],
      ]);
      const anyText = repeat(most);
      const sevenMore = repeat(most, { min: 7, max: 7 });
      // Larger bytes are followed first, so the many readings are met late.
      const other = sequence([characters([[0x62, 0x10ffff]]), anyText]);
      const one = create(grammarOf(choice([other, sequence([text("a"), anyText, sevenMore])])), {
        maxThreads: 6,
      });
      expect(one.prepareMask(0)).toBe(false);
      for (let i = 0; i < 2; i++) {
        expect(() => {
          while (!one.prepareMask(0)) {}
        }).toThrow("more than 6 ways");
      }
    });
  });

  test("what is beyond a limit throws and changes nothing", () => {
    const far = sequence([
      repeat(characters([[0x61, 0x62]])),
      text("a"),
      repeat(characters([[0x61, 0x62]]), { min: 30, max: 30 }),
    ]);
    const one = matcher(grammarOf(far), { maxThreads: 20 });
    expect(() => acceptText(one, "a".repeat(50))).toThrow(GrammarError);
    const { length } = one;
    expect(length).toBeLessThan(50);
    expect(() => one.accept(BYTE + 0x61)).toThrow("more than 20 ways");
    expect(one.length).toBe(length);
    expect(() => allowed(one)).toThrow(GrammarError);
    expect(() => allowed(one)).toThrow(GrammarError);
  });

  test("sequences go on when the grammar forgets what it knew", () => {
    const random = randomSource(13);
    const [plain, forgetful] = [matcher(json), matcher(json, { maxBytes: 1 })];
    for (let step = 0; step < 100 && !plain.isFinished; step++) {
      const tokens = allowed(plain);
      expect(allowed(forgetful)).toEqual(tokens);
      const deeper = tokens.filter((token) => token !== END);
      const token = (deeper.length > 0 ? deeper : tokens)[
        random.below(Math.max(deeper.length, 1))
      ]!;
      expect([plain.accept(token), forgetful.accept(token)]).toEqual([true, true]);
    }
    const count = plain.length - 3;
    plain.rollback(count);
    forgetful.rollback(count);
    expect(allowed(forgetful)).toEqual(allowed(plain));
  });

  test("nesting beyond the limit is not offered", () => {
    const list = sequence([text("["), repeat(rule("list")), text("]")]);
    const one = matcher({ root: "list", rules: new Map([["list", list]]) }, { maxDepth: 50 });
    expect(acceptText(one, "[".repeat(51))).toBe(true);
    expect(one.forcedText()).toBe("]");
    expect(acceptText(one, "[")).toBe(false);
    expect(acceptText(one, "]".repeat(51))).toBe(true);
    expect(one.mustEnd).toBe(true);
  });
});
