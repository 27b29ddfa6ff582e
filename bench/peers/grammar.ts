/**
 * Our grammars beside XGrammar's, on the same vocabularies, constraints and texts:
 * `npm run bench:peers -- grammar`.
 *
 * @module
 */
import { loadavg } from "node:os";
import { performance } from "node:perf_hooks";
import { GrammarVocabulary } from "../../src/grammar/masks/grammar_vocabulary.ts";
import { ourFigures } from "../support/grammar_figures.ts";
import {
  FIGURE_NAMES,
  figureCells,
  GRAMMAR_SAMPLES,
  type GrammarFigures,
  type GrammarSample,
  percentile,
  type SizedTokenizer,
  sampleTokenizers,
  timed,
} from "../support/grammar_samples.ts";
import { table } from "../support/table.ts";
import { loadXGrammar, XGRAMMAR, type XGrammar } from "./web_xgrammar.ts";

const COMPILE_ROUNDS = 3;
const WARM_ROUNDS = 20;

export async function main(): Promise<void> {
  for (const { name, tokenizer } of await sampleTokenizers()) {
    const end = tokenizer.eosTokenId ?? 0;
    const ours = timed(() => new GrammarVocabulary(tokenizer.vocabulary, { endTokens: [end] }));
    const vocabulary = ours.result;
    const begun = performance.now();
    const peer = await Peer.create(tokenizer, end);
    const prepared = performance.now() - begun;
    const rows: string[][] = [];
    for (const sample of GRAMMAR_SAMPLES) {
      const ids = tokenizer.encode(sample.text);
      rows.push([sample.name, "wisp", ...figureCells(ourFigures(sample, { vocabulary, ids }))]);
      rows.push(["", "xgrammar", ...figureCells(await peer.figures(sample, ids))]);
    }
    const load = loadavg()[0]!.toFixed(1);
    console.log(`\n${name}: ${vocabulary.size} tokens, load average ${load}; ${XGRAMMAR}`);
    console.log(`prepared in ${ours.ms.toFixed(0)} ms, by xgrammar in ${prepared.toFixed(0)} ms`);
    console.log(table(["grammar", "engine", ...FIGURE_NAMES], rows));
  }
}

/** XGrammar with one vocabulary. */
class Peer {
  readonly #library: XGrammar;
  readonly #tokens: object;
  readonly #end: number;

  private constructor(library: XGrammar, tokens: object, end: number) {
    this.#library = library;
    this.#tokens = tokens;
    this.#end = end;
  }

  static async create({ vocabulary }: SizedTokenizer["tokenizer"], end: number): Promise<Peer> {
    const library = loadXGrammar();
    const spell = byteLevelSpelling();
    const tokens = Array.from({ length: vocabulary.size }, (_, id) =>
      // An empty text is a special token to it.
      vocabulary.isSpecial(id) ? "" : spell(vocabulary.bytes(id)),
    );
    const { size } = vocabulary;
    const { TokenizerInfo } = library;
    return new Peer(
      library,
      await TokenizerInfo.createTokenizerInfo(tokens, "byte_level", false, size, [end]),
      end,
    );
  }

  async #compile({ kind, source }: GrammarSample) {
    const compiler = await this.#library.GrammarCompiler.createGrammarCompiler(this.#tokens, false);
    if (kind === "ebnf") return compiler.compileGrammar(source, "root");
    return source === "true"
      ? compiler.compileBuiltinJSONGrammar()
      : compiler.compileJSONSchema(source);
  }

  /** @throws {Error} when the text does not fit. */
  async figures(sample: GrammarSample, ids: readonly number[]): Promise<GrammarFigures> {
    const rounds: { compile: number; cold: readonly number[] }[] = [];
    const warm: number[] = [];
    for (let round = 0; round < COMPILE_ROUNDS; round++) {
      const begun = performance.now();
      const grammar = await this.#compile(sample);
      const compile = performance.now() - begun;
      rounds.push({ compile, cold: await this.#walk(grammar, ids) });
      const isLast = round === COMPILE_ROUNDS - 1;
      for (let i = 0; isLast && i < WARM_ROUNDS; i++)
        warm.push(...(await this.#walk(grammar, ids)));
      grammar.dispose();
    }
    return {
      compile: percentile(
        rounds.map((round) => round.compile),
        0.5,
      ),
      firstMask: percentile(
        rounds.map((round) => round.compile + round.cold[0]! / 1000),
        0.5,
      ),
      cold: rounds.at(-1)!.cold,
      warm,
    };
  }

  /** Microseconds of each mask on the way through the tokens. */
  async #walk(
    grammar: Parameters<XGrammar["GrammarMatcher"]["createGrammarMatcher"]>[0],
    ids: readonly number[],
  ): Promise<number[]> {
    const matcher = await this.#library.GrammarMatcher.createGrammarMatcher(grammar);
    const masks: number[] = [];
    for (const id of [...ids, this.#end]) {
      const begun = performance.now();
      const words = await matcher.getNextTokenBitmask();
      masks.push(1000 * (performance.now() - begun));
      const isAllowed = ((words[id >>> 5]! >>> (id & 31)) & 1) === 1;
      if (!isAllowed || !matcher.acceptToken(id))
        throw new Error(`${XGRAMMAR} refused token ${id}`);
    }
    matcher.dispose();
    return masks.slice(0, -1);
  }
}

/** Bytes as the letters that byte-level vocabularies write them with. */
function byteLevelSpelling(): (bytes: Uint8Array) => string {
  let next = 256;
  const letters = Array.from({ length: 256 }, (_, byte) => {
    const isShown = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    return String.fromCharCode(isShown ? byte : next++);
  });
  return (bytes) => Array.from(bytes, (byte) => letters[byte]!).join("");
}
