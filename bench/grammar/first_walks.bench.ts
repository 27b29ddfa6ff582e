/**
 * The tail of first walks: masks of states that no walk has met, over collections of schemas.
 *
 * Every valid value of each schema is walked through token by token with a fresh grammar, three
 * times; of each mask and of compiling the quickest of the three counts. Nothing is made ahead here.
 *
 * @module
 */
import { readdirSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { cpuUsage } from "node:process";
import { test } from "vitest";
import { frontEnds } from "../../src/grammar/constraints/backends.ts";
import { type CompiledGrammar, GrammarCompiler } from "../../src/grammar/grammar.ts";
import { GrammarError } from "../../src/grammar/grammar_error.ts";
import { GrammarVocabulary } from "../../src/grammar/masks/grammar_vocabulary.ts";
import { ALL_COLLECTIONS } from "../../test/grammar/collections/all_collections.ts";
import { hasSharedData, sharedJson, skipNote } from "../../test/text/shared_data.ts";
import { percentile, type SizedTokenizer, sampleTokenizers } from "../support/grammar_samples.ts";
import { table } from "../support/table.ts";

const ROUNDS = 3;
const SUITE = "json-schema-test-suite/draft2020-12";
const NAMES = [
  ...["vocabulary", "schemas", "refused", "compile ms: p50", "p99", "masks", "mask ms: p50", "p99"],
  ...["p99.9", "max", "later ms: p99", "MB: p50", "p99"],
];

interface Sample {
  readonly schema: unknown;
  readonly valid: readonly unknown[];
}

interface SuiteGroup {
  readonly schema: unknown;
  readonly tests: readonly { readonly data: unknown; readonly valid: boolean }[];
}

/**
 * Milliseconds that some work takes, of the processor where that is less: others of the machine's
 * programs do not count, and neither does what another thread of this one tidies up.
 */
function timed<T>(work: () => T): { readonly ms: number; readonly result: T } {
  const [usage, started] = [cpuUsage(), performance.now()];
  const result = work();
  const [wall, { user, system }] = [performance.now() - started, cpuUsage(usage)];
  return { ms: Math.min(wall, (user + system) / 1000), result };
}

function suite(): readonly Sample[] {
  const folder = new URL(`../../../shared/data/${SUITE}`, import.meta.url);
  const files = (readdirSync(folder, { recursive: true }) as string[]).filter((name) =>
    name.endsWith(".json"),
  );
  return files.flatMap((file) =>
    sharedJson<readonly SuiteGroup[]>(`${SUITE}/${file}`).map(({ schema, tests }) => ({
      schema,
      valid: tests.filter(({ valid }) => valid).map(({ data }) => data),
    })),
  );
}

class Measured {
  readonly compile: number[] = [];
  readonly first: number[] = [];
  readonly later: number[] = [];
  readonly bytes: number[] = [];
  refused = 0;

  add({ schema, valid }: Sample, vocabulary: GrammarVocabulary, { tokenizer }: SizedTokenizer) {
    const source = JSON.stringify(schema);
    const texts = valid.map((value) => tokenizer.encode(JSON.stringify(value)));
    const rounds: { readonly compile: number; readonly masks: readonly number[] }[] = [];
    let grammar: CompiledGrammar | undefined;
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const compiler = new GrammarCompiler({ vocabulary, frontEnds: frontEnds() });
        const compiled = timed(() => compiler.compile({ kind: "json_schema", source }));
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
    this.bytes.push(grammar!.bytes / 2 ** 20);
  }
}

/** Milliseconds of each mask; a text ends where the grammar spells a value in another way. */
function walks(
  grammar: CompiledGrammar,
  texts: readonly (readonly number[])[],
  vocabulary: GrammarVocabulary,
): number[] {
  const words = new Uint32Array(vocabulary.words);
  return texts.flatMap((ids) => {
    const matcher = grammar.createMatcher();
    const times: number[] = [];
    for (const id of ids) {
      times.push(timed(() => matcher.mask(words)).ms);
      if (!matcher.accept(id)) break;
    }
    return times;
  });
}

test(`first walks${skipNote}`, async () => {
  console.log(
    `${cpus()[0]!.model}, Node ${process.versions.node}, load ${loadavg()[0]!.toFixed(1)}`,
  );
  const sets: Readonly<Record<string, readonly Sample[]>> = {
    collections: ALL_COLLECTIONS,
    ...(hasSharedData && { suite: suite() }),
  };
  for (const [name, samples] of Object.entries(sets)) {
    const rows: string[][] = [];
    for (const sized of await sampleTokenizers()) {
      const { vocabulary: tokens, eosTokenId = 0 } = sized.tokenizer;
      const vocabulary = new GrammarVocabulary(tokens, { endTokens: [eosTokenId ?? 0] });
      const all = new Measured();
      for (const sample of samples) all.add(sample, vocabulary, sized);
      const at = (list: readonly number[], ...shares: readonly number[]) =>
        shares.map((share) => percentile(list, share).toFixed(2));
      rows.push([
        `${sized.name} (${vocabulary.size})`,
        `${samples.length}`,
        `${all.refused}`,
        ...at(all.compile, 0.5, 0.99),
        `${all.first.length}`,
        ...at(all.first, 0.5, 0.99, 0.999, 1),
        ...at(all.later, 0.99),
        ...at(all.bytes, 0.5, 0.99),
      ]);
    }
    console.log(`${name}\n${table(NAMES, rows)}`);
  }
}, 1_800_000);
