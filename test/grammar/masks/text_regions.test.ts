/** Parts of the trie that are taken as text: masks are those of tokens followed one by one. */
import { describe, expect, test } from "vitest";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import {
  type Configuration,
  Configurations,
} from "../../../src/grammar/automaton/configurations.ts";
import { parseEbnf } from "../../../src/grammar/ebnf/parse_ebnf.ts";
import { type Grammar, grammarOf } from "../../../src/grammar/expression.ts";
import { MaskCache } from "../../../src/grammar/masks/mask_cache.ts";
import { TextRegions } from "../../../src/grammar/masks/text_regions.ts";
import { TokenMasks } from "../../../src/grammar/masks/token_masks.ts";
import { TokenTrie } from "../../../src/grammar/masks/token_trie.ts";
import { bytesBehind } from "../../../src/grammar/masks/utf8_bytes.ts";
import { WalkStates } from "../../../src/grammar/masks/walk_states.ts";
import { parseRegex } from "../../../src/grammar/regex/parse_regex.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { randomSource } from "../samples/random_grammar.ts";
import { smallVocabulary, tokensByStepping, tokensOf } from "../samples/small_vocabulary.ts";

/** Few characters of every length, so that tokens share beginnings and subtrees are large. */
const CHARACTERS = [..."aabbc1é中߿ࠀ😀", " ", '"', "\\", "\n", "\u2028"];
const random = randomSource(77);
const texts = Array.from({ length: 4000 }, () =>
  Array.from(
    { length: 1 + random.below(7) },
    () => CHARACTERS[random.below(CHARACTERS.length)]!,
  ).join(""),
);
const encoder = new TextEncoder();
/** Some end or begin within a character, and some have bytes that UTF-8 has not. */
const cut = texts.slice(0, 600).map((text, i) => {
  const bytes = encoder.encode(text);
  return i % 3 === 0 ? bytes.subarray(1) : bytes.subarray(0, -1);
});
const broken = [
  "\xff",
  "a\xc0\x80",
  "a\xed\xa0\x80",
  "ab\xf4\x90\x80\x80",
  "b\xe4a",
  "a\xe0\x9fa",
].map((text) => Uint8Array.from(text, (character) => character.charCodeAt(0)));
const tokens = [
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...[...cut, ...broken].filter(({ length }) => length > 0),
  ...texts,
];
const vocabulary = smallVocabulary({ tokens, horizon: 6 });

const regex = (source: string) => grammarOf(parseRegex(source));
const ebnf = (source: string) => parseEbnf(source);
const schema = (value: unknown) => jsonSchemaGrammar(JSON.stringify(value));

const GRAMMARS: Readonly<Record<string, Grammar>> = {
  "any text": regex("[\\s\\S]*"),
  "text behind which there is more": regex("[a-c1]*(!|aa1)"),
  "a pattern that two characters take on and back": regex("([^b]|b[^c])*"),
  "text that may end everywhere": regex("[a-cé]+( [a-c]+)*"),
  "characters of one length": regex("[^\\x00-\\x7f]{3,}a"),
  "some of the characters with one first byte": regex("[ࠀ-ࢿ中a]*"),
  "places that differ by what came first": regex("(a.*b|b.*a|[^ab].*1)"),
  "more places than are looked at": regex("[ab]*a[ab]{5}"),
  "counted text": regex("[^1]{2,9}"),
  "a string": schema({ type: "string" }),
  "a string of bounds": schema({ type: "string", minLength: 2, maxLength: 5 }),
  "text that only its first character takes elsewhere": schema({
    properties: { c: { type: "integer" } },
    patternProperties: { "^aa": false, "1$": { type: "boolean" } },
  }),
  "bounded text but for a few": schema({
    type: "string",
    minLength: 2,
    maxLength: 7,
    not: { anyOf: [{ enum: ["ab", "abca", "bb1c1"] }, { pattern: "^é" }] },
  }),
  "a string with a pattern": schema({ type: "string", pattern: "a.*c" }),
  "a pattern, whose ranges end behind where they begin": schema({
    type: "string",
    format: "regex",
  }),
  "open keys": schema({ type: "object", properties: { ab: true, b: { type: "string" } } }),
  "the pattern that any line matches": schema({ type: "string", pattern: "^.*b.*$" }),
  "conditions on a text of bounds": schema({ type: "string", pattern: "^(?=.*a)(?=.*b).{3,6}$" }),
  "rounds of several characters": regex("([^1][^b]){2,4}"),
  "lines, whose ends are text too": regex("[^1\\n]*(\\n[^\\n]*)?"),
  "lines, whose ends are a rule": ebnf(
    'root ::= (word end)+\nword ::= [^\\n"]+\nend ::= "\\n" | "\\""',
  ),
  "rounds that a line end may begin": ebnf('root ::= (end? [^\\n] [^\\n]){2,5}\nend ::= "\\n"'),
  "keys that a pattern leaves out": schema({
    patternProperties: { "^a": { type: "integer" }, "^b1": false },
    properties: { ab: { type: "string" }, abba: true },
    additionalProperties: { type: "string" },
  }),
  "kinds with keys of their own": schema({
    anyOf: ["a", "ab", "c1"].map((key) => ({
      type: "object",
      properties: { [key]: { const: key } },
      required: [key],
    })),
  }),
  "items that differ": schema({ type: "array", items: { type: "string" }, uniqueItems: true }),
};

