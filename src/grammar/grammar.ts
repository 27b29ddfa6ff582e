/**
 * From a client's constraint to matchers: compiles each grammar once and shares what is found out.
 *
 * @module
 */

import type { Constraint, ConstraintKind, JsonOrder, JsonUnknown } from "../constraint.ts";
import { MAX_CONSTRAINT_UNITS } from "../request_limits.ts";
import { compileAutomaton } from "./automaton/compile_automaton.ts";
import type { ConfigurationLimits } from "./automaton/configuration_limits.ts";
import { Configurations } from "./automaton/configurations.ts";
import type { Marks } from "./constraints/marks.ts";
import { afterThinking } from "./constraints/thinking.ts";
import { LIST_BYTE } from "./distinct/distinct_bytes.ts";
import { DistinctMasks } from "./distinct/distinct_masks.ts";
import { MAX_DISTINCT_DEPTH } from "./distinct/item_memory.ts";
import { Positions } from "./distinct/positions.ts";
import { effortFor, limitEffort } from "./effort.ts";
import type { Grammar } from "./expression.ts";
import { GrammarError } from "./grammar_error.ts";
import type { GrammarVocabulary } from "./masks/grammar_vocabulary.ts";
import { MaskCache } from "./masks/mask_cache.ts";
import { TokenMasks } from "./masks/token_masks.ts";
import { GrammarMatcher } from "./matcher.ts";

export type { Constraint, ConstraintKind };

/**
 * Reads a constraint of one kind; special tokens stand in it by their names where it has a place for
 * them. Throws a `GrammarError` for what cannot be enforced exactly.
 */
export type FrontEnd = (source: string, context: FrontEndContext) => Grammar;

export interface FrontEndContext {
  readonly marks: Marks;
  /** Of the request, in place of what the service was told. */
  readonly jsonUnknown?: JsonUnknown | undefined;
  /** The same. */
  readonly jsonOrder?: JsonOrder | undefined;
}

export interface GrammarLimits extends Omit<ConfigurationLimits, "horizons"> {
  /** Nodes of an automaton. Default 250,000. */
  readonly maxNodes?: number | undefined;
}

export interface GrammarCompilerOptions {
  readonly vocabulary: GrammarVocabulary;
  /** The kinds that are supported. */
  readonly frontEnds: Readonly<Partial<Record<ConstraintKind, FrontEnd>>>;
  readonly limits?: GrammarLimits | undefined;
  /** UTF-16 units of a constraint. Default 1 Mi. */
  readonly maxSourceLength?: number | undefined;
  /** Memory of grammars that are kept for later requests. Default 256 MiB. */
  readonly maxGrammarBytes?: number | undefined;
  /** Memory of the masks of all grammars. Default 128 MiB. */
  readonly maxMaskBytes?: number | undefined;
}

/** Memory of what is known of a node besides what leads from it. */
const NEED_BYTES = 17;

/** A grammar for one vocabulary. Any number of sequences may use it at the same time. */
export class CompiledGrammar {
  /** What was ignored of the source, in sentences. */
  readonly warnings: readonly string[];
  readonly #configurations: Configurations;
  readonly #positions: Positions;
  readonly #distinct: DistinctMasks;
  readonly #automatonBytes: number;
  readonly #masks: TokenMasks;
  readonly #vocabulary: GrammarVocabulary;

  constructor(
    configurations: Configurations,
    {
      vocabulary,
      cache,
      warnings = [],
    }: {
      readonly vocabulary: GrammarVocabulary;
      readonly cache: MaskCache;
      readonly warnings?: readonly string[] | undefined;
    },
  ) {
    this.warnings = warnings;
    this.#configurations = configurations;
    this.#positions = new Positions(configurations);
    this.#distinct = new DistinctMasks(this.#positions, vocabulary);
    const { nodes } = configurations.automaton;
    this.#automatonBytes = nodes.bytes + nodes.length * NEED_BYTES;
    this.#vocabulary = vocabulary;
    this.#masks = new TokenMasks({ configurations, vocabulary, cache });
  }

  /** Memory, masks left out, roughly. It grows with use up to a limit. */
  get bytes(): number {
    return this.#automatonBytes + this.#configurations.bytes;
  }

  /** Forgets what was found out while it was followed; it is found out again when it is needed. */
  forget(): void {
    this.#configurations.forget();
  }

