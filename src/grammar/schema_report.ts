/**
 * What a schema means here, for its author.
 *
 * @module
 */

import { compileAutomaton } from "./automaton/compile_automaton.ts";
import { effortFor, limitEffort } from "./effort.ts";
import { exampleText } from "./example_text.ts";
import { compileGrammar } from "./grammar.ts";
import { GrammarVocabulary } from "./masks/grammar_vocabulary.ts";
import { MaskCache } from "./masks/mask_cache.ts";
import { type JsonSchemaOptions, jsonSchemaGrammar } from "./schema/json_schema.ts";
import { parseJson } from "./schema/json_text.ts";
import { isObject } from "./schema/json_value.ts";
import { isAnnotation } from "./schema/keyword_forms.ts";
import { SchemaTree } from "./schema/schema_tree.ts";

export interface SchemaReport {
  readonly dialect: string;
  /** Schemas in it, itself one of them. */
  readonly schemas: number;
  /** How often each keyword stands in it that is enforced. */
  readonly keywords: Readonly<Record<string, number>>;
  /** What was ignored or left out. */
  readonly warnings: readonly string[];
  /** Of the automaton that follows answers. */
  readonly nodes: number;
  /** Milliseconds. */
  readonly compileTime: number;
  /** A short answer that fits; absent where none was found. */
  readonly example?: string;
}

/** @throws {GrammarError} where the schema is refused. */
export function reportSchema(text: string, options: JsonSchemaOptions = {}): SchemaReport {
  const { dialect = "2020-12", unknown = "ignore" } = options;
  const tree = new SchemaTree(parseJson(text), { dialect, unknown });
  const keywords = new Map<string, number>();
  let schemas = 0;
  for (const { value } of tree.nodes()) {
    schemas += 1;
    for (const name of isObject(value) ? Object.keys(value) : []) {
      if (!isAnnotation(name)) keywords.set(name, (keywords.get(name) ?? 0) + 1);
    }
  }
  const begin = performance.now();
  const { grammar, automaton } = limitEffort(effortFor(text.length), () => {
    const read = jsonSchemaGrammar(text, options);
    return { grammar: read, automaton: compileAutomaton(read) };
  });
  const compileTime = performance.now() - begin;
  const example = exampleText(grammar);
  const vocabulary = new GrammarVocabulary(NO_TOKENS, { endTokens: [] });
  const compiled = compileGrammar(grammar, { vocabulary, cache: new MaskCache(0) });
  const fits = example !== undefined && compiled.accepts(example);
  return {
    dialect: tree.root.resource.dialect,
    schemas,
    keywords: Object.fromEntries([...keywords].sort(([a], [b]) => (a < b ? -1 : 1))),
    warnings: grammar.warnings ?? [],
    nodes: automaton.nodes.length,
    compileTime,
    ...(fits ? { example } : undefined),
  };
}

const NO_TOKENS = { size: 0, bytes: () => new Uint8Array(), isSpecial: () => false };