describe.each(Object.entries(GRAMMARS))("%s", (_, grammar) => {
  test("has the masks of tokens that are followed one by one", () => {
    const configurations = new Configurations(compileAutomaton(grammar), {
      horizons: vocabulary.horizons,
    });
    const masks = new TokenMasks({ configurations, vocabulary, cache: new MaskCache(2 ** 30) });
    const draws = randomSource(5);
    for (let walk = 0; walk < 4; walk++) {
      let at = configurations.start;
      for (let step = 0; step < 7; step++) {
        configurations.begin();
        const making = masks.make(at);
        let made = making.next();
        while (made.done !== true) made = making.next();
        const allowed = tokensOf(made.value);
        expect(allowed).toEqual(tokensByStepping(vocabulary, configurations, at));
        if (allowed.length === 0) break;
        at = configurations.follow(at, vocabulary.bytes(allowed[draws.below(allowed.length)]!)!)!;
      }
    }
  });
});

test.each([".{4}", "[^q]{4}", "(.|\\n){4}", "\\W.{0,5}", "[A-Z ]?\\W.{1,6}"])(
  "%s counts characters that are no plain text too",
  (source) => {
    const letters = "abcdefghijklmnopqrstuvwxy";
    const pairs = [...letters].flatMap((one) => [...letters].map((other) => one + other));
    const runs = ["\n", '"', "\t", "\\", '":', "!\\"].flatMap((text) =>
      Array.from({ length: 12 }, (_, i) => text.repeat(i + 1)),
    );
    const [allowed, followed] = bothWays(regex(source), [...pairs, ...runs])("");
    expect(allowed).toEqual(followed);
  },
);

/** What the masks allow, and what following the tokens does. */
function bothWays(grammar: Grammar, tokens: readonly string[], maxDepth?: number) {
  const vocabulary = smallVocabulary({ tokens });
  const { horizons } = vocabulary;
  const configurations = new Configurations(compileAutomaton(grammar), { horizons, maxDepth });
  const masks = new TokenMasks({ configurations, vocabulary, cache: new MaskCache(2 ** 30) });
  return (text: string) => {
    const at = configurations.follow(configurations.start, encoder.encode(text))!;
    configurations.begin();
    const making = masks.make(at);
    let made = making.next();
    while (made.done !== true) made = making.next();
    return [tokensOf(made.value), tokensByStepping(vocabulary, configurations, at)];
  };
}

test("a token longer than heights are counted is followed to its end", () => {
  const lengths = [200, 255, 256, 257, 260, 261, 300];
  const texts = lengths.map((length) => "a".repeat(length));
  const [masked, followed] = bothWays(schema({ type: "string", maxLength: 260 }), texts)('"');
  expect(followed).toEqual([0, 1, 2, 3, 4]);
  expect(masked).toEqual(followed);
});

