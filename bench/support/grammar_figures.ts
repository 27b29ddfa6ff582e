/**
 * Measures our grammars: compiling, the first mask, and the masks of walks through a text.
 *
 * @module
 */
import { frontEnds } from "../../src/grammar/constraints/backends.ts";
import { type CompiledGrammar, GrammarCompiler } from "../../src/grammar/grammar.ts";
import type { GrammarVocabulary } from "../../src/grammar/masks/grammar_vocabulary.ts";
import { type GrammarFigures, type GrammarSample, percentile, timed } from "./grammar_samples.ts";

/** Fresh compilers; half of them are faster than what is reported. */
const COMPILE_ROUNDS = 3;
const WARM_ROUNDS = 20;

/** @throws {Error} when the text does not fit. */
export function ourFigures(
  sample: GrammarSample,
  { vocabulary, ids }: { readonly vocabulary: GrammarVocabulary; readonly ids: readonly number[] },
): GrammarFigures {
  const words = new Uint32Array(vocabulary.words);
  const rounds = Array.from({ length: COMPILE_ROUNDS }, () => {
    const compiler = new GrammarCompiler({ vocabulary, frontEnds: frontEnds() });
    const { ms: compile, result: grammar } = timed(() => compiler.compile(sample));
    const cold = walk(grammar, ids, words);
    return { grammar, compile, firstMask: compile + cold[0]! / 1000, cold };
  });
  const { grammar, cold } = rounds.at(-1)!;
  return {
    compile: percentile(
      rounds.map((round) => round.compile),
      0.5,
    ),
    firstMask: percentile(
      rounds.map((round) => round.firstMask),
      0.5,
    ),
    cold,
    warm: Array.from({ length: WARM_ROUNDS }, () => walk(grammar, ids, words)).flat(),
  };
}

/** Microseconds of each mask on the way through the tokens. */
function walk(grammar: CompiledGrammar, ids: readonly number[], words: Uint32Array): number[] {
  const matcher = grammar.createMatcher();
  const masks = ids.map((id) => {
    const { ms } = timed(() => matcher.mask(words));
    const isAllowed = ((words[id >>> 5]! >>> (id & 31)) & 1) === 1;
    if (!isAllowed || !matcher.accept(id)) throw new Error(`token ${id} was refused`);
    return 1000 * ms;
  });
  if (!matcher.isAccepting) throw new Error("the text is not complete");
  return masks;
}
