/**
 * The slowest masks of first walks with what made them slow: `npm run bench -- bench/grammar/slow_masks`.
 *
 * Every valid value of each schema is walked through token by token with a fresh grammar, three
 * times; the quickest of the three counts. The slowest ones are then walked once more with counters.
 *
 * @module
 */
import { loadavg } from "node:os";
import { expect, test } from "vitest";
import { Configurations } from "../../src/grammar/automaton/configurations.ts";
import { frontEnds } from "../../src/grammar/constraints/backends.ts";
import { Positions } from "../../src/grammar/distinct/positions.ts";
import { type CompiledGrammar, GrammarCompiler } from "../../src/grammar/grammar.ts";
import { GrammarError } from "../../src/grammar/grammar_error.ts";
import { GrammarVocabulary } from "../../src/grammar/masks/grammar_vocabulary.ts";
import { TextRegions } from "../../src/grammar/masks/text_regions.ts";
import { TrieWalk } from "../../src/grammar/masks/trie_walk.ts";
import type { GrammarMatcher } from "../../src/grammar/matcher.ts";
import { skipNote } from "../../test/text/shared_data.ts";
import { type SizedTokenizer, sampleTokenizers } from "../support/grammar_samples.ts";
import { processorTimed, type WalkedSchema, walkedSchemas } from "../support/schema_walks.ts";
import { table } from "../support/table.ts";

const ROUNDS = 3;
const SHOWN = 50;
const NAMES = ["ms", "schema", "tokens before it", "state", "threads", "walks", "regions"];
const MORE_NAMES = ["edges", "steps of lists", "searches", "new MB", "compile ms"];

/** Calls while a mask is made. */
interface Counts {
  /** Walks over a vocabulary or a part of it, and parts of them that were taken as text of one kind. */
  walks: number;
  regions: number;
  /** Edges of configurations that were not known. */
  edges: number;
  /** Bytes followed where items must differ, and searches for the rest of an item. */
  steps: number;
  searches: number;
}

interface SlowMask {
  readonly ms: number;
  readonly compile: number;
  readonly sample: WalkedSchema;
  readonly text: number;
  readonly token: number;
}

let counts: Counts = noCounts();

function noCounts(): Counts {
  return { walks: 0, regions: 0, edges: 0, steps: 0, searches: 0 };
}

/** Counts calls of the parts that make masks until it is told to stop. */
function countCalls(): () => void {
  const [walk, regions, configurations, positions] = [
    TrieWalk.prototype,
    TextRegions.prototype,
    Configurations.prototype,
    Positions.prototype,
  ];
  const before = {
    follow: walk.follow,
    of: regions.of,
    edge: configurations.step,
    step: positions.step,
    canDiffer: positions.canDiffer,
  };
  walk.follow = function (...given) {
    counts.walks += 1;
    return before.follow.apply(this, given);
  };
  regions.of = function (...given) {
    const region = before.of.apply(this, given);
    if (region !== undefined) counts.regions += 1;
    return region;
  };
  configurations.step = function (...given) {
    if (given[0].next(given[1]) === undefined) counts.edges += 1;
    return before.edge.apply(this, given);
  };
  positions.step = function (...given) {
    counts.steps += 1;
    return before.step.apply(this, given);
  };
  positions.canDiffer = function (...given) {
    counts.searches += 1;
    return before.canDiffer.apply(this, given);
  };
  return () => {
    walk.follow = before.follow;
    regions.of = before.of;
    configurations.step = before.edge;
    positions.step = before.step;
    positions.canDiffer = before.canDiffer;
  };
}

class Walker {
  readonly vocabulary: GrammarVocabulary;
  readonly sized: SizedTokenizer;
  readonly #words: Uint32Array;

  constructor(sized: SizedTokenizer) {
    this.sized = sized;
    const { vocabulary: tokens, eosTokenId } = sized.tokenizer;
    this.vocabulary = new GrammarVocabulary(tokens, { endTokens: [eosTokenId ?? 0] });
    this.#words = new Uint32Array(this.vocabulary.words);
  }

  compile({ schema }: WalkedSchema) {
    const compiler = new GrammarCompiler({ vocabulary: this.vocabulary, frontEnds: frontEnds() });
    const source = JSON.stringify(schema);
    return processorTimed(() => compiler.compile({ kind: "json_schema", source }));
  }

