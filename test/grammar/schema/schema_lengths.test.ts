/** Lengths of strings that are counted beside the automaton of their pattern or format. */
import { describe, expect, test } from "vitest";
import { compileGrammar } from "../../../src/grammar/library.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { seededRandom } from "../samples/sample_text.ts";
import { acceptorOfSchema, passesMasks } from "../samples/schema_acceptance.ts";
import { judge, refusal } from "../samples/schema_judge.ts";
import { tokensOf } from "../samples/small_vocabulary.ts";

const PATTERNS = [
  "^[a-z]+$",
  "^[\\p{L}\\p{N} _.:/=+@-]*$",
  "^(?!aws:)[a-zA-Z+-=._:/]+$",
  "^arn:aws(-[a-z]+)?:kms:[a-z0-9-]*:\\d{12}:key/.+$",
  "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
  "^a{0,20}(b{7}c*)?$",
  "^(ab|xyz)+$",
  "^(a{9}|b{30})*$",
  "^\\S+@\\S+$",
  "^x.{40}y$",
  "é|😀",
  "b",
  '^[^"\\\\]*\\\\[^"]*$',
];
const BOUNDS = [
  ...[{ maxLength: 300 }, { minLength: 60 }, { minLength: 40, maxLength: 44 }, { maxLength: 64 }],
  ...[
    { minLength: 100, maxLength: 100 },
    { minLength: 1, maxLength: 512 },
  ],
];
/** Walks of each pattern with each bounds. */
const WALKS = process.env.WISP_TEST_FULL === "1" ? 200 : 3;
const PIECES = ["a", "b", "ab", "x", "é", "😀", ".", "-", "abcdefghij", "arn:aws:kms:", "0", ":"];

describe.each(PATTERNS)("%s", (pattern) => {
  const cases = BOUNDS.flatMap((bounds) => {
    const schema = { type: "string", pattern, ...bounds };
    try {
      return [{ schema, grammar: jsonSchemaGrammar(schema), bounds }];
    } catch (error) {
      expect(String(error)).toContain("no value fits");
      return [];
    }
  });

  test("texts fit as RegExp and their length say, escaped or not", () => {
    const random = seededRandom(pattern.length);
    const seeds = ["a".repeat(300), "ab".repeat(40), `arn:aws:kms::${"1".repeat(12)}:key/x`];
    const texts = seeds.flatMap((seed) =>
      [0, 1, 16, 39, 40, 44, 45, 60, 63, 64, 65, 100, 300].map((length) => seed.slice(0, length)),
    );
    for (let i = 0; i < 60; i++) {
      const length = random(30);
      texts.push(Array.from({ length }, () => PIECES[random(PIECES.length)]).join(""));
      texts.push(
        `x${Array.from(texts.at(-1)!.repeat(5)).slice(0, 40).join("")}y`,
        `${"a".repeat(random(21))}bbbbbbb`,
      );
    }
    const fits = new RegExp(pattern, "u");
    for (const { schema, grammar, bounds } of cases) {
      const accept = acceptorOfSchema(schema);
      const passes = passesMasks(grammar);
      for (const text of texts) {
        const { length } = Array.from(text);
        const { minLength = 0, maxLength = Number.POSITIVE_INFINITY } = bounds as {
          minLength?: number;
          maxLength?: number;
        };
        const expected = fits.test(text) && length >= minLength && length <= maxLength;
        const json = JSON.stringify(text);
        expect([json, schema, accept(json)]).toEqual([json, schema, expected]);
        if (length < 70) expect([json, passes(json)]).toEqual([json, expected]);
      }
    }
  });

  test("no walk comes to a dead end", () => {
    const fits = new RegExp(pattern, "u");
    for (const { schema, bounds } of cases) {
      const grammar = compileGrammar({ jsonSchema: schema });
      const words = new Uint32Array(8);
      for (let i = 0; i < WALKS; i++) {
        const random = seededRandom(1 + i);
        const matcher = grammar.createMatcher();
        const bytes: number[] = [];
        for (let mayEnd = false; !mayEnd; ) {
          matcher.mask(words);
          // Escapes are many, and each a character; ends of a string come late.
          const allowed = tokensOf(words);
          const plain = allowed.filter((byte) => byte !== 0x5c && byte !== 0x22 && byte < 0x80);
          const few = plain.length > 0 && random(50) > 0 ? plain : allowed;
          expect(allowed.length, new TextDecoder().decode(Uint8Array.from(bytes))).toBeGreaterThan(
            0,
          );
          const byte = few[random(few.length)]!;
          expect(matcher.accept(byte)).toBe(true);
          bytes.push(byte);
          mayEnd = matcher.isAccepting;
          if (bytes.length > 900) break;
        }
        if (!matcher.isAccepting) continue;
        const value = JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes)));
        const { length } = Array.from(value as string);
        const { minLength = 0, maxLength = 1000 } = bounds as {
          minLength?: number;
          maxLength?: number;
        };
        expect(fits.test(value), value).toBe(true);
        expect(length).toBeGreaterThanOrEqual(minLength);
        expect(length).toBeLessThanOrEqual(maxLength);
      }
    }
  });
});

test("formats have lengths", () => {
  const uri = { type: "string", format: "uri", maxLength: 2048 };
  const at = (length: number) => JSON.stringify(`https://e.org/${"a".repeat(length - 14)}`);
  judge(uri, [at(20), at(2048)], [at(2049), '"e.org"']);
  judge(
    { type: "string", format: "email", minLength: 6, maxLength: 254 },
    ['"ab@c.d"', JSON.stringify(`a@${"b.".repeat(125)}cc`)],
    ['"a@b.c"', JSON.stringify(`a@${"b.".repeat(126)}c`)],
  );
});

test("a length that no text of the pattern has", () => {
  const schema = { type: "string", pattern: "^a{3}[b-d]{2}$", minLength: 100 };
  expect(refusal(schema).message).toContain("no value fits");
  expect(
    refusal({ ...schema, pattern: "^.{400,}$", maxLength: 300, minLength: 0 }).message,
  ).toContain("no value fits");
});

test("lists of such strings may have to differ", () => {
  const items = { type: "string", pattern: "^arn:[a-z]+:.+$", maxLength: 2048 };
  judge(
    { type: "array", uniqueItems: true, minItems: 2, items },
    ['["arn:a:b","arn:a:c"]'],
    ['["arn:a:b","arn:a:b"]', '["arn:a:b"]'],
  );
});
