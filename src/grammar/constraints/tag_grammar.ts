/**
 * Formats of structural tags -> `Grammar`.
 *
 * Free text inside a tag ends where the tag's end first comes up. So the end of a tag is handed
 * down to what stands last in it: free text takes it as one more word that may not occur before.
 *
 * @module
 */

import { automatonOf } from "../automaton/code_point_automaton.ts";
import { ANY_CODE_POINT } from "../automaton/code_points.ts";
import { intersection } from "../automaton/regular.ts";
import { spendEffort } from "../effort.ts";
import { embed } from "../embed.ts";
import {
  type CodePointAutomaton,
  choice,
  type Expression,
  type Grammar,
  optional,
  regular,
  repeat,
  rule,
  sequence,
} from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { parseRegex } from "../regex/parse_regex.ts";
import { jsonSchemaGrammar } from "../schema/json_schema.ts";
import { JSON_RULES } from "../schema/rules/json_grammar.ts";
import { textUpTo, textWithout } from "./free_text.ts";
import { parseGrammar } from "./parse_grammar.ts";
import type { SchemaContext } from "./schema_context.ts";
import {
  type FreeFormat,
  limitWords,
  type Tag,
  type TagFormat,
  type TagsFormat,
  type TriggeredFormat,
} from "./tag_format.ts";

/** @throws {GrammarError} when a part cannot be enforced exactly. */
export function tagGrammar(format: TagFormat, context: SchemaContext): Grammar {
  const builder = new TagGrammarBuilder(context);
  const { rules, warnings } = builder;
  rules.set("root", builder.build(format, NOTHING));
  return { rules, root: "root", warnings };
}

/** Texts of which one comes behind a format. */
type Ends = readonly string[];

/** A format, and where it stands. */
type Placed<T> = T & { readonly path: string };

const END_EFFORT = 2;
/** Of each word that free text must not have before an end. */
const WORD_EFFORT = 0.05;
/** Nothing comes behind it. */
const NOTHING: Ends = [""];

class TagGrammarBuilder {
  readonly rules = new Map<string, Expression>();
  readonly warnings: string[] = [];
  readonly #context: SchemaContext;
  /** What comes behind the begins of tags. */
  readonly #rests = new Map<Tag, Expression>();
  /** Free texts, by their words and bounds. */
  readonly #texts = new Map<string, Expression>();
  #embedded = 0;

  constructor(context: SchemaContext) {
    this.#context = context;
  }

  /** The texts of a format, each with one of the ends behind it. */
  build(format: TagFormat, ends: Ends): Expression {
    switch (format.kind) {
      case "sequence": {
        const last = format.elements.at(-1)!;
        const before = format.elements.slice(0, -1).map((one) => this.build(one, NOTHING));
        return sequence([...before, this.build(last, ends)]);
      }
      case "or":
        return choice(format.elements.map((one) => this.build(one, ends)));
      case "free":
        return this.#free(format, ends);
      case "triggered":
        return this.#triggered(format, ends);
      default:
        return this.#closed(this.#bounded(format), ends);
    }
  }

