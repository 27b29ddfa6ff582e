/**
 * Whatever a client brings as a constraint, it ends in an error or a working grammar, soon and in
 * bounded memory, and what others asked for is as it was.
 */
import { readFileSync } from "node:fs";
import { cpuUsage, memoryUsage } from "node:process";
import { expect, test } from "vitest";
import { InvalidRequestError } from "../../../src/errors.ts";
import { frontEnds } from "../../../src/grammar/constraints/backends.ts";
import { type Constraint, GrammarCompiler } from "../../../src/grammar/grammar.ts";
import { GrammarVocabulary } from "../../../src/grammar/masks/grammar_vocabulary.ts";
import { createTokenizer } from "../../../src/text/tokenizer.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { FAMILY_COUNT, hostileConstraint } from "../samples/hostile_constraints.ts";
import { seededRandom } from "../samples/sample_text.ts";
import { tokensOf } from "../samples/small_vocabulary.ts";

const FULL = process.env.WISP_TEST_FULL === "1";
const CONSTRAINTS = FULL ? 10_000 : 6 * FAMILY_COUNT;
const BATCHES = FULL ? 20 : 4;
/** Tokens of a walk. */
const STEPS = 12;

/**
 * Milliseconds of the processor: one second, twice over, as the same work takes that much longer
 * beside other programs, and the collector of garbage, which has threads of its own, counts too.
 */
const MOST_TIME = 2 * 1000;
/** Bytes of JavaScript's heap, with what is not collected yet. */
const MOST_MEMORY = 2 * 2 ** 30;

const END = 1;
const tokenizer = createTokenizer(
  JSON.parse(readFileSync(`${EMBEDDED_MODEL}/tokenizer.json`, "utf8")),
);
const vocabulary = new GrammarVocabulary(tokenizer.vocabulary, { endTokens: [END] });
const options = { vocabulary, frontEnds: frontEnds() };
const words = new Uint32Array(vocabulary.words);

interface Outcome {
  /** Milliseconds of the slowest operation: compiling, a mask, a token. */
  readonly slowest: number;
  readonly works: boolean;
}

/** Milliseconds of the processor so far. */
function processorTime(): number {
  const { user, system } = cpuUsage();
  return (user + system) / 1000;
}

/** Compiles a constraint and goes on in it at random. */
function run(compiler: GrammarCompiler, constraint: Constraint, seed: number): Outcome {
  let [slowest, works] = [0, false];
  const timed = <T>(work: () => T): T => {
    const start = processorTime();
    try {
      return work();
    } finally {
      slowest = Math.max(slowest, processorTime() - start);
    }
  };
  const random = seededRandom(seed);
  try {
    const matcher = timed(() => compiler.compile(constraint).createMatcher());
    for (let step = 0; step < STEPS && !matcher.isFinished; step++) {
      timed(() => matcher.mask(words));
      const allowed = tokensOf(words);
      expect(allowed.length).toBeGreaterThan(0);
      expect(allowed.includes(END)).toBe(matcher.isAccepting);
      timed(() => matcher.forcedText());
      expect(timed(() => matcher.accept(allowed[random(allowed.length)]!))).toBe(true);
    }
    works = true;
  } catch (error) {
    // Errors of grammars are among these.
    if (!(error instanceof InvalidRequestError)) throw error;
  }
  return { slowest, works };
}

/** Answers of harmless constraints, which share the compiler and its caches with the others. */
function harmless(compiler: GrammarCompiler): readonly (readonly number[])[] {
  const constraints: readonly Constraint[] = [
    { kind: "regex", source: "[a-z]{3,9}( [a-z]{3,9}){2}" },
    { kind: "ebnf", source: 'root ::= "(" root* ")"' },
    { kind: "json_schema", source: '{"type":"array","items":{"type":"integer"}}' },
  ];
  return constraints.map((constraint) => {
    const matcher = compiler.compile(constraint).createMatcher();
    const random = seededRandom(1);
    return Array.from({ length: STEPS }, () => {
      matcher.mask(words);
      const allowed = tokensOf(words).filter((token) => token !== END);
      const token = allowed[random(allowed.length)]!;
      matcher.accept(token);
      return token;
    });
  });
}

test.each(Array.from({ length: BATCHES }, (_, i) => i))(
  "hostile constraints are refused or work, batch %i",
  (batch) => {
    const compiler = new GrammarCompiler(options);
    const expected = harmless(compiler);
    const slow: string[] = [];
    let [works, memory] = [0, 0];
    for (let seed = batch; seed < CONSTRAINTS; seed += BATCHES) {
      const constraint = hostileConstraint(seed, { huge: FULL });
      const shown = `seed ${seed}, ${constraint.family}`;
      let outcome: Outcome;
      try {
        outcome = run(compiler, constraint, seed);
      } catch (cause) {
        throw new Error(`${shown}: ${cause}`, { cause });
      }
      if (outcome.works) works += 1;
      if (outcome.slowest > MOST_TIME) slow.push(`${shown}: ${outcome.slowest.toFixed(0)} ms`);
      memory = Math.max(memory, memoryUsage().heapUsed);
    }
    expect(harmless(compiler)).toEqual(expected);
    const share = works / (CONSTRAINTS / BATCHES);
    expect(share).toBeGreaterThan(0.2);
    expect(share).toBeLessThan(0.8);
    if (!FULL) return;
    expect(slow).toEqual([]);
    expect(memory).toBeLessThan(MOST_MEMORY);
  },
);

test("large constraints of the kinds that people use are within the bounds", () => {
  const names = Array.from({ length: 200 }, (_, i) => `the kind of number ${i}`);
  const kind = (name: string) => ({
    type: "object",
    properties: { kind: { const: name }, value: { type: "integer" } },
    required: ["kind", "value"],
    additionalProperties: false,
  });
  const functions = names.slice(0, 128).map((name) => ({ name, parameters: kind(name) }));
  const tools = { format: "qwen25", required: false, parallel: true, functions };
  const compiler = new GrammarCompiler(options);
  for (const constraint of [
    { kind: "json_schema", source: JSON.stringify({ oneOf: names.map(kind) }) },
    { kind: "tools", source: JSON.stringify(tools) },
  ] as const) {
    const matcher = compiler.compile(constraint).createMatcher();
    matcher.mask(words);
    expect(tokensOf(words).length).toBeGreaterThan(0);
  }
});
