import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { automatonOf } from "../../../src/grammar/automaton/code_point_automaton.ts";
import { hasCodePoint } from "../../../src/grammar/automaton/code_points.ts";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { accepts, difference, isEmpty } from "../../../src/grammar/automaton/regular.ts";
import { limitEffort, MAX_EFFORT } from "../../../src/grammar/effort.ts";
import { EMPTY, type Expression, grammarOf, text } from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { parseRegex, type RegexOptions } from "../../../src/grammar/regex/parse_regex.ts";

const SUITE = "../shared/data/json-schema-test-suite";

function matches(pattern: string, value: string, match?: RegexOptions["match"]): boolean {
  return accepts(automatonOf(parseRegex(pattern, { match })), value);
}

function expectSameLanguage(left: string, right: string, match?: RegexOptions["match"]): void {
  const a = automatonOf(parseRegex(left, { match }));
  const b = automatonOf(parseRegex(right, { match }));
  expect(isEmpty(difference(a, b)), `${left} has more than ${right}`).toBe(true);
  expect(isEmpty(difference(b, a)), `${right} has more than ${left}`).toBe(true);
}

function errorOf(pattern: string): GrammarError {
  try {
    parseRegex(pattern);
  } catch (error) {
    if (error instanceof GrammarError) return error;
    throw error;
  }
  throw new Error(`${pattern} was accepted`);
}