  /** A matcher at the beginning of a text. */
  createMatcher(): GrammarMatcher {
    this.#configurations.begin();
    return new GrammarMatcher({
      positions: this.#positions,
      masks: this.#masks,
      distinct: this.#distinct,
      vocabulary: this.#vocabulary,
    });
  }

  /** Whether the grammar accepts the whole text. */
  accepts(text: string): boolean {
    this.#configurations.begin();
    let at = this.#positions.start;
    for (const byte of new TextEncoder().encode(text)) {
      this.#configurations.begin();
      const next = this.#positions.step(at, byte);
      if (next === null) return false;
      at = { ...next, memory: next.memory?.settled() };
    }
    return at.configuration.accepting;
  }
}

/**
 * Compiles a grammar whatever it was written in.
 *
 * @throws {GrammarError} when it is contradictory or beyond a limit.
 */
export function compileGrammar(
  grammar: Grammar,
  {
    vocabulary,
    cache,
    limits = {},
  }: {
    readonly vocabulary: GrammarVocabulary;
    readonly cache: MaskCache;
    readonly limits?: GrammarLimits;
  },
): CompiledGrammar {
  const automaton = compileAutomaton(grammar, { maxNodes: limits.maxNodes });
  const mostDepth = automaton.nodes.hasFirst(LIST_BYTE) ? MAX_DISTINCT_DEPTH : undefined;
  const configurations = new Configurations(automaton, {
    ...limits,
    maxDepth: limits.maxDepth ?? mostDepth,
    horizons: vocabulary.horizons,
  });
  const { warnings } = grammar;
  return new CompiledGrammar(configurations, { vocabulary, cache, warnings });
}

/** Compiles constraints for one vocabulary and keeps what was compiled. */
export class GrammarCompiler {
  readonly #options: GrammarCompilerOptions;
  readonly #masks: MaskCache;
  /** By kind and source, in the order of their last use. */
  readonly #grammars = new Map<string, CompiledGrammar>();

  constructor(options: GrammarCompilerOptions) {
    this.#options = options;
    this.#masks = new MaskCache(options.maxMaskBytes ?? 128 * 2 ** 20);
  }

  /** 32-bit words of a mask. */
  get words(): number {
    return this.#options.vocabulary.words;
  }

  /** Grammars that are kept. */
  get size(): number {
    return this.#grammars.size;
  }

  /**
   * The compiled grammar of a constraint, from an earlier request where there was one.
   *
   * @throws {GrammarError} when the kind is not supported, or the constraint is malformed, cannot be
   * enforced exactly, satisfied by no text or beyond a limit.
   */
  compile({ kind, source, thinking, jsonUnknown, jsonOrder }: Constraint): CompiledGrammar {
    const {
      frontEnds,
      vocabulary,
      limits = {},
      maxSourceLength = MAX_CONSTRAINT_UNITS,
    } = this.#options;
    const key = JSON.stringify([kind, source, thinking, jsonUnknown, jsonOrder]);
    let grammar = this.#grammars.get(key);
    if (grammar === undefined) {
      const readSource = frontEnds[kind];
      if (readSource === undefined) {
        throw new GrammarError(`Cannot use ${kind}: the grammar backend does not support it`);
      }
      if (source.length > maxSourceLength) {
        throw new GrammarError(`Cannot use ${kind}: it is longer than ${maxSourceLength}`);
      }
      const { marks } = vocabulary;
      grammar = limitEffort(effortFor(source.length), () => {
        const context = { marks, jsonUnknown, jsonOrder };
        const read = afterThinking(readSource(source, context), { thinking, marks });
        return compileGrammar(read, { vocabulary, cache: this.#masks, limits });
      });
    }
    this.#grammars.delete(key);
    this.#grammars.set(key, grammar);
    this.#forgetOldest();
    return grammar;
  }

  /** The newest grammar stays, even where it alone is beyond the budget. */
  #forgetOldest(): void {
    const { maxGrammarBytes = 256 * 2 ** 20 } = this.#options;
    let bytes = 0;
    for (const [key, grammar] of this.#grammars) bytes += grammar.bytes + key.length * 2;
    for (const [key, grammar] of this.#grammars) {
      if (bytes <= maxGrammarBytes || this.#grammars.size === 1) return;
      bytes -= grammar.bytes + key.length * 2;
      this.#grammars.delete(key);
    }
  }
}
