/** Places from which any plain text leads on, and those that it does not lead out of. */
import { describe, expect, test } from "vitest";
import { automatonOf } from "../../../src/grammar/automaton/code_point_automaton.ts";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { Configurations } from "../../../src/grammar/automaton/configurations.ts";
import { ENDLESS, plainLengths } from "../../../src/grammar/automaton/plain_text.ts";
import { parseEbnf } from "../../../src/grammar/ebnf/parse_ebnf.ts";
import { type Grammar, grammarOf } from "../../../src/grammar/expression.ts";
import { PlainPlaces } from "../../../src/grammar/masks/plain_places.ts";
import { parseRegex } from "../../../src/grammar/regex/parse_regex.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";

const encoder = new TextEncoder();
const regex = (source: string) => grammarOf(parseRegex(source));
const schema = (value: unknown) => jsonSchemaGrammar(JSON.stringify(value));

/** What is known of the place behind a text; 0 where nothing is. */
function known(grammar: Grammar, text: string, maxDepth?: number) {
  const configurations = new Configurations(compileAutomaton(grammar), { maxDepth });
  const at = configurations.follow(configurations.start, encoder.encode(text))!;
  const places = new PlainPlaces(configurations);
  return { length: places.lead(at)?.length ?? 0, isEnclosed: places.isEnclosed(at) };
}

describe("plainLengths", () => {
  const lengths = (source: string) => [...plainLengths(automatonOf(parseRegex(source)))];

  test("says how many characters lead on, whichever they are", () => {
    expect(lengths(".*")[0]).toBe(ENDLESS);
    expect(lengths("(a|.)*")[0]).toBe(ENDLESS);
    expect(lengths(".{7}")[0]).toBe(7);
    expect(lengths(".{2,9}")[0]).toBe(9);
    expect(lengths(".{5}x|x.{6}|[^x].{3}")[0]).toBe(5);
  });

  test("is 0 where a single character is missing, and knows of no line ends", () => {
    expect(lengths("[^~]*")[0]).toBe(0);
    expect(lengths("[^\\u{1f600}]*")[0]).toBe(0);
    expect(lengths('[^"\\\\\\u2028\\u2029\\x00-\\x1f\\x7f]*')[0]).toBe(ENDLESS);
  });

  test("looks at each way to read a text on its own", () => {
    expect(lengths("no.|[^n].*|n[^o].*")[0]).toBe(1);
    expect(lengths("no.|[^n].*|n.{3}")[0]).toBe(4);
  });
});

describe("PlainPlaces", () => {
  const endless = Number.POSITIVE_INFINITY;

  test("knows the inside of strings and of keys, from which only a quote leads out", () => {
    const inside = { length: endless, isEnclosed: true };
    expect(known(schema({ type: "string" }), '"a')).toEqual(inside);
    expect(known(schema({ type: "string", minLength: 3 }), '"')).toEqual(inside);
    expect(known(schema({ type: "string", pattern: "b" }), '"ab')).toEqual(inside);
    const object = schema({ properties: { ab: true, abc: { type: "integer" } } });
    for (const text of ['{"', '{"ab', '{"abd', '{"x":{"', '{"x":[["']) {
      expect(known(object, text), text).toEqual(inside);
    }
  });

  test("knows that a string of a format with hundreds of places is left by a quote alone", () => {
    const uri = schema({ type: "string", format: "uri" });
    for (const text of ['"https:', '"https://a']) {
      expect(known(uri, text).isEnclosed, text).toBe(true);
    }
  });

  test("counts what bounds leave", () => {
    const bounded = schema({ type: "string", maxLength: 9 });
    expect(known(bounded, '"').length).toBe(9);
    expect(known(bounded, '"abcd').length).toBe(5);
    expect(known(bounded, '"abcdefghi').length).toBe(0);
    const long = schema({ type: "string", minLength: 20, maxLength: 500, pattern: "^a" });
    expect(known(long, '"abc').length).toBeGreaterThan(490);
    expect(known(long, '"abc').length).toBeLessThanOrEqual(497);
    expect(known(long, '"').length).toBe(0);
  });

  test("counts all characters of a bounded text that no longer has to go on", () => {
    const pattern = "^[^1]|^1[^2]";
    const bounded = schema({ type: "string", minLength: 20, maxLength: 60, pattern });
    expect(known(bounded, '"x').length).toBe(59);
    const address = schema({ type: "string", maxLength: 60, not: { format: "ipv4" } });
    expect(known(address, '"x').length).toBe(59);
    // What may still become an address has one character more behind it.
    expect(known(address, '"1').length).toBeLessThan(59);
  });

  test("knows rounds of characters and lines, which a line end may follow", () => {
    expect(known(regex(".{0,40}\\n"), "ab")).toEqual({ length: 37, isEnclosed: false });
    expect(known(regex("(.|\\n)*"), "a")).toEqual({ length: endless, isEnclosed: false });
    const rule = parseEbnf('root ::= "(" word line ")"\nword ::= [^"\\n]*\nline ::= "\\n"?');
    expect(known(rule, "(a").isEnclosed).toBe(false);
    const other = parseEbnf('root ::= word "\\"" line\nword ::= [ !#-~]*\nline ::= "\\n"?');
    expect(known(other, "a")).toEqual({ length: 0, isEnclosed: true });
  });

  test("takes no round for endless whose next one begins otherwise", () => {
    expect(known(regex("(ab?.){2,30}"), "a").length).toBe(0);
    expect(known(regex("(ab?.)*"), "a").length).toBe(0);
  });

  test("knows nothing where plain text has another end, or nests too deep", () => {
    expect(known(schema({ type: "string", pattern: "^[^x]*$" }), '"a').length).toBe(0);
    expect(known(schema({ type: "integer" }), "1")).toEqual({ length: 0, isEnclosed: false });
    expect(known(schema({ type: "string" }), '"a', 2).length).toBe(endless);
    expect(known(schema(true), "[[", 8).length).toBe(0);
  });
});