describe("parseRegex", () => {
  test("gives plain expressions for plain patterns", () => {
    expect(parseRegex("")).toBe(EMPTY);
    expect(parseRegex("(a)(?:bc)")).toEqual(text("abc"));
    expect(parseRegex("^ab$")).toEqual(text("ab"));
  });

  test("keeps counts as counts", () => {
    expect(parseRegex("^[a]{3,4000}$")).toEqual({
      kind: "repeat",
      body: { kind: "class", points: [[0x61, 0x61]] },
      min: 3,
      max: 4000,
    });
  });

  test.each<[string, readonly string[], readonly string[]]>([
    ["[0-9]{3}-[0-9]{4}", ["555-0199"], ["555-019", "x555-0199", "555-01990"]],
    ["(yes|no)?", ["", "yes", "no"], ["yesno", "n"]],
    ["[一-龥]{2}", ["漢字"], ["漢", "ab"]],
    ["[^a-я]", ["A", "😀", "\n"], ["a", "é", "ж", "ab"]],
    [".", ["a", "😀", "é", "\t"], ["", "\n", "\r", "\u2028", "ab"]],
    ["\\d\\w\\s", ["1a ", "0_\u00a0", "9Z\ufeff"], ["٣a ", "1é ", "1a\u0085"]],
    ["\\p{Script=Greek}+", ["αβγ"], ["abc", ""]],
    ["\\p{Lu}\\P{Lu}", ["Ab", "Éa", "A1"], ["ab", "AB"]],
    ["\\u0041\\x42\\u{1F600}\\cJ", ["AB😀\n"], ["AB😀J"]],
    ["\\ud83d\\ude00", ["😀"], ["\ufffd"]],
    ["[\\ud83d\\ude00-\\ud83d\\ude02]", ["😁"], ["a"]],
    ["[\\b]", ["\b"], ["b"]],
    ["[\\w-.]+", ["a-b.c"], ["a b", "a,b"]],
    ["[a-]+", ["a-"], ["b"]],
    ["[-a]+", ["a-"], ["b"]],
    ["[]", [], ["", "a", "]"]],
    ["[^]", ["a", "\n", "😀"], ["", "ab"]],
    ["a{2}b{1,}c{0,1}", ["aab", "aabbc"], ["ab", "aac", "aabcc"]],
    ["x{0}", [""], ["x"]],
    ["{}{a}a{,}b{", ["{}{a}b{", "{}{a}aab{"], ["{}{a}a{,}b{"]],
    ['\\-\\_\\@\\/\\"\\ \\é', ['-_@/" é'], ["-_@/ é"]],
    ["^a|b$|^$", ["a", "b", ""], ["ab"]],
    ["(^|, )x(, x)*$", ["x", ", x", "x, x"], ["xx"]],
    ["((^|, )(ab|c))+", ["ab", "ab, c", "c, c, ab"], ["ab, ", "abc"]],
    ["a^b|a$b|c", ["c"], ["ab", "a", "b"]],
    ["(a$|b)*", ["", "a", "b", "ba"], ["ab", "aa"]],
  ])("matches whole texts: %s", (pattern, yes, no) => {
    for (const value of yes) expect(matches(pattern, value), value).toBe(true);
    for (const value of no) expect(matches(pattern, value), value).toBe(false);
  });

  test.each<[string, readonly string[], readonly string[]]>([
    ["^x-", ["x-", "x-y\n"], ["ax-", "x"]],
    ["a+", ["a", "bab", "\na"], ["b", ""]],
    ["^$", [""], ["a"]],
    ["^(a|b)$", ["a"], ["ab"]],
    ["^a|b$", ["a", "ax", "b", "xb"], ["xa", "bx"]],
    ["a*", ["", "b"], []],
    ["$", ["", "b\n"], []],
    ["a$b", [], ["ab", "a"]],
    ["(?m)^a", ["a", "x\na", "\u2028a"], ["xa"]],
    ["\\bfoo\\b", ["foo", "a foo!", "é-foo"], ["foobar", "_foo"]],
    ["(?<![0-9])[0-9]{2}(?![0-9])", ["12", "a12b", "123 45"], ["123", "1"]],
    ["^(?!.*(?:foo|bar)).{3}", ["abc", "fooo".slice(1)], ["xfoo", "barx", "ab"]],
    ["(?<=^|,)x(?=,|$)", ["x", "a,x", "x,b"], ["ax", "xa", "a,xb"]],
    [
      "^(?=.*[a-z])(?=.*[A-Z])(?=.*\\d)(?=.*[^\\w\\s])\\S{8,}$",
      ["aB3$efgh", "????aB3x"],
      ["aB3$efg", "ab3$efgh", "aB3 $efgh", "aBc$efgh"],
    ],
  ])("searches a text: %s", (pattern, yes, no) => {
    for (const value of yes) expect(matches(pattern, value, "search"), value).toBe(true);
    for (const value of no) expect(matches(pattern, value, "search"), value).toBe(false);
  });

  test.each([
    ["(?P<year>\\d{4})-(?<month>\\d\\d)", "(\\d{4})-(\\d\\d)"],
    ["\\Aab\\Z", "^ab$"],
    ["\\Aab\\z", "ab"],
    ["(?i)Ab1", "[aA][bB]1"],
    ["(?i)k", "[kK\\u212a]"],
    ["(?i)ß", "[ßẞ]"],
    ["(?i)ā", "[āĀ]"],
    ["(?i:a)b", "[aA]b"],
    ["a(?i)b(?-i)c", "a[bB]c"],
    ["(a(?i)b|c)d", "(a[bB]|[cC])d"],
    ["(?i)a(?-i:b)", "[aA]b"],
    ["(?s).", "[^]"],
    ["(?s-i:.)a.", "[^]a."],
    ["(?m)^ab$", "ab"],
    ["(?m)(^a|^b)$", "[ab]"],
    ["(?x) a b # comment\n [ ] \\  c +", "ab[ ][ ]c+"],
    ["(?x:a b) c", "ab c"],
    ["(?is)a.", "[aA][^]"],
    ["a(?#no (parens)b", "ab"],
    ["ba(?#note)*", "ba*"],
    ["a{,3}", "a{0,3}"],
    ["a*?b+?c??d{1,2}?", "a*b+c?d{1,2}"],
    ["\\U0001F600", "😀"],
    ["[^\\]]+]", "[^\\]]+\\]"],
    ["\\d++\\.\\d*+", "\\d+\\.\\d*"],
    ['"[^"]*+"', '"[^"]*"'],
    ["(?>abc|de)f", "(abc|de)f"],
    ["(?>[a-z]+)(?>-\\d{2})?+", "[a-z]+(-\\d{2})?"],
    ["(?>a{3})a", "a{4}"],
    ["(?i)\\w", "[\\w\\u017f\\u212a]"],
    ["\\bab\\b", "ab"],
    ["(ab|-)\\b(c|\\.)", "ab\\.|-c"],
    ["(ab|-)\\B(c|\\.)", "abc|-\\."],
    ["(?i)\u017f\\b-", "[sS\u017f]-"],
    ["(?!ab)[a-c]{2}", "a[ac]|[bc][a-c]"],
    ["(?=.*b)[a-c]{2}", "b[a-c]|[ac]b"],
    ["(?=[a-c]*$).+(?<!b)", "[a-c]*[ac]"],
    ["[a-c]{2}(?<=ab|c)", "ab|[a-c]c"],
    ["((?!aa)[ab])*", "(ab|b)*a?"],
    ["((?<!a)a|b)*", "(ab|b)*a?"],
    ["(?s)(?=(?!a).)(?<!x).{2}", "[^a][\\s\\S]"],
    ["(?=\\ba)[ab](?<=\\bab?)", "a"],
    ["(?m)a(\\n^|$)b?", "a(\\nb?)?"],
    ["(?m)a$[^]^b", "a[\\n\\r\\u2028\\u2029]b"],
    ["((?m)^a)*", "a?"],
    ["(?=)a(?!)|b", "b"],
    ["(?:(?=a)|b)*a", "b*a"],
    ["(?s)(?=.{3})(?=\\d++)((?!00)\\d)*", "(0?[1-9])+0?(?<=...)"],
  ])("reads other dialects: %s is %s", (dialect, plain) => {
    expectSameLanguage(dialect, plain);
  });

  test.each([
    ["(ab", 0, "missing"],
    ["ab)", 2, "closes no group"],
    ["*a", 0, "nothing to repeat"],
    ["a|*", 2, "nothing to repeat"],
    ["a**", 2, "nothing to repeat"],
    ["^*", 1, "nothing to repeat"],
    ["a{2}{3}", 4, "nothing to repeat"],
    ["\\A*", 2, "nothing to repeat"],
    ["a(?i)*", 5, "nothing to repeat"],
    ["a{3,2}", 1, "out of order"],
    ["a{1000001}", 1, "1000000 repetitions"],
    ["[b-a]", 1, "out of order"],
    ["x[ab", 1, '"]" is missing'],
    ["ab\\", 2, "backslash"],
    ["\\xZ1", 0, "incomplete"],
    ["\\u12", 0, "incomplete"],
    ["\\u{110000}", 0, "not a code point"],
    ["\\c1", 0, "incomplete"],
    ["(a)\\1", 3, "backreference"],
    ["(?<n>a)\\k<n>", 7, "backreference"],
    ["(?P<n>a)(?P=n)", 8, "backreference"],
    ["(a(?R)?b)", 2, "recursion"],
    ["(a(?1)?b)", 2, "recursion"],
    ["(a)?(?(1)b|c)", 4, "condition"],
    ["(?|a|b)", 0, "branch reset"],
    ["(?u)a", 0, 'flag "u"'],
    ["(?", 0, "no group that is known"],
    ["(?#a", 0, "comment"],
    ["[[:alpha:]]", 1, "POSIX"],
    ["[a-z--[b]]", 4, "set operation"],
    ["[a-z&&[b]]", 4, "set operation"],
    ["\\p{Nonsense}", 0, "Nonsense"],
    ["\\p{Print}", 0, 'write "[ -~]"'],
    ["a\\P{XDigit}", 1, 'write "[0-9A-Fa-f]"'],
    ["\\pL", 0, "needs a property"],
    ["\\h", 0, '"\\h"'],
    ["\\a", 0, '"\\a"'],
    ["[\\B]", 1, '"\\B"'],
    ["\\01", 0, "octal"],
    ["[]a]", 0, "not in Python"],
    ["[^]a]", 0, "not in Python"],
    ["[][a-b]", 0, "not in Python"],
    ["a*+a", 1, "atomic group"],
    ["(?>a|ab)c", 0, "atomic group"],
    ["(?>a*?)b", 0, "atomic group"],
    ["(a++b?)*", 2, "atomic group"],
    ["a*+^b?", 1, "atomic group"],
    ["a*+(?=b)", 1, "atomic group"],
    ["(?>a(?=b)|ab)c", 0, "atomic group"],
    ["(?<=a++)b", 5, "inside a lookbehind"],
    ["(?<=(?>a))b", 4, "inside a lookbehind"],
    ["a(?<=a(?=bc))b", 1, "lookahead inside the lookbehind"],
    ["(?=a)*", 5, "nothing to repeat"],
    ["\\b+", 2, "nothing to repeat"],
    ["(?<!a", 0, "missing"],
    ["(?=a)(b)\\1", 8, "backreference"],
    ["(?!.*a.{20}).*", 0, "negative lookahead"],
  ])("refuses %s at %i", (pattern, position, reason) => {
    const error = errorOf(pattern);
    expect(error.message).toContain(reason);
    expect(error.position).toBe(position);
  });

  test.each([
    ["groups", "(".repeat(100_000) + "a".concat(")".repeat(100_000))],
    ["open groups", "(".repeat(100_000)],
    ["repeated groups", `${"(".repeat(50_000)}a${"b)*".repeat(50_000)}`],
    ["anchored groups", `${"(^".repeat(20_000)}a${"|b)".repeat(20_000)}`],
    ["options", "a|".repeat(100_000)],
    ["anchors", "(^|a)".repeat(10_000)],
    ["characters", "é".repeat(1_000_000)],
    ["classes", "[^a]".repeat(30_000)],
    ["quantified", "a?".repeat(30_000)],
    ["comments", "(?#)".repeat(100_000)],
    ["flags", "(?i)".repeat(100_000)],
    ["digits", `a{${"9".repeat(100_000)}}`],
    ["lookaheads inside each other", `${"(?=a".repeat(50_000)}${")".repeat(50_000)}`],
    ["lookbehinds inside each other", `${"(?<=a".repeat(50_000)}${")".repeat(50_000)}`],
    ["lookaheads", "(?=.*a)".repeat(30_000)],
    ["lookbehinds", "(?<!a|b.)".repeat(30_000)],
    ["word boundaries", "a\\b|".repeat(40_000)],
  ])("needs no stack for many %s", (_, pattern) => {
    const read = () => compileAutomaton(grammarOf(parseRegex(pattern)));
    try {
      read();
    } catch (error) {
      expect(error).toBeInstanceOf(GrammarError);
    }
  });
});

