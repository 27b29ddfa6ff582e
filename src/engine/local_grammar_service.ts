/**
 * Grammars followed in the engine's own thread, in short slices of time.
 *
 * @module
 */
import { frontEndsOf, type GrammarBackend } from "../grammar/backends.ts";
import { type Constraint, GrammarCompiler } from "../grammar/grammar.ts";
import { GrammarError } from "../grammar/grammar_error.ts";
import { GrammarVocabulary } from "../grammar/grammar_vocabulary.ts";
import type { GrammarMatcher } from "../grammar/matcher.ts";
import type { GrammarService, GrammarSession, NextTokens } from "./grammar_service.ts";
import type { TextModel } from "./text_model.ts";

/** Milliseconds of work before others get a turn. */
const SLICE_MS = 2;

/** Lets timers, sockets and the GPU's answers through. */
const othersTurn = () => new Promise<void>((resolve) => setTimeout(resolve));

export class LocalGrammarService implements GrammarService {
  readonly #createCompiler: () => GrammarCompiler;
  #compiler: GrammarCompiler | undefined;

  /** @param createCompiler Called for the first constraint: preparing a vocabulary takes a while. */
  constructor(createCompiler: () => GrammarCompiler) {
    this.#createCompiler = createCompiler;
  }

  async open(constraint: Constraint): Promise<GrammarSession> {
    this.#compiler ??= this.#createCompiler();
    const grammar = this.#compiler.compile(constraint);
    return new LocalGrammarSession(grammar.createMatcher(), this.#compiler.words);
  }

  close(): void {
    this.#compiler = undefined;
  }
}

class LocalGrammarSession implements GrammarSession {
  readonly #matcher: GrammarMatcher;
  readonly #words: number;

  constructor(matcher: GrammarMatcher, words: number) {
    this.#matcher = matcher;
    this.#words = words;
  }

  advance(tokens: readonly number[]): NextTokens | Promise<NextTokens> {
    for (const token of tokens) {
      if (this.#matcher.accept(token)) continue;
      throw new GrammarError(`Cannot go on: the grammar does not allow token ${token} here`);
    }
    const isReady = this.#matcher.prepareMask(performance.now() + SLICE_MS);
    return isReady ? this.#next() : this.#prepare();
  }

  async #prepare(): Promise<NextTokens> {
    do await othersTurn();
    while (!this.#matcher.prepareMask(performance.now() + SLICE_MS));
    return this.#next();
  }

  #next(): NextTokens {
    const mask = new Uint32Array(this.#words);
    this.#matcher.mask(mask);
    const { mustEnd } = this.#matcher;
    return { mask, mustEnd, forcedText: this.#matcher.forcedText() };
  }

  close(): void {}
}

/** The service of a model's vocabulary. */
export function localGrammarService(
  { tokenizer, eosTokenIds }: Pick<TextModel, "tokenizer" | "eosTokenIds">,
  {
    vocabularySize,
    backend,
  }: { readonly vocabularySize: number; readonly backend: GrammarBackend },
): GrammarService {
  return new LocalGrammarService(() => {
    const vocabulary = new GrammarVocabulary(tokenizer.vocabulary, {
      endTokens: [...eosTokenIds].filter((id) => id < vocabularySize),
      size: vocabularySize,
    });
    return new GrammarCompiler({ vocabulary, frontEnds: frontEndsOf(backend) });
  });
}