test("what an earlier walk has found is not taken beyond the limit of depth", () => {
  const grammar = parseEbnf(`
    root ::= "(" root ")" | r
    r ::= "1"? "2" c "." (r ":")?
    c ::= ([ab] x)*
    x ::= "a" | "b" f
    f ::= "{" f "}" | g [ab]
    g ::= "[" g "]" | h [ab]
    h ::= "<" h ">" | [ab]
  `);
  const tokens = ["(", "1", "2aaaa", "2abaaaaa", "2ababab", "2aaab", "aa", "ababab", "abaaaa"];
  const ways = bothWays(grammar, tokens, 12);
  for (let depth = 0; depth < 12; depth++) {
    const opened = "(".repeat(depth);
    for (const text of [opened, `${opened}1`]) {
      const [masked, followed] = ways(text);
      expect(masked, text).toEqual(followed);
    }
  }
});

/** The region that a place of a grammar is in. */
function regionOf(grammar: Grammar, text: string, isMarked = (_: Configuration) => false) {
  const configurations = new Configurations(compileAutomaton(grammar));
  const states = new WalkStates(configurations);
  const regions = new TextRegions(states, { isMarked: (state) => isMarked(states.at(state)) });
  const at = configurations.follow(configurations.start, encoder.encode(text))!;
  const region = regions.of(states.of(at), 20, 100_000);
  const others = [..."ab1 é"].filter((one) => region?.others[encoder.encode(one)[0]!] === 1);
  return region && { isText: region.isText, length: region.length, others: others.join("") };
}

test("regions end where characters lead elsewhere, where a count ends and at marked places", () => {
  const endless = Number.POSITIVE_INFINITY;
  const text = { isText: true, length: endless, others: "" };
  expect(regionOf(schema({ type: "string" }), '"a')).toEqual(text);
  expect(regionOf(regex("[^1]*1"), "a")).toEqual({ isText: false, length: endless, others: "1" });
  expect(regionOf(regex("[^1]{12}"), "")).toEqual({ isText: false, length: 12, others: "1" });
  expect(regionOf(regex("[^1]{2}"), "")).toBeUndefined();
  expect(regionOf(regex("a|b"), "")).toBeUndefined();
  const accepting = ({ accepting }: Configuration) => accepting;
  expect(regionOf(regex("[^1]*"), "", accepting)).toBeUndefined();
  expect(regionOf(regex("[^1]{6,}"), "", accepting)?.length).toBe(5);
  // Letters and others lead to two places, from both of which all characters lead on.
  const words = schema({ type: "string", pattern: "\\w\\W\\w" });
  expect(regionOf(words, '"a')).toEqual(text);
});

test("what is looked for in vain is no error of a walk", () => {
  const configurations = new Configurations(compileAutomaton(regex("[ab]*a[ab]{9}")), {
    maxThreads: 4,
  });
  const states = new WalkStates(configurations);
  const regions = new TextRegions(states, { isMarked: () => false });
  expect(regions.of(states.of(configurations.start), 20, 100_000)).toBeUndefined();
});

test("a trie without plain text has no room for any", () => {
  expect(TokenTrie.of([]).texts.runs.plain).toHaveLength(0);
  expect(TokenTrie.of([[0, Uint8Array.of(0x80)]]).texts.runs.plain).toHaveLength(0);
  expect(TokenTrie.of([[32, encoder.encode("a")]]).texts.runs.plain).toHaveLength(2);
});

test("what begins a character, and how many bytes follow", () => {
  const behind = [0x00, 0x7f, 0x80, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xef, 0xf0, 0xf4, 0xf5, 0xff];
  expect(behind.map(bytesBehind)).toEqual([0, 0, -1, -1, -1, 1, 1, 2, 2, 3, 3, -1, -1]);
});

test("plain text ends at quotes, control characters and what is no UTF-8", () => {
  const texts = ["ab", 'ab"c', "a\n", "é", "bé\\", "\x7f", '"', "中文"].map((text) =>
    encoder.encode(text),
  );
  const broken = [Uint8Array.of(0x61, 0xc3, 0x61), Uint8Array.of(0x80), Uint8Array.of(0xe4, 0xb8)];
  const trie = TokenTrie.of([...texts, ...broken].map((bytes, id) => [id, bytes] as const));
  const { runs } = trie.texts;
  expect(tokensOf(runs.plain)).toEqual([0, 3, 7, 10]);
  expect(runs.height).toBe(2);
  const begins = Array.from(runs.breaks, (node) => trie.bytes[node]!).sort((a, b) => a - b);
  expect(begins).toEqual([0x0a, 0x22, 0x22, 0x5c, 0x7f, 0x80, 0xc3]);
});