describe("a pattern that would take long is refused", () => {
  const scripts = ["Script", "sc", "scx", "Script_Extensions"].flatMap((key) =>
    ["Greek", "Grek", "Latin", "Latn", "Han", "Hani", "Thai"].map((name) => `\\p{${key}=${name}}`),
  );
  const distinct = Array.from({ length: 20_000 }, (_, i) => String.fromCodePoint(0x4e00 + i));

  test.each([
    ["properties", scripts.join("")],
    ["classes without regard to case", `(?i)${distinct.map((c) => `[^${c}]`).join("")}`],
    ["classes with properties", "[\\p{L}_]".repeat(20_000)],
    ["atomic groups", "(?>(a|b)*a(a|b){12}c)".repeat(1000)],
    ["possessive quantifiers", distinct.map((c) => `${c}*+`).join("")],
    ["checks of possessive quantifiers", `${"(".repeat(5_000)}ba*+${"c?)*".repeat(5_000)}`],
  ])("for its %s", (_, pattern) => {
    expect(() => parseRegex(pattern)).toThrow("too much work");
  });

  const words = Array.from({ length: 40 }, (_, i) => `w${i}`);

  test.each([
    ["lookaheads that wait for each other", words.map((w) => `(?=.*${w})`).join("")],
    ["choices of lookaheads", words.map((w) => `(?:(?=.*${w})|(?!.*a${w}))`).join("")],
    ["lookaheads in every place", `(?:${words.map((w) => `(?:(?=.*${w}x)|)`).join("")}[^])+z`],
    ["lookbehinds of long memory", "(?<=a[ab]{30})b"],
    ["lookbehinds that remember each other", words.map((w) => `(?<=${w}.*)`).join(".")],
    ["negative lookaheads of long memory", "(?!.*a[ab]{30}b)[ab]*"],
    ["lookaheads inside each other", `${"(?=a.*".repeat(60)}${")".repeat(60)}`],
  ])("for its %s", (_, pattern) => {
    const read = () => limitEffort(MAX_EFFORT, () => parseRegex(pattern, { match: "search" }));
    expect(read).toThrow(GrammarError);
    expect(read).toThrow(/too much work|too many states|more than/);
  });

  test("but not for what is repeated", () => {
    expect(parseRegex("[\\p{L}\\p{L}]".repeat(20_000)).kind).toBe("sequence");
    expect(parseRegex("(^|)a".repeat(20_000)).kind).toBe("choice");
  });
});

