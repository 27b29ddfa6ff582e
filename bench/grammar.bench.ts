/**
 * What a grammar costs: preparing a vocabulary, compiling, and a mask, the first time and later.
 *
 * Every grammar is walked token by token through a text of its own, as a model would. "cold" is the
 * first walk of a fresh grammar, whose masks nobody has asked for yet; "warm" are later walks.
 *
 * @module
 */
import { cpus } from "node:os";
import { performance } from "node:perf_hooks";
import { beforeAll, describe, expect, test } from "vitest";
import type { Grammar } from "../src/grammar/expression.ts";
import { type CompiledGrammar, compileGrammar } from "../src/grammar/grammar.ts";
import { GrammarVocabulary } from "../src/grammar/grammar_vocabulary.ts";
import { MaskCache } from "../src/grammar/mask_cache.ts";
import { createTokenizer, type Tokenizer } from "../src/text/tokenizer.ts";
import { json, longString, person, uuid } from "../test/grammar/sample_grammars.ts";
import { hasSharedData, sharedJson, skipNote } from "../test/text/shared_data.ts";

const WARM_ROUNDS = 50;
/** Microseconds of a mask that was made before: half of them, and 99 of 100. */
const WARM_LIMITS = { median: 20, slow: 1000 };

interface Sample {
  readonly name: string;
  readonly grammar: Grammar;
  readonly text: string;
}

const record = { name: "Zoë", tags: ["a", "b c"], size: [1.5, -2e7, 0], ok: true, next: null };
const prose = "The quick brown fox jumps over the lazy dog. 東京都は日本の首都である。";

const SAMPLES: readonly Sample[] = [
  {
    name: "JSON",
    grammar: json,
    text: JSON.stringify([record, { nested: { deeper: [record, [[record]]] }, prose }], null, 2),
  },
  {
    name: "object",
    grammar: person,
    text: '{"name": "Ada Lovelace", "city": "Saint-Étienne", "age": 36, "colour": "green", "tags": ["one","two"]}',
  },
  { name: "string {0,4096}", grammar: longString, text: JSON.stringify(prose.repeat(60)) },
  { name: "UUID", grammar: uuid, text: "123e4567-e89b-12d3-a456-426614174000" },
];

/** Milliseconds that some work takes, and what it gives. */
function time<T>(work: () => T): { readonly ms: number; readonly result: T } {
  const started = performance.now();
  const result = work();
  return { ms: performance.now() - started, result };
}

/** Microseconds of each mask on the way through the tokens. */
function walk(grammar: CompiledGrammar, ids: readonly number[], words: Uint32Array) {
  const matcher = grammar.createMatcher();
  const masks: number[] = [];
  const accepts: number[] = [];
  for (const id of ids) {
    masks.push(1000 * time(() => matcher.mask(words)).ms);
    const bit = (words[id >>> 5]! >>> (id & 31)) & 1;
    const { ms, result } = time(() => matcher.accept(id));
    accepts.push(1000 * ms);
    if (bit !== 1 || !result) throw new Error(`token ${id} was refused`);
  }
  if (!matcher.isAccepting) throw new Error("the text is not complete");
  return { masks, accepts };
}

function at(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(Math.floor(values.length * share), values.length - 1)]!;
}

const show = (values: readonly number[]) =>
  [0.5, 0.9, 0.99, 1].map((share) => at(values, share).toFixed(1).padStart(8)).join(" ");

beforeAll(() => {
  console.log(`${cpus()[0]!.model}, Node ${process.versions.node}`);
});

describe.skipIf(!hasSharedData)(`masks${skipNote}`, () => {
  test.each(["gpt-2", "deepseek-llm"])(
    "%s",
    (name) => {
      const tokenizer: Tokenizer = createTokenizer(sharedJson(`tokenizers/${name}/tokenizer.json`));
      const create = () => new GrammarVocabulary(tokenizer.vocabulary, { endTokens: [0] });
      const { ms: preparing, result: vocabulary } = time(create);
      const words = new Uint32Array(vocabulary.words);
      const lines = [
        `${name}: ${vocabulary.size} tokens, ${vocabulary.whole.size} trie nodes, prepared in ${preparing.toFixed(0)} ms`,
        "masks and accepts in us: half, 90 %, 99 % and all are faster than",
      ];
      for (const { name: title, grammar, text } of SAMPLES) {
        const ids = tokenizer.encode(text);
        const compile = () =>
          compileGrammar(grammar, { vocabulary, cache: new MaskCache(256 * 2 ** 20) });
        const compiling = time(compile).ms;
        const compiled = compile();
        const cold = walk(compiled, ids, words).masks;
        const warm = Array.from({ length: WARM_ROUNDS }, () => walk(compiled, ids, words));
        const masks = warm.flatMap((round) => round.masks);
        const accepts = warm.flatMap((round) => round.accepts);
        lines.push(
          `${title}: ${ids.length} tokens, compiled in ${compiling.toFixed(1)} ms, ${(compiled.bytes / 2 ** 20).toFixed(1)} MiB`,
          `  cold mask ${show(cold)}   all together ${(cold.reduce((sum, us) => sum + us, 0) / 1000).toFixed(1)} ms`,
          `  warm mask ${show(masks)}`,
          `  accept    ${show(accepts)}`,
        );
        expect(at(masks, 0.5)).toBeLessThan(WARM_LIMITS.median);
        expect(at(masks, 0.99)).toBeLessThan(WARM_LIMITS.slow);
      }
      console.log(lines.join("\n"));
    },
    120_000,
  );
});
