/**
 * What a grammar costs: preparing a vocabulary, compiling, and a mask, the first time and later.
 *
 * Every grammar is walked token by token through a text of its own, as a model would. "cold" is the
 * first walk of a fresh grammar, whose masks no walk has asked for yet; "warm" are later walks.
 *
 * @module
 */
import { cpus } from "node:os";
import { expect, test } from "vitest";
import { GrammarVocabulary } from "../../src/grammar/masks/grammar_vocabulary.ts";
import { skipNote } from "../../test/text/shared_data.ts";
import { ourFigures } from "../support/grammar_figures.ts";
import {
  FIGURE_NAMES,
  figureCells,
  GRAMMAR_SAMPLES,
  percentile,
  sampleTokenizers,
  timed,
} from "../support/grammar_samples.ts";
import { table } from "../support/table.ts";

/** Microseconds of a mask that was made before: half of them, and 99 of 100. */
const WARM_LIMITS = { median: 20, slow: 1000 };
/** Milliseconds until a vocabulary is prepared, and until the first mask of a tool is there. */
const PREPARING_LIMIT = 1500;
const FIRST_MASK_LIMIT = 50;
/** For the latter: 102,400 tokens. */
const AIMED_AT = "deepseek-llm";

test(`masks${skipNote}`, async () => {
  console.log(`${cpus()[0]!.model}, Node ${process.versions.node}`);
  const missed: string[] = [];
  const check = (what: string, value: number, limit: number) => {
    if (value >= limit) missed.push(`${what}: ${value.toFixed(1)}, at most ${limit}`);
  };
  for (const { name, tokenizer } of await sampleTokenizers()) {
    const { vocabulary: tokens } = tokenizer;
    const { ms, result: vocabulary } = timed(
      () => new GrammarVocabulary(tokens, { endTokens: [tokenizer.eosTokenId ?? 0] }),
    );
    const rows = GRAMMAR_SAMPLES.map((sample) => {
      const figures = ourFigures(sample, { vocabulary, ids: tokenizer.encode(sample.text) });
      const what = `${name}, ${sample.name}`;
      check(`${what}, half of the warm masks`, percentile(figures.warm, 0.5), WARM_LIMITS.median);
      check(`${what}, slow warm masks`, percentile(figures.warm, 0.99), WARM_LIMITS.slow);
      if (sample.name === "tool schema" && name === AIMED_AT) {
        check(`${what}, first mask`, figures.firstMask, FIRST_MASK_LIMIT);
      }
      return [sample.name, ...figureCells(figures)];
    });
    console.log(
      `${name}: ${vocabulary.size} tokens, ${vocabulary.whole.size} trie nodes, ` +
        `prepared in ${ms.toFixed(0)} ms\n${table(["grammar", ...FIGURE_NAMES], rows)}`,
    );
    check(`${name}, preparing`, ms, PREPARING_LIMIT);
  }
  expect(missed).toEqual([]);
}, 300_000);