describe("sets of characters", () => {
  test.each([
    ["\\w", "u"],
    ["\\W", "iu"],
    ["\\s", "u"],
    ["[^\\d\\n]", "u"],
    [".", "u"],
    ["\\p{L}", "u"],
    ["\\P{Lu}", "iu"],
    ["\\p{Script_Extensions=Greek}", "iu"],
    ["[^a-z\\u{10400}]", "iu"],
    ["[\\u{100}-\\u{1f0}]", "iu"],
  ])("%s with %s has the characters that RegExp finds", (source, flags) => {
    const expression = parseRegex(flags === "iu" ? `(?i)${source}` : source);
    if (expression.kind !== "class") throw new Error("it is not one class");
    const one = new RegExp(`^${source}$`, flags);
    const wrong: number[] = [];
    for (let point = 0; point <= 0x10ffff; point++) {
      if (point >= 0xd800 && point < 0xe000) continue;
      const expected = one.test(String.fromCodePoint(point));
      if (hasCodePoint(expression.points, point) !== expected) wrong.push(point);
    }
    expect(wrong).toEqual([]);
  });

  test("letters that differ in case only are found for each letter", () => {
    const wrong: string[] = [];
    const letters = Array.from("AaKkſSßẞÅåΩωΘθϴϑΣσςİIiıǅǆǄꭰᏐ𐐀𐐨ΐﬅﬆ1_é");
    for (const letter of letters) {
      const expression: Expression = parseRegex(`(?i)${letter}`);
      const ours = automatonOf(expression);
      for (const other of letters) {
        const expected = new RegExp(`^${letter}$`, "iu").test(other);
        if (accepts(ours, other) !== expected) wrong.push(letter + other);
      }
    }
    expect(wrong).toEqual([]);
  });
});