  #closed(part: Expression, ends: Ends): Expression {
    if (ends === NOTHING) return part;
    spendEffort(END_EFFORT * ends.length);
    return sequence([part, choice(ends.map((end) => this.#context.marks.spell(end)))]);
  }

  /** The texts of a format that says itself where it ends. */
  #bounded(
    format: Exclude<TagFormat, { kind: "sequence" | "or" | "free" | "triggered" }>,
  ): Expression {
    const { path } = format;
    switch (format.kind) {
      case "text":
        return this.#context.marks.spell(format.value);
      case "schema":
        return this.#schema(format.schema, path);
      case "regex":
        return inside(path, () => parseRegex(format.source));
      case "grammar":
        return this.#grammar(format.source, path);
      case "repeat":
        return repeat(this.build(format.content, NOTHING), format);
      case "tag":
        return this.#tag(format);
      case "tags":
        return this.#tags(format);
      default:
        return format satisfies never;
    }
  }

  #schema(schema: unknown, path: string): Expression {
    const grammar = inside(path, () => jsonSchemaGrammar(schema, this.#context.json));
    return this.#embed(grammar, JSON_RULES);
  }

  #grammar(source: string, path: string): Expression {
    return this.#embed(inside(path, () => parseGrammar(source, this.#context)));
  }

  #embed(grammar: Grammar, shared?: ReadonlySet<string>): Expression {
    for (const warning of grammar.warnings ?? []) this.warnings.push(warning);
    return embed(this.rules, grammar, { prefix: `part ${this.#embedded++} `, shared });
  }

  #tag(tag: Tag): Expression {
    return sequence([this.#context.marks.spell(tag.begin), this.#rest(tag)]);
  }

  /** A rule for what comes behind the begin of a tag, which may stand in several places. */
  #rest(tag: Tag): Expression {
    let known = this.#rests.get(tag);
    if (known === undefined) {
      const name = `rest ${this.#embedded++}`;
      this.rules.set(name, this.build(tag.content, tag.ends));
      known = rule(name);
      this.#rests.set(tag, known);
    }
    return known;
  }

  #tags({ tags, separator, atLeastOne, stopAfterFirst }: TagsFormat): Expression {
    const one = choice(tags.map((tag) => this.#tag(tag)));
    const others = repeat(sequence([this.#context.marks.spell(separator), one]));
    const some = stopAfterFirst ? one : sequence([one, others]);
    return atLeastOne ? some : optional(some);
  }

  #free({ excludes, maxChars, path }: Placed<FreeFormat>, ends: Ends): Expression {
    const words = this.#words([...excludes, ...ends], path);
    return this.#textThen(words, { ends, maxChars });
  }

  /** Words that free text must not have in it; it has no special tokens anyway. */
  #words(all: readonly string[], path: string): readonly string[] {
    const { marks } = this.#context;
    const words = [...new Set(all)].filter((word) => word !== "" && !marks.occurs(word));
    limitWords(words, path);
    return words;
  }

  /** Free text, and what it ends with. */
  #textThen(
    words: readonly string[],
    { ends, maxChars }: { readonly ends: Ends; readonly maxChars?: number | undefined },
  ): Expression {
    spendEffort(ends.length * (END_EFFORT + WORD_EFFORT * words.length));
    const options = ends.map((end) => {
      if (words.includes(end)) return this.#textUpTo(words, end, maxChars);
      const text =
        words.length === 0 && maxChars !== undefined
          ? repeat(ANY_CHARACTER, { max: maxChars })
          : this.#text(words, maxChars);
      return sequence([text, this.#context.marks.spell(end)]);
    });
    return choice(options);
  }

  #text(words: readonly string[], maxChars?: number): Expression {
    return this.#shared(JSON.stringify([words, maxChars]), () =>
      bounded(textWithout(words), maxChars),
    );
  }

  #textUpTo(words: readonly string[], end: string, maxChars?: number): Expression {
    const longest = maxChars === undefined ? undefined : maxChars + Array.from(end).length;
    return this.#shared(JSON.stringify([words, end, longest]), () =>
      bounded(textUpTo(words, end), longest),
    );
  }

  #shared(key: string, make: () => CodePointAutomaton): Expression {
    let known = this.#texts.get(key);
    if (known === undefined) {
      known = regular(make());
      this.#texts.set(key, known);
    }
    return known;
  }

  #triggered(format: Placed<TriggeredFormat>, ends: Ends): Expression {
    const { triggers, tags, excludes, atLeastOne, stopAfterFirst, path } = format;
    const { marks } = this.#context;
    const words = this.#words([...triggers, ...excludes, ...ends], path);
    const text = this.#textThen(words, { ends });
    const parts = triggers.map((trigger) => {
      const isWord = words.includes(trigger);
      const begun = tags.filter(({ begin }) => begin.startsWith(trigger));
      const rests = begun.map((tag) => {
        const more = tag.begin.slice(isWord ? trigger.length : 0);
        return sequence([marks.spell(more), this.#rest(tag)]);
      });
      const before = isWord ? this.#textUpTo(words, trigger) : this.#text(words);
      return sequence([before, choice(rests)]);
    });
    const first = atLeastOne ? choice(tags.map((tag) => this.#tag(tag))) : choice(parts);
    if (stopAfterFirst) {
      const one = this.#closed(first, ends);
      return atLeastOne ? one : choice([text, one]);
    }
    const others = sequence([repeat(choice(parts)), text]);
    return atLeastOne ? sequence([first, others]) : others;
  }
}

const ANY_CHARACTER: Expression = { kind: "class", points: ANY_CODE_POINT };

function bounded(automaton: CodePointAutomaton, max: number | undefined): CodePointAutomaton {
  if (max === undefined) return automaton;
  return intersection(automaton, automatonOf(repeat(ANY_CHARACTER, { max })));
}

/** @throws {GrammarError} with the format's place where its own reader refuses it. */
function inside<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const problem = error.message.replace(/^Cannot /, "");
    throw new GrammarError(`Cannot enforce the structural tag's /${path}: cannot ${problem}`, {
      cause: error,
    });
  }
}
