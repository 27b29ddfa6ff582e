/** Bytes that lead alike, of places with more ways on than fit in 16 bits. */
import { expect, test } from "vitest";
import { compileGrammar } from "../../../src/grammar/library.ts";
import { tokensOf } from "../samples/small_vocabulary.ts";

test("no byte is lost where 65,536 edges lead on", () => {
  // No two of them are neighbours, so that each is an edge.
  const characters = Array.from({ length: 32 }, (_, i) => String.fromCharCode(0x21 + 2 * i));
  const escaped = characters.map((one) => (/[\]\\^-]/.test(one) ? `\\${one}` : one)).join("");
  const rules = Array.from({ length: 2048 }, (_, i) => `r${i} ::= [${escaped}] "n${i}"`);
  const root = `root ::= ${rules.map((__, i) => `r${i}`).join(" | ")}`;
  const matcher = compileGrammar({ ebnf: [root, ...rules].join("\n") }).createMatcher();
  const words = new Uint32Array(8);
  matcher.mask(words);
  expect(tokensOf(words)).toEqual(characters.map((one) => one.charCodeAt(0)));
});
