/**
 * The tail of first walks: masks of states that no walk has met, over collections of schemas.
 *
 * Every valid value of each schema is walked through token by token with a fresh grammar, three
 * times; of each mask and of compiling the quickest of the three counts. Nothing is made ahead there.
 * In a fourth walk masks are made ahead for 10 ms a token, as an engine's worker does while the model
 * computes, and what the engine waits for is measured.
 *
 * @module
 */
import { cpus, loadavg } from "node:os";
import { test } from "vitest";
import { type Explored, Foresight } from "../../src/engine/grammar/foresight.ts";
import { frontEnds } from "../../src/grammar/constraints/backends.ts";
import { type CompiledGrammar, GrammarCompiler } from "../../src/grammar/grammar.ts";
import { GrammarError } from "../../src/grammar/grammar_error.ts";
import { GrammarVocabulary } from "../../src/grammar/masks/grammar_vocabulary.ts";
import { skipNote } from "../../test/text/shared_data.ts";
import { percentile, type SizedTokenizer, sampleTokenizers } from "../support/grammar_samples.ts";
import { processorTimed, type WalkedSchema, walkedSchemas } from "../support/schema_walks.ts";
import { table } from "../support/table.ts";

const ROUNDS = 3;
/** Of a model that computes a token, in which masks are made ahead. */
const STEP_MS = 10;
const NAMES = [
  ...["vocabulary", "schemas", "refused", "compile ms: p50", "p99", "masks", "mask ms: p50", "p99"],
  ...["p99.9", "max", "ahead ms: p99.9", "max", "later ms: p99", "MB: p50", "p99"],
];

class Measured {
  readonly compile: number[] = [];
  readonly first: number[] = [];
  readonly later: number[] = [];
  /** Masks that an engine waits for, whose worker makes masks ahead while the model computes. */
  readonly ahead: number[] = [];
  readonly bytes: number[] = [];
  refused = 0;

  add(
    { schema, valid }: WalkedSchema,
    vocabulary: GrammarVocabulary,
    { tokenizer }: SizedTokenizer,
  ) {
    const source = JSON.stringify(schema);
    const texts = valid.map((value) => tokenizer.encode(JSON.stringify(value)));
    const rounds: { readonly compile: number; readonly masks: readonly number[] }[] = [];
    let grammar: CompiledGrammar | undefined;
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const compiler = new GrammarCompiler({ vocabulary, frontEnds: frontEnds() });
        const compiled = processorTimed(() => compiler.compile({ kind: "json_schema", source }));
        grammar = compiled.result;
        rounds.push({ compile: compiled.ms, masks: walks(grammar, texts, vocabulary) });
      }
    } catch (error) {
      if (!(error instanceof GrammarError)) throw error;
      this.refused += 1;
      return;
    }
    const least = (of: (round: (typeof rounds)[number]) => number) =>
      rounds.reduce((lowest, round) => Math.min(lowest, of(round)), Number.POSITIVE_INFINITY);
    this.compile.push(least(({ compile }) => compile));
    for (const i of rounds[0]!.masks.keys()) this.first.push(least(({ masks }) => masks[i]!));
    for (const ms of walks(grammar!, texts, vocabulary)) this.later.push(ms);
    const compiler = new GrammarCompiler({ vocabulary, frontEnds: frontEnds() });
    const fresh = compiler.compile({ kind: "json_schema", source });
    for (const ms of walks(fresh, texts, vocabulary, STEP_MS)) this.ahead.push(ms);
    this.bytes.push(grammar!.bytes / 2 ** 20);
  }
}

/** Milliseconds of each mask; a text ends where the grammar spells a value in another way. */
function walks(
  grammar: CompiledGrammar,
  texts: readonly (readonly number[])[],
  vocabulary: GrammarVocabulary,
  stepMs = 0,
): number[] {
  const words = new Uint32Array(vocabulary.words);
  const explored: Explored = new WeakMap();
  return texts.flatMap((ids) => {
    const matcher = grammar.createMatcher();
    const times: number[] = [];
    for (const id of ids) {
      times.push(processorTimed(() => matcher.mask(words)).ms);
      if (stepMs > 0) {
        const foresight = new Foresight(matcher, words.length, explored);
        foresight.work(performance.now() + stepMs);
      }
      if (!matcher.accept(id)) break;
    }
    return times;
  });
}

const tokenizers = await sampleTokenizers();
const runs = Object.entries(walkedSchemas()).flatMap(([name, samples]) =>
  tokenizers.map((sized) => ({ name, samples, sized })),
);

test.each(runs)(
  `first walks: $name, $sized.name${skipNote}`,
  ({ name, samples, sized }) => {
    const { vocabulary: tokens, eosTokenId = 0 } = sized.tokenizer;
    const vocabulary = new GrammarVocabulary(tokens, { endTokens: [eosTokenId ?? 0] });
    const all = new Measured();
    for (const sample of samples) all.add(sample, vocabulary, sized);
    const at = (list: readonly number[], ...shares: readonly number[]) =>
      shares.map((share) => percentile(list, share).toFixed(2));
    const row = [
      `${sized.name} (${vocabulary.size})`,
      `${samples.length}`,
      `${all.refused}`,
      ...at(all.compile, 0.5, 0.99),
      `${all.first.length}`,
      ...at(all.first, 0.5, 0.99, 0.999, 1),
      ...at(all.ahead, 0.999, 1),
      ...at(all.later, 0.99),
      ...at(all.bytes, 0.5, 0.99),
    ];
    const machine = `${cpus()[0]!.model}, Node ${process.versions.node}, load ${loadavg()[0]!.toFixed(1)}`;
    console.log(`${machine}\n${name}\n${table(NAMES, [row])}`);
  },
  1_800_000,
);