describe.skipIf(!existsSync(SUITE))("patterns of the JSON schema test suite", () => {
  interface Case {
    readonly pattern: string;
    readonly texts: readonly string[];
  }

  /** Every pattern with all strings of the tests beside it. */
  function cases(): Case[] {
    const found: Case[] = [];
    for (const file of readdirSync(SUITE, { recursive: true, encoding: "utf8" })) {
      if (!file.endsWith(".json")) continue;
      for (const group of JSON.parse(readFileSync(join(SUITE, file), "utf8"))) {
        const patterns = new Set<string>();
        const texts = new Set<string>();
        visit(group.schema, (key, value) => {
          if (key === "pattern" && typeof value === "string") patterns.add(value);
          if (key === "patternProperties") for (const name in Object(value)) patterns.add(name);
        });
        visit(group.tests, (key, value) => {
          texts.add(key);
          if (typeof value === "string") texts.add(value);
        });
        for (const pattern of patterns) found.push({ pattern, texts: [...texts] });
      }
    }
    return found;
  }

  function visit(value: unknown, see: (key: string, value: unknown) => void): void {
    if (typeof value !== "object" || value === null) return;
    for (const [key, child] of Object.entries(value)) {
      see(key, child);
      visit(child, see);
    }
  }

  test("mean what they mean in ECMAScript", () => {
    const all = cases();
    expect(all.length).toBeGreaterThan(50);
    for (const { pattern, texts } of all) {
      const ours = automatonOf(parseRegex(pattern, { match: "search" }));
      const expected = new RegExp(pattern, "u");
      for (const value of texts) {
        if (/\p{Surrogate}/u.test(value)) continue;
        expect(accepts(ours, value), `${pattern} on ${value}`).toBe(expected.test(value));
      }
    }
  });
});
