/**
 * Walks through the masks of random schemas, token by token as a model would: what comes out is
 * judged by two validators of others, and masks by what the matcher accepts.
 */
import { type Schema, Validator } from "@cfworker/json-schema";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { expect, test } from "vitest";
import { type CompiledGrammar, compileGrammar } from "../../../src/grammar/grammar.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { MaskCache } from "../../../src/grammar/masks/mask_cache.ts";
import type { GrammarMatcher } from "../../../src/grammar/matcher.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { SchemaSource } from "../samples/random_schema.ts";
import { type Random, seededRandom } from "../samples/sample_text.ts";
import { smallVocabulary, tokensOf } from "../samples/small_vocabulary.ts";

const FULL = process.env.WISP_TEST_FULL === "1";
/** Two thousand schemas in the long campaign, a hundred thousand walks. */
const BATCHES = FULL ? 40 : 1;
const SCHEMAS = FULL ? 50 : 20;
const WALKS = FULL ? 50 : 6;
/** Tokens from which on a walk takes the way out. */
const LONG = 24;
const LONGEST = 400;
/** Tokens of each step that are also tried one by one; all of them in the first walk of a schema. */
const TRIED = 4;

const encoder = new TextEncoder();
const PIECES = [
  ...['{"', '":', '"}', '", "', '","', "},", "]", "],", ": ", ", ", "12", "-1", ".5", "00", "e1"],
  ...[
    "true",
    "false",
    "null",
    "foo",
    "ab",
    "abc",
    'q\\"',
    "é",
    "xyz",
    "2024-",
    "127.",
    "😀",
    "\n  ",
  ],
  ...['{"a":', '"ab":', "[1,", '"a"', '""', "{}", "[]", "  ", "\\u00", "@", "a.b"],
];
const END = 256 + PIECES.length;
const tokens = [
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...PIECES.map((piece) => encoder.encode(piece)),
  "</s>",
];
const vocabulary = smallVocabulary({ tokens, special: [END], endTokens: [END] });
/** Walks that are drawn for one that ends in time and has numbers that doubles hold. */
const MOST_DRAWS = 8;
const MANY_DIGITS = /\d[\d.]{15}|e[+-]?\d\d/i;
/** What a long walk takes when it may: ends of values first. */
const OUT = ['"', "}", "]", "0", "1", ":", ",", "l", "e"].map((text) => text.charCodeAt(0));

class Walk {
  readonly #matcher: GrammarMatcher;
  readonly #random: Random;
  readonly #bytes: number[] = [];
  #steps = 0;

  constructor(grammar: CompiledGrammar, random: Random) {
    this.#matcher = grammar.createMatcher();
    this.#random = random;
  }

  /** @returns The whole text; undefined where it did not end in time. */
  run(triesAll: boolean): string | undefined {
    const words = new Uint32Array(vocabulary.words);
    for (; this.#steps < LONGEST; this.#steps++) {
      this.#matcher.mask(words);
      const allowed = tokensOf(words);
      if (allowed.length === 0) throw new Error(`a dead end behind ${this.#text}`);
      this.#compare(words, triesAll);
      const token = this.#choose(allowed);
      if (!this.#matcher.accept(token)) throw new Error(`${token} refused behind ${this.#text}`);
      if (token === END) return this.#text;
      this.#bytes.push(...vocabulary.bytes(token)!);
    }
    return undefined;
  }

  get #text(): string {
    return new TextDecoder().decode(Uint8Array.from(this.#bytes));
  }

  #compare(words: Uint32Array, triesAll: boolean): void {
    for (let i = 0; i < (triesAll ? tokens.length : TRIED); i++) {
      const token = triesAll ? i : this.#random(tokens.length);
      const isAccepted = this.#matcher.accept(token);
      if (isAccepted) this.#matcher.rollback(1);
      const isAllowed = ((words[token >>> 5]! >>> (token & 31)) & 1) === 1;
      if (isAccepted !== isAllowed) throw new Error(`${token} differs behind ${this.#text}`);
    }
  }

  #choose(allowed: readonly number[]): number {
    if (allowed.includes(END) && this.#random(2) === 0) return END;
    if (this.#steps >= LONG) {
      const out = allowed.includes(END) ? END : OUT.find((token) => allowed.includes(token));
      if (out !== undefined && this.#random(8) > 0) return out;
    }
    return allowed[this.#random(allowed.length)]!;
  }
}

function grammarOf(schema: object): CompiledGrammar | undefined {
  try {
    const grammar = jsonSchemaGrammar(JSON.stringify(schema));
    return compileGrammar(grammar, { vocabulary, cache: new MaskCache(2 ** 26) });
  } catch (error) {
    if (error instanceof GrammarError) return undefined;
    throw error;
  }
}

/** Each says whether a value fits. */
function validatorsOf(schema: object): readonly ((value: unknown) => boolean)[] {
  // Without a precision, ajv takes no number from 1e21 on for a multiple of anything.
  const ajv = new Ajv2020({ strict: false, multipleOfPrecision: 9, logger: false });
  (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
  const validate = ajv.compile(schema);
  const second = new Validator(schema as Schema, "2020-12");
  return [(value) => validate(value) as boolean, (value) => second.validate(value).valid];
}

test.each(Array.from({ length: BATCHES }, (_, i) => i))(
  "what masks let through fits the schema, as two validators judge it: batch %i",
  (batch) => {
    const wrong: string[] = [];
    let [schemas, ended, drawnAgain] = [0, 0, 0];
    for (let seed = 100_000 * batch; schemas < SCHEMAS; seed++) {
      const random = seededRandom(seed + 31_000_000);
      const schema = new SchemaSource(random).schema() as object;
      const grammar = grammarOf(schema);
      if (grammar === undefined) continue;
      schemas += 1;
      const validators = validatorsOf(schema);
      let judged = 0;
      for (let i = 0; judged < WALKS && i < MOST_DRAWS * WALKS; i++) {
        const text = new Walk(grammar, random).run(i === 0);
        // What a double does not hold is another value to a validator.
        if (text === undefined || MANY_DIGITS.test(text)) {
          drawnAgain += 1;
          continue;
        }
        judged += 1;
        const value: unknown = JSON.parse(text);
        const verdicts = validators.map((fits) => fits(value));
        if (verdicts.includes(false)) {
          wrong.push(`seed ${seed}, ${verdicts}: ${text} in ${JSON.stringify(schema)}`);
        }
      }
      ended += judged;
    }
    console.log(`${schemas} schemas, ${ended} walks that were judged, ${drawnAgain} drawn again`);
    expect(wrong).toEqual([]);
    expect(ended).toBeGreaterThan(0.9 * SCHEMAS * WALKS);
  },
);
