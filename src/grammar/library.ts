/**
 * Grammars for programs of their own: without a GPU, an engine or a model, in any runtime.
 *
 * ```ts
 * const grammar = compileGrammar({ jsonSchema: { type: "integer" } });
 * grammar.accepts("12"); // true
 * ```
 *
 * With a vocabulary, `createMatcher` follows a sequence of its tokens and says which may come next.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";
import { CONSTRAINT_KINDS, CONSTRAINTS } from "../sampling_params.ts";
import { frontEnds } from "./constraints/backends.ts";
import { jsonSource } from "./constraints/json_source.ts";
import { effortFor, limitEffort } from "./effort.ts";
import { type CompiledGrammar, compileGrammar as compile, type GrammarLimits } from "./grammar.ts";
import { GrammarVocabulary, type TokenSource } from "./masks/grammar_vocabulary.ts";
import { MaskCache } from "./masks/mask_cache.ts";
import type { JsonSchemaOptions } from "./schema/json_schema.ts";

/** Exactly one of these. */
export interface GrammarSource {
  /** A schema, as an object, a boolean or JSON text. */
  readonly jsonSchema?: unknown;
  /** A pattern that the whole text must match. */
  readonly regex?: string;
  /** A grammar in EBNF, from the rule `root`, or in Lark's notation, from `start`. */
  readonly ebnf?: string;
  /** `{structures: [{begin, schema, end}], triggers: [..]}` or `{format: {type}}`, or their JSON text. */
  readonly structuralTag?: unknown;
  /** Texts of which the whole text is one. */
  readonly choice?: readonly string[];
}

export interface CompileGrammarOptions {
  /**
   * Tokens to follow, which do not change: calls with the same object prepare them once. Default: one
   * for each byte.
   */
  readonly vocabulary?: TokenSource | undefined;
  /** Tokens that may come exactly where a text may end. Default none. */
  readonly endTokens?: readonly number[] | undefined;
  /** Tokens that masks speak of, if more than the vocabulary has. */
  readonly size?: number | undefined;
  /** How JSON is spelled and schemas are read. */
  readonly json?: JsonSchemaOptions | undefined;
  readonly limits?: GrammarLimits | undefined;
  /** Bytes of masks that are kept. Default 128 MiB. */
  readonly maxMaskBytes?: number | undefined;
}

/** Prepared ones, by the end tokens and the size: preparing one takes longer than most grammars. */
const prepared = new WeakMap<TokenSource, Map<string, GrammarVocabulary>>();

function vocabularyOf(
  tokens: TokenSource,
  { endTokens = [], size }: CompileGrammarOptions,
): GrammarVocabulary {
  const known = prepared.get(tokens) ?? new Map<string, GrammarVocabulary>();
  prepared.set(tokens, known);
  const key = JSON.stringify([endTokens, size]);
  const vocabulary = known.get(key) ?? new GrammarVocabulary(tokens, { endTokens, size });
  known.set(key, vocabulary);
  return vocabulary;
}

const BYTES: TokenSource = {
  size: 256,
  bytes: (id) => Uint8Array.of(id),
  isSpecial: () => false,
};

/**
 * @throws {GrammarError} when the source is malformed, contradicts itself, is beyond a limit, or says
 * something that cannot be enforced exactly.
 * @throws {InvalidRequestError} unless there is exactly one source.
 */
export function compileGrammar(
  source: GrammarSource,
  options: CompileGrammarOptions = {},
): CompiledGrammar {
  const { limits = {} } = options;
  const vocabulary = vocabularyOf(options.vocabulary ?? BYTES, options);
  const { kind, text } = readSource(source);
  const cache = new MaskCache(options.maxMaskBytes ?? 128 * 2 ** 20);
  return limitEffort(effortFor(text.length), () =>
    compile(frontEnds(options.json)[kind](text, { marks: vocabulary.marks }), {
      vocabulary,
      limits,
      cache,
    }),
  );
}

function readSource(source: GrammarSource) {
  const given = CONSTRAINTS.filter((name) => source[name] !== undefined);
  const [name] = given;
  if (name === undefined || given.length > 1) {
    const found = given.length === 0 ? "none" : given.join(" and ");
    throw new InvalidRequestError(
      `Cannot compile the grammar: it must have exactly one of ${CONSTRAINTS.join(", ")}, got ${found}`,
    );
  }
  const value = source[name];
  const isPattern = name === "regex" || name === "ebnf";
  if (isPattern && typeof value !== "string") {
    throw new InvalidRequestError(`${name} must be a string, got ${typeof value}`, name);
  }
  const isText = typeof value === "string" && name !== "choice";
  return { kind: CONSTRAINT_KINDS[name], text: isText ? value : jsonSource(value, name) };
}