  texts({ valid }: WalkedSchema): readonly (readonly number[])[] {
    return valid.map((value) => this.sized.tokenizer.encode(JSON.stringify(value)));
  }

  /** Masks of all texts, with the indices of the text and the token they are for. */
  walk(
    grammar: CompiledGrammar,
    sample: WalkedSchema,
    see: (mask: { ms: number; text: number; token: number; matcher: GrammarMatcher }) => void,
  ): void {
    for (const [text, ids] of this.texts(sample).entries()) {
      const matcher = grammar.createMatcher();
      for (const [token, id] of ids.entries()) {
        const { ms } = processorTimed(() => matcher.mask(this.#words));
        see({ ms, text, token, matcher });
        if (!matcher.accept(id)) break;
      }
    }
  }

  /** The masks of a schema, each with its quickest time. */
  measure(sample: WalkedSchema): SlowMask[] {
    const masks: SlowMask[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const { ms: compile, result: grammar } = this.compile(sample);
      let i = 0;
      this.walk(grammar, sample, ({ ms, text, token }) => {
        const known = masks[i];
        masks[i++] = {
          sample,
          text,
          token,
          ms: Math.min(ms, known?.ms ?? ms),
          compile: Math.min(compile, known?.compile ?? compile),
        };
      });
    }
    return masks;
  }

  /** A row for each slow mask of one schema. */
  explain(slow: readonly SlowMask[]): string[][] {
    const { sample } = slow[0]!;
    const { result: grammar } = this.compile(sample);
    const texts = this.texts(sample);
    const rows: string[][] = [];
    const stop = countCalls();
    let bytes = grammar.bytes;
    counts = noCounts();
    this.walk(grammar, sample, ({ text, token, matcher }) => {
      const found = slow.find((one) => one.text === text && one.token === token);
      const { walks, regions, edges, steps, searches } = counts;
      if (found !== undefined) {
        const before = this.sized.tokenizer.decode(texts[text]!.slice(0, token));
        const threads = (matcher.place as { threads: readonly unknown[] }).threads.length;
        rows.push([
          ...[found.ms.toFixed(1), sample.name.slice(0, 40), before.slice(-24)],
          ...[stateOf(before), `${threads}`],
          ...[walks, regions, edges, steps, searches].map(String),
          ...[((grammar.bytes - bytes) / 2 ** 20).toFixed(1), found.compile.toFixed(0)],
        ]);
      }
      bytes = grammar.bytes;
      counts = noCounts();
    });
    stop();
    return rows;
  }
}

function bySchema(masks: readonly SlowMask[]): Map<WalkedSchema, SlowMask[]> {
  const found = new Map<WalkedSchema, SlowMask[]>();
  for (const mask of masks) found.set(mask.sample, [...(found.get(mask.sample) ?? []), mask]);
  return found;
}

/** Where in a JSON text its end stands. */
function stateOf(text: string): string {
  const open = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '"');
  if (/"[^"]*(?:\\.[^"]*)*$/.test(open) && (open.match(/"/g)?.length ?? 0) > 0) {
    const within = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, "");
    if (within.includes('"')) return /[{,]\s*"[^"]*$/.test(within) ? "key or item" : "string";
  }
  if (/[\d.eE+-]$/.test(text)) return "number";
  if (/:\s*$/.test(text)) return "before a value";
  if (/[[{,]\s*$/.test(text)) return "before an item";
  return text === "" ? "start" : "behind a value";
}

test(`slow masks${skipNote}`, async () => {
  console.log(`Node ${process.versions.node}, load ${loadavg()[0]!.toFixed(1)}`);
  for (const sized of (await sampleTokenizers()).slice(-1)) {
    for (const [name, samples] of Object.entries(walkedSchemas())) {
      const walker = new Walker(sized);
      const masks: SlowMask[] = [];
      for (const sample of samples) {
        try {
          for (const mask of walker.measure(sample)) masks.push(mask);
        } catch (error) {
          if (!(error instanceof GrammarError)) throw error;
        }
      }
      const slow = masks.sort((a, b) => b.ms - a.ms).slice(0, SHOWN);
      const bySample = bySchema(slow);
      const rows = [...bySample.values()].flatMap((group) => walker.explain(group));
      expect(rows).toHaveLength(slow.length);
      rows.sort((a, b) => Number(b[0]) - Number(a[0]));
      console.log(`${name}, ${sized.name}\n${table([...NAMES, ...MORE_NAMES], rows)}`);
    }
  }
}, 1_800_000);
